"""Rules that a suite sets for its cases: how many rounds (`repeat: auto`) and which steps count (a fixed window)."""

from __future__ import annotations

import msgspec

from trainmark.errors import UserError
from trainmark.spec.notation import parse_share

# Fewer rounds say nothing of a spread.
LEAST_PILOT = 3


class RepeatAuto(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`repeat_auto` of a suite: rounds until the true speed is known to ±target, as a pilot foretells.

    With fewer than 10 rounds the usual interval would be too narrow, since the same pilot chose where to stop: it would
    cover 92 % instead of 95 %. With 10 it covers 94 % at worst.
    """

    target: str | float = "2%"
    pilot: int = 5
    min: int = 10
    max: int = 30

    @property
    def width(self) -> float:
        return parse_share(self.target, "repeat_auto.target")


def check_repeat_auto(found: RepeatAuto, place: str) -> None:
    parse_share(found.target, f"{place}.target")
    if found.pilot < LEAST_PILOT:
        raise UserError(f"{place}.pilot: found {found.pilot}, allowed is {LEAST_PILOT} and more")
    if found.min < found.pilot:
        raise UserError(f"{place}.min: found {found.min}, allowed is from the pilot's {found.pilot} on")
    if found.max < found.min:
        raise UserError(f"{place}.max: found {found.max}, allowed is from `min`, {found.min}, on")


class FixedWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Leave out the first `skip` steps, count the next `steps`."""

    skip: int
    steps: int


def check_window(window: FixedWindow | None, place: str) -> None:
    if window is None:
        return
    # The clock starts at the end of a step: the first one cannot be counted.
    for name, value, least in (("skip", window.skip, 1), ("steps", window.steps, 1)):
        if value < least:
            raise UserError(f"{place}.{name}: found {value}, allowed is a whole number from {least}")
