"""An event: one line a training process wrote about itself. What the kinds mean is in docs/events.md."""

# Annotations are objects here, not text: msgspec would compile each text when the first record is read.
from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields that are read again; a line may hold more. `t` is the rank's own monotonic clock, in ns."""

    k: str
    rank: int
    seq: int
    t: int
    step: int | None = None
    n: int | None = None
    data: int | None = None
    loss: float | str | None = None
    steps: list[int] = []
    values: Any = None
    name: str | None = None
    value: Any = None
    timing: str | None = None
    scope: str | None = None
    world: int | None = None
    wall: int | None = None
