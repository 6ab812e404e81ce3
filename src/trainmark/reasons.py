"""Reasons as values: why a figure is missing, a round failed or a node is suspect.

A reason is a code and its arguments from where it arises to the screen. Words, in any language, are made of it only by
`trainmark.i18n`, which has a template for every code. Nothing decides by looking into a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

# Words of an older run or of another tool: shown as they are, in every language.
TEXT = "text"
# The service that ran the job was emulated: the figures are another machine's than its name says.
EMULATED = "emulated"


class Reason(msgspec.Struct, frozen=True):
    """`Reason("rank-exited", {"rank": 0, "code": 3})`. An argument may be a reason itself, or a list of them; both
    are held as they stand in files, so that a reason that was written and read again is the same."""

    code: str
    arguments: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.code, msgspec.json.encode(self.arguments)))


def reason(code: str, /, **arguments: Any) -> Reason:
    """`reason("rank-exited", rank=0, code=3)`."""
    return Reason(code, {name: _as_in_files(value) for name, value in arguments.items()})


def _as_in_files(value: Any) -> Any:
    if isinstance(value, Reason):
        return {"code": value.code, "arguments": value.arguments}
    return [_as_in_files(one) for one in value] if isinstance(value, (list, tuple)) else value


def listed(items: Sequence[Any], most: int = 8) -> list[Any] | Reason:
    """Many things as an argument of a reason: the first few, and how many more there are."""
    if len(items) <= most:
        return list(items)
    return Reason("and-more", {"items": list(items[:most]), "count": len(items) - most})


def as_reason(value: Reason | dict[str, Any] | str | None) -> Reason | None:
    """What a file holds, as a reason: journals and results of older versions hold English text."""
    if value is None or isinstance(value, Reason):
        return value
    if isinstance(value, str):
        return Reason(TEXT, {"text": value}) if value else None
    try:
        return msgspec.convert(value, Reason)
    except msgspec.ValidationError:  # a damaged file
        return Reason(TEXT, {"text": str(value)})
