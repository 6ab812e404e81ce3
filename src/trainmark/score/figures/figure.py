"""One figure of one run: its value, or why there is none."""

from __future__ import annotations

import msgspec

from trainmark.reasons import Reason


class Figure(msgspec.Struct, frozen=True):
    """`seen` is a value that is no result (`reason` says why); it is shown as such."""

    value: float | None
    reason: Reason | None = None
    seen: float | None = None
    # How it was found, where there is more than one way.
    how: Reason | None = None


def known(value: float | None, otherwise: Reason | None) -> Figure:
    return Figure(value) if value is not None else Figure(None, otherwise)


def ratio(part: Figure, whole: float | None, otherwise: Reason | None) -> Figure:
    """`part` ÷ `whole`; what is missing in either is missing in the ratio, for the same reason."""
    if whole is None or whole <= 0:
        return Figure(None, otherwise)
    if part.value is None:
        return Figure(None, part.reason, part.seen / whole if part.seen is not None else None)
    return Figure(part.value / whole)
