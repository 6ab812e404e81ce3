"""Where the time of a rank went: start, training, declared phases. Single events only: no arrays, no NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.spec.columns import RankColumns

NS = 1e-9
EVALUATE = "evaluate"
CHECKPOINT = "checkpoint"


class RankTimes(msgspec.Struct, frozen=True):
    """Seconds of one rank, on its own clock. None: it did not report when that ended."""

    end_to_end: float
    init: float | None
    train: float | None
    # Declared phases inside training, by name, and outside of training and start.
    inside: dict[str, float]
    outside: dict[str, float]
    data: float

    @property
    def no_evaluation(self) -> float | None:
        return None if self.train is None else self.train - self.inside.get(EVALUATE, 0.0)

    @property
    def compute(self) -> float | None:
        if self.no_evaluation is None:
            return None
        return self.no_evaluation - self.inside.get(CHECKPOINT, 0.0) - self.data

    def parts(self) -> dict[str, float]:
        """Parts that add up to `end_to_end`."""
        found = {"init": self.init or 0.0, "train": (self.train or 0.0) - sum(self.inside.values())}
        for name in sorted({*self.inside, *self.outside}):
            found[name] = self.inside.get(name, 0.0) + self.outside.get(name, 0.0)
        found["other"] = max(0.0, self.end_to_end - sum(found.values()))
        return found


def pauses(rank: RankColumns) -> list[tuple[str, int, int]]:
    """Declared phases: name, begin, end. Of phases inside each other the outermost counts."""
    found: list[tuple[str, int, int]] = []
    stack: list[tuple[str, int]] = []
    for mark in rank.marks:
        if mark.k == "PHASE_BEGIN":
            stack.append((mark.name or "", mark.t))
        elif mark.k == "PHASE_END" and stack:
            name, begin = stack.pop()
            if not stack:
                found.append((name, begin, max(begin, mark.t)))
    return found


def rank_times(rank: RankColumns) -> RankTimes:
    # The first event may tell of a moment before its own: no part of a life is negative.
    begin = min(_or(rank.mark("INIT_START"), rank.first), _or(rank.mark("TRAIN_START"), rank.first))
    end = _or(rank.mark("FINISHED"), rank.last)
    started = rank.mark("TRAIN_START")
    ended = rank.mark("TRAIN_END")
    if ended is None and rank.steps is not None:
        ended = int(rank.steps.t[-1])
    ready = rank.mark("INIT_END")
    ready = started if ready is None else ready
    inside: dict[str, float] = {}
    outside: dict[str, float] = {}
    for name, since, until in pauses(rank):
        trained = started is not None and ended is not None and started <= since <= ended
        if trained or ready is None or since >= ready:
            part = inside if trained else outside
            part[name] = part.get(name, 0.0) + (until - since) * NS
    return RankTimes(
        end_to_end=(end - begin) * NS,
        init=(ready - begin) * NS if ready is not None else None,
        train=(ended - started) * NS if started is not None and ended is not None else None,
        inside=inside,
        outside=outside,
        data=int(rank.steps.data.sum()) * NS if rank.steps is not None else 0.0,
    )


def longest(ranks: Sequence[RankColumns]) -> list[RankTimes]:
    """The times of every rank, the one with the longest life first."""
    return sorted((rank_times(rank) for rank in ranks), key=lambda found: -found.end_to_end)


def _or(found: int | None, otherwise: int) -> int:
    return otherwise if found is None else found
