"""The steps of all ranks on one grid: the edges at which every rank's clock can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from trainmark.score.figures.phases import pauses
from trainmark.spec.columns import RankColumns, Steps

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats, Ints

NS = 1e-9


class Grid(msgspec.Struct, frozen=True, eq=False):
    """Rows are ranks, columns are edges (ends of steps that all ranks share). All but `t` count from the first step."""

    ranks: list[int]
    nodes: list[str]
    edges: Ints
    # Each row on its rank's own clock: rows are never subtracted from each other.
    t: Ints
    # Inside declared phases; samples; waiting for data.
    rest: Ints
    n: Ints
    data: Ints

    def net(self, first: int, last: int) -> Floats:
        """Seconds of each rank between two edges (by position), declared phases left out."""
        return self.span(first, last) - _seconds(self.rest[:, last] - self.rest[:, first])

    def span(self, first: int, last: int) -> Floats:
        return _seconds(self.t[:, last] - self.t[:, first])

    def series(self, row: int) -> Floats:
        """Seconds per step of one rank, one value for each pair of neighbouring edges."""
        net, edges = self.t[row] - self.rest[row], self.edges
        return _seconds(net[1:] - net[:-1]) / (edges[1:] - edges[:-1])

    def slowest(self, first: int, last: int) -> int:
        return int(self.net(first, last).argmax())


def _seconds(nanoseconds: Ints) -> Floats:
    return nanoseconds.astype("float64") * NS


def exact(ranks: Sequence[RankColumns]) -> bool:
    """Whether every step's end is exact, so that single steps can be spoken of."""
    return all(rank.timing == "host" for rank in ranks)


def grid(ranks: Sequence[RankColumns]) -> Grid | None:
    """None when a rank has no steps, or fewer than two edges are shared."""
    import numpy as np

    steps = [rank.steps for rank in ranks if rank.steps is not None]
    if not ranks or len(steps) < len(ranks):
        return None
    edges = reduce(_shared, (_edges(rank, own) for rank, own in zip(ranks, steps, strict=True)))
    if len(edges) < 2:
        return None
    shape = (len(ranks), len(edges))
    t, rest, n, data = (np.empty(shape, dtype=np.int64) for _ in range(4))
    for row, (rank, own) in enumerate(zip(ranks, steps, strict=True)):
        at = np.searchsorted(own.step, edges)
        if rank.timing == "host":
            t[row] = own.t[at]
        else:
            t[row] = own.block_t[np.searchsorted(own.block_step, edges)]
        rest[row] = _paused(rank, own)[at]
        n[row] = np.cumsum(own.n)[at]
        data[row] = np.cumsum(own.data)[at]
    return Grid([rank.rank for rank in ranks], [rank.node for rank in ranks], edges, t, rest, n, data)


def _shared(some: Ints, others: Ints) -> Ints:
    import numpy as np

    return some if np.array_equal(some, others) else np.intersect1d(some, others, assume_unique=True)


def _edges(rank: RankColumns, own: Steps) -> Ints:
    """Any step of a synchronous device, else block edges."""
    import numpy as np

    return own.step if rank.timing == "host" else np.intersect1d(own.block_step, own.step)


def _paused(rank: RankColumns, own: Steps) -> Ints:
    """Nanoseconds inside declared phases up to the end of each step."""
    import numpy as np

    spent = np.zeros(len(own.t), dtype=np.int64)
    for _, begin, end in pauses(rank):
        low, high = np.searchsorted(own.t, (begin, end)).tolist()
        # A phase between two steps falls into the later one; one around steps is shared out.
        for at in range(low, min(high, len(spent) - 1) + 1):
            since = max(begin, int(own.t[at - 1])) if at else begin
            spent[at] += max(0, min(end, int(own.t[at])) - since)
    return np.cumsum(spent)


def by_device(rank: RankColumns, before: int, last: int) -> Floats | None:
    """Seconds of each step after `before` up to `last`, timed by the device, without those that a declared phase lies
    in; None unless the device timed them all."""
    import numpy as np

    own = rank.steps
    if own is None or own.device is None:
        return None
    inside = (own.step > before) & (own.step <= last)
    trained = np.diff(_paused(rank, own), prepend=0) == 0
    found = own.device[inside & trained] * NS
    whole = int(inside.sum()) == last - before and len(found) > 0 and bool((found >= 0).all())
    return found if whole else None


def losses(ranks: Sequence[RankColumns]) -> dict[int, float]:
    """The loss of training by step, the mean over the ranks that reported one."""
    found: dict[int, list[float]] = {}
    for rank in ranks:
        if rank.steps is not None:
            for step, loss in zip(rank.steps.step.tolist(), rank.steps.loss.tolist(), strict=True):
                if loss == loss:
                    found.setdefault(step, []).append(loss)
    return {step: sum(values) / len(values) for step, values in found.items()}
