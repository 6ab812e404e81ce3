"""Where a series of runs changed its level: splits that chance would not make, found by permuting the runs. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import msgspec

# Fewer runs on a side say nothing of a level; fewer in all have too few orders to tell chance from change.
LEAST_SIDE = 3
LEAST = 2 * LEAST_SIDE
LEVEL = 0.05
_PERMUTATIONS = 999


class Change(msgspec.Struct, frozen=True):
    """The level changed before the run at `index`; `ratio` is after ÷ before, `p` the chance of such a split."""

    index: int
    ratio: float
    p: float


def changes(speeds: Sequence[float], seed: int = 0) -> list[Change]:
    """All changes of level, in order. The series is split where its halves differ most, if no more than 5 % of random
    orders split as well, and each half is looked at again."""
    logs = [math.log(speed) for speed in speeds]
    places: list[tuple[int, float]] = []
    _split(logs, 0, random.Random(seed), places)  # noqa: S311 - orders, not secrets
    edges = [0, *sorted(index for index, _ in places), len(logs)]
    chance = dict(places)
    found = []
    for before, at, after in zip(edges, edges[1:-1], edges[2:], strict=False):
        step = _mean(logs[at:after]) - _mean(logs[before:at])
        found.append(Change(at, math.exp(step), chance[at]))
    return found


def _split(values: list[float], offset: int, dice: random.Random, places: list[tuple[int, float]]) -> None:
    if len(values) < LEAST:
        return
    at, strongest = _best(values)
    shuffled, as_strong = list(values), 0
    for _ in range(_PERMUTATIONS):
        dice.shuffle(shuffled)
        as_strong += _best(shuffled)[1] >= strongest - 1e-12
    chance = (as_strong + 1) / (_PERMUTATIONS + 1)
    if chance <= LEVEL and strongest > 0:
        places.append((offset + at, chance))
        _split(values[:at], offset, dice, places)
        _split(values[at:], offset + at, dice, places)


def _best(values: list[float]) -> tuple[int, float]:
    """Where two halves differ most, and how much of all variation that split explains (not its t: that would be
    endless for halves without any spread)."""
    n, total = len(values), math.fsum(values)
    best, at, head = -1.0, 0, math.fsum(values[: LEAST_SIDE - 1])
    for index in range(LEAST_SIDE, n - LEAST_SIDE + 1):
        head += values[index - 1]
        gap = head / index - (total - head) / (n - index)
        weight = index * (n - index) / n * gap * gap
        if weight > best:
            best, at = weight, index
    return at, best


def levels(speeds: Sequence[float], found: Sequence[Change]) -> list[float]:
    """The level of each run: the geometric mean of its stretch between changes."""
    edges = [0, *(one.index for one in found), len(speeds)]
    logs = [math.log(speed) for speed in speeds]
    return [math.exp(_mean(logs[start:end])) for start, end in itertools.pairwise(edges) for _ in range(start, end)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
