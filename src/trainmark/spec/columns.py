"""What an attempt left, as records and arrays: made by the store, read by scoring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from trainmark.reasons import Reason

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]

# In one step of one rank; more is a broken record.
MOST_SAMPLES = 10**12
LARGEST_FLOAT = 1e150


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


class Steps(msgspec.Struct, frozen=True, eq=False):
    """A rank's steps in order: number, end on its own clock, samples (0: not said), wait for data (ns), loss or NaN."""

    step: Ints
    t: Ints
    n: Ints
    data: Ints
    loss: Floats
    # After these steps the device was synchronised, at these times.
    block_step: Ints
    block_t: Ints
    # What the device itself says a step took (ns), or NaN; None: it says nothing.
    device: Floats | None = None


class RankColumns(msgspec.Struct, frozen=True, eq=False):
    """One rank. Its clock is compared with another's only if both are on the same node."""

    rank: int
    node: str
    # First and last event.
    first: int
    last: int
    # Everything but steps, blocks, losses and the device's times, in order.
    marks: list[Event]
    # None: it made no step.
    steps: Steps | None = None
    # Step records that cannot be true: time or steps running backwards, samples below one.
    odd: int = 0

    @property
    def timing(self) -> str:
        """`host`: a step's end is exact. `host-enqueue`: only block edges are."""
        return next((mark.timing for mark in self.marks if mark.k == "INIT_START" and mark.timing), "host")

    @property
    def speaks_for_all(self) -> bool:
        """Whether its records hold the samples of every rank, as those of an imported log may."""
        return any(mark.scope == "global" for mark in self.marks if mark.k == "INIT_START")

    def mark(self, kind: str) -> int | None:
        """When the first event of this kind came."""
        return next((mark.t for mark in self.marks if mark.k == kind), None)

    def notes(self, name: str) -> list[object]:
        """Every value noted under this name, in order."""
        return [mark.value for mark in self.marks if mark.k == "NOTE" and mark.name == name]


class Columns(msgspec.Struct, frozen=True, eq=False):
    """One attempt: its ranks in order, how many lines there were, and what was passed over."""

    ranks: list[RankColumns]
    warnings: list[Reason]
    lines: int


class NodeSamples(msgspec.Struct, frozen=True):
    """What was sampled on one node. `t` of a record is on the clock of that node's ranks."""

    node: str
    records: list[dict[str, Any]]
    # Processors of the node; None when it is not known.
    cores: int | None = None
    # Nodes with the same one share a kernel, and its clock; empty when it is not known.
    machine: str = ""
    # Of which devices its ranks had, by index; None: all that were sampled. And the models of its devices.
    devices: tuple[int, ...] | None = None
    models: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The node's name without its place in the attempt."""
        return self.node.rpartition("_noderank")[0] or self.node

    def within(self, begin: int, end: int) -> list[dict[str, Any]]:
        """The records about a time: each tells of the interval that it ends."""
        return [record for record in self.records if begin < record["t"] <= end]

    def mean(self, name: str, begin: int, end: int) -> float | None:
        """The mean of a value over a time; None when no record has it."""
        values = [record[name] for record in self.within(begin, end) if is_number(record.get(name))]
        return sum(values) / len(values) if values else None


def is_number(value: object) -> TypeGuard[float]:
    """A finite number of a size that computing can bear; a foreign file may hold anything where one is expected."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST_FLOAT < value < LARGEST_FLOAT


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
    # Seconds inside the optimizer's step, over all steps; 0 where the trace does not mark it.
    optimizer: float = 0.0

    @property
    def device(self) -> bool:
        return len(self.launches) > 0
