"""The templates of all reasons, from one catalogue per room that gives reasons."""

from __future__ import annotations

from functools import cache
from string import Formatter
from typing import NamedTuple

from trainmark.report.i18n import reasons_automl, reasons_campaign, reasons_common

CATALOGUES: tuple[dict[str, tuple[str, str]], ...] = (
    reasons_common.REASONS,
    # One line for each room, in alphabetical order.
    reasons_automl.REASONS,
    reasons_campaign.REASONS,
)
REASONS: dict[str, tuple[str, str]] = {code: pair for catalogue in CATALOGUES for code, pair in catalogue.items()}


class Field(NamedTuple):
    """`{seconds:.1f}`"""

    name: str
    spec: str


def parts(template: str) -> list[tuple[str, Field | None]]:
    """Literal text, each piece followed by a field (None: the template ends there)."""
    return [
        (literal, None if name is None else Field(name, spec or ""))
        for literal, name, spec, _ in Formatter().parse(template)
    ]


class Numbered(NamedTuple):
    """A template whose fields are counted, `{0}`, `{1}` …, the same way in every language."""

    texts: tuple[str, str]
    fields: tuple[Field, ...]


@cache
def numbered(code: str) -> Numbered:
    pair = [parts(template) for template in REASONS[code]]
    fields = tuple(dict.fromkeys(field for pieces in pair for _, field in pieces if field is not None))
    english, chinese = (
        "".join(literal + ("" if field is None else f"{{{fields.index(field)}}}") for literal, field in pieces)
        for pieces in pair
    )
    return Numbered((english, chinese), fields)
