"""Which steps count. Too few of them, or too short a time, give no headline."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal

import msgspec

from trainmark.score.steps import NS, RankSteps, common_steps

LEAST_STEPS = 30
LEAST_SECONDS = 10.0
METHOD = "after-first-tenth"

Outcome = Literal["long enough", "too short"]


class Window(msgspec.Struct, frozen=True):
    """Steps after `before` up to `last`: `before` is the step at whose end the clock starts."""

    before: int
    last: int
    seconds: float
    sustained_seconds: float
    samples: int
    outcome: Outcome
    method: str = METHOD

    @property
    def steps(self) -> int:
        return self.last - self.before


def find(ranks: Sequence[RankSteps]) -> Window | None:
    """The common steps of all ranks without the first tenth, which warms up."""
    common = common_steps(ranks)
    if common is None:
        return None
    first, last = common
    edges = _edges(ranks, first + (last - first + 1) // 10, last)
    if edges is None:
        return None
    before, last = edges
    # The slowest rank's own duration: clocks of different ranks are never subtracted from each other.
    sustained = max(_span(rank, before, last) for rank in ranks)
    seconds = max(_span(rank, before, last) - _sum(rank, rank.paused, before, last) * NS for rank in ranks)
    samples = sum(_sum(rank, rank.n, before, last) for rank in ranks)
    if seconds <= 0:
        return None
    enough = last - before >= LEAST_STEPS and seconds >= LEAST_SECONDS
    return Window(before, last, seconds, sustained, samples, "long enough" if enough else "too short")


def data_wait(ranks: Sequence[RankSteps], window: Window) -> float:
    """The share of the window that the slowest-fed rank waited for data."""
    return max(_sum(rank, rank.data, window.before, window.last) * NS for rank in ranks) / window.seconds


def _edges(ranks: Sequence[RankSteps], before: int, last: int) -> tuple[int, int] | None:
    """Edges at which every rank's clock can be trusted: any step of a synchronous device, else block edges."""
    queued = [rank for rank in ranks if rank.timing != "host"]
    if queued:
        shared = set.intersection(*(set(rank.block_steps) for rank in queued))
        usable = sorted(step for step in shared if before <= step <= last)
        if len(usable) < 2:
            return None
        before, last = usable[0], usable[-1]
    return (before, last) if before < last else None


def _time(rank: RankSteps, step: int) -> int:
    if rank.timing == "host":
        return rank.t[bisect_left(rank.step, step)]
    return rank.block_t[bisect_left(rank.block_steps, step)]


def _span(rank: RankSteps, before: int, last: int) -> float:
    return (_time(rank, last) - _time(rank, before)) * NS


def _sum(rank: RankSteps, values: Sequence[int], before: int, last: int) -> int:
    """Over the steps after `before` up to `last`."""
    return sum(values[bisect_right(rank.step, before) : bisect_right(rank.step, last)])
