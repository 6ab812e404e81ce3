"""A fixed window: which steps count, said beforehand, as other benchmarks do."""

# Annotations are objects here, not text: msgspec would compile each text when the first record is read.
import msgspec

from trainmark.errors import UserError


class FixedWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Leave out the first `skip` steps, count the next `steps`."""

    skip: int
    steps: int


def check(window: FixedWindow | None, place: str) -> None:
    if window is None:
        return
    # The clock starts at the end of a step: the first one cannot be counted.
    for name, value, least in (("skip", window.skip, 1), ("steps", window.steps, 1)):
        if value < least:
            raise UserError(f"{place}.{name}: found {value}, allowed is a whole number from {least}")
