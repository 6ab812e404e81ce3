"""Where a series of runs changed its level: splits that noise would not make. Pure.

Runs of neighbouring days are alike, so orders of runs are no fair dice: a slow drift of the machine would be taken for
a change. The split that explains most is held against the best splits of random series with the same autocorrelation,
which is taken from what the split leaves over, and put up by what so few runs hide of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from numpy.random import Generator

    from trainmark.spec.columns import Floats

# Fewer runs on a side say nothing of a level.
LEAST_SIDE = 3
LEAST = 2 * LEAST_SIDE
LEVEL = 0.05
# Of the last run alone: it is looked at after every run, so it must lie further off.
LAST_LEVEL = 0.02
LEAST_BEFORE_LAST = 5
MOST_MEMORY = 0.95
# The autocorrelation is taken larger by so many of its standard errors: few runs tell little of it.
CAUTION = 2.25
# Of one level less is hidden; and a last run that is not shown is as bad as one that is shown wrongly.
LAST_CAUTION = 0.5
_SERIES = 1999


class Change(msgspec.Struct, frozen=True):
    """The level changed before the run at `index`; `ratio` is after ÷ before, `p` the chance of such a split."""

    index: int
    ratio: float
    p: float


class Last(msgspec.Struct, frozen=True):
    """The last run against those of its level before it: `ratio` to their mean, beyond what so many let expect."""

    ratio: float
    # The share by which a run of that level may differ from their mean.
    expected: float
    runs: int


def changes(speeds: Sequence[float], seed: int = 0) -> list[Change]:
    """All changes of level, in order. The series is split where its halves differ most, if no more than 5 % of random
    series split as well, and each half is looked at again."""
    import numpy as np

    logs = np.log(np.asarray(speeds, dtype=np.float64))
    places: list[tuple[int, float]] = []
    _split(logs, 0, np.random.default_rng(seed), places)
    edges = [0, *sorted(index for index, _ in places), len(logs)]
    chance = dict(places)
    found = []
    for before, at, after in zip(edges, edges[1:-1], edges[2:], strict=False):
        step = float(logs[at:after].mean() - logs[before:at].mean())
        found.append(Change(at, math.exp(step), chance[at]))
    return found


def last(speeds: Sequence[float], found: Sequence[Change], own: float = 0.0) -> Last | None:
    """Whether the last run lies off the runs before it since the last change: further, in units of their spread, than
    98 % of the last values of random series with their autocorrelation do. `found`: changes without the last run;
    `own`: the error of its ln(speed)."""
    import numpy as np

    begin = found[-1].index if found else 0
    logs = np.log(np.asarray(speeds[begin:], dtype=np.float64))
    before = len(logs) - 1
    if before < LEAST_BEFORE_LAST:
        return None
    off, spread = (float(part[0]) for part in _off(logs[None, :]))
    rest = logs[:-1] - logs[:-1].mean()
    products, squares = float((rest[1:] * rest[:-1]).sum()), float((rest**2).sum())
    memory = _memory(products, squares, before, levels=1, caution=LAST_CAUTION)
    others, spreads = _off(_random(before + 1, memory, np.random.default_rng(0)))
    reach = float(np.quantile(np.abs(others) / spreads, 1 - LAST_LEVEL)) * max(spread, own)
    return Last(math.exp(off), math.expm1(reach), before) if abs(off) > reach > 0 else None


def _off(series: Floats) -> tuple[Floats, Floats]:
    """For each row: how far the last value lies from the mean of those before it, and how much those vary."""
    before = series[:, :-1]
    return series[:, -1] - before.mean(axis=1), before.std(axis=1, ddof=1)


def _split(values: Floats, offset: int, dice: Generator, places: list[tuple[int, float]]) -> None:
    if len(values) < LEAST:
        return
    ats, shares = _best(values[None, :])
    at, share = int(ats[0]), float(shares[0])
    rest = values.copy()
    rest[:at] -= rest[:at].mean()
    rest[at:] -= rest[at:].mean()
    memory = _memory(float((rest[1:] * rest[:-1]).sum()), float((rest**2).sum()), len(rest))
    others = _best(_random(len(values), memory, dice))[1]
    chance = (int((others >= share - 1e-12).sum()) + 1) / (_SERIES + 1)
    if chance <= LEVEL and share > 0:
        places.append((offset + at, chance))
        _split(values[:at], offset, dice, places)
        _split(values[at:], offset + at, dice, places)


def _memory(products: float, squares: float, n: int, levels: int = 2, caution: float = CAUTION) -> float:
    """Lag-one autocorrelation, from what is left after levels were taken out of few values: that takes some of it
    away, which is put back."""
    if squares <= 0:
        return 0.0
    lag = min(max((products / squares + levels / n) / max(0.25, 1 - 2 * (levels + 1) / n), 0.0), MOST_MEMORY)
    return min(lag + caution * math.sqrt((1 - lag**2) / n), MOST_MEMORY)


def _random(n: int, memory: float, dice: Generator) -> Floats:
    import numpy as np

    found = dice.normal(size=(_SERIES, n))
    fresh = math.sqrt(1 - memory**2)
    for at in range(1, n):
        found[:, at] = memory * found[:, at - 1] + fresh * found[:, at]
    return np.asarray(found)


def _best(series: Floats) -> tuple[Floats, Floats]:
    """For each row: where two levels differ most, and the share of its variation that the split explains (not its t:
    that would be endless for halves without any spread)."""
    import numpy as np

    n = series.shape[1]
    k = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    sums = series.cumsum(axis=1)
    total = sums[:, -1:]
    explained = (sums[:, k - 1] - k / n * total) ** 2 * n / (k * (n - k))
    at = explained.argmax(axis=1)
    whole = ((series - total / n) ** 2).sum(axis=1)
    shares = np.where(whole > 1e-18, explained[np.arange(len(series)), at] / np.maximum(whole, 1e-18), 0.0)
    return k[at], shares


def levels(speeds: Sequence[float], found: Sequence[Change]) -> list[float]:
    """The level of each run: the geometric mean of its stretch between changes."""
    edges = [0, *(one.index for one in found), len(speeds)]
    logs = [math.log(speed) for speed in speeds]
    return [math.exp(_mean(logs[start:end])) for start, end in itertools.pairwise(edges) for _ in range(start, end)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
