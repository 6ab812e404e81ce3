"""`repeat: auto`: how many rounds a case gets is decided by the spread of its first ones."""

# Annotations are objects here, not text: msgspec would compile each text when the first record is read.
import msgspec

from trainmark.errors import UserError
from trainmark.spec import share

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
        return share.parse(self.target, "repeat_auto.target")


def check(found: RepeatAuto, place: str) -> None:
    share.parse(found.target, f"{place}.target")
    if found.pilot < LEAST_PILOT:
        raise UserError(f"{place}.pilot: found {found.pilot}, allowed is {LEAST_PILOT} and more")
    if found.min < found.pilot:
        raise UserError(f"{place}.min: found {found.min}, allowed is from the pilot's {found.pilot} on")
    if found.max < found.min:
        raise UserError(f"{place}.max: found {found.max}, allowed is from `min`, {found.min}, on")
