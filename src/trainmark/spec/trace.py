"""What a rank's trace says, as spans of time: made by the store, read by scoring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats


class Collectives(msgspec.Struct, frozen=True, eq=False):
    """Calls of one kind in one process group, in order: begin and end of each, as rows."""

    group: str
    spans: Floats
    # Whether every rank of the group takes part in each call; a message from one rank to another has two.
    joint: bool = True


class Trace(msgspec.Struct, frozen=True, eq=False):
    """One rank. Seconds since its first step began; rows are begin and end, in no order unless it is said."""

    rank: int
    # In order; what is declared to be no training (evaluation, checkpoints) is in `pauses`.
    steps: Floats
    pauses: Floats
    data: Floats
    compute: Floats
    copies: Floats
    collectives: list[Collectives]
    # When the host asked for each span on the device, in the order of compute, copies, collectives; NaN: not known.
    # Empty for devices that do at once what they are asked to, as a CPU does.
    launches: Floats
    # Seconds of each operator without those it calls, and how often it was called, over all steps.
    operators: dict[str, tuple[float, int]] = {}
    # Work was replayed from a captured graph: single launches are not seen.
    graphs: bool = False

    @property
    def device(self) -> bool:
        return len(self.launches) > 0
