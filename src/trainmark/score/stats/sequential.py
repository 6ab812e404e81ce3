"""Which of two known levels a third one is: rounds are taken one by one until the answer is beyond doubt. Pure.

Wald's sequential test on ln(speed) between the level of the good revision and that of the bad one. The spread is that
of the rounds of both; since it is only known from few of them, it is taken larger by what few rounds may be off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from trainmark.score.stats.verdict import variance

Side = Literal["good", "bad"]
# A level halfway between the two never settles.
MOST_ROUNDS = 20


def belongs(good: Sequence[float], bad: Sequence[float], seen: Sequence[float], error: float) -> Side | None:
    """`error`: the chance of a wrong answer that is allowed. None: one more round is needed."""
    logs = [[math.log(value) for value in values] for values in (good, bad, seen)]
    levels = [math.fsum(values) / len(values) for values in logs[:2]]
    gap = levels[1] - levels[0]
    spread = _spread(logs[0], logs[1])
    middle = (levels[0] + levels[1]) / 2
    # A round beyond a level counts no more than one that lies on it: a disturbed one must not decide alone.
    half = abs(gap) / 2
    evidence = gap * math.fsum(max(-half, min(half, value - middle)) for value in logs[2])
    limit = spread * math.log((1 - error) / error)
    if evidence >= limit and evidence > 0:
        return "bad"
    return "good" if evidence <= -limit and evidence < 0 else None


def _spread(good: Sequence[float], bad: Sequence[float]) -> float:
    """Variance of a round, by its upper 80 % limit: 5 to 10 rounds may by chance be much more alike than others."""
    from scipy.special import chdtri

    freedom = len(good) + len(bad) - 2
    pooled = ((len(good) - 1) * variance(good) + (len(bad) - 1) * variance(bad)) / freedom
    return float(pooled * freedom / chdtri(freedom, 0.8))


def nearest(good: Sequence[float], bad: Sequence[float], seen: Sequence[float]) -> Side:
    """The likelier of the two, when no more rounds are to be had."""
    means = [math.fsum(map(math.log, values)) / len(values) for values in (good, bad, seen)]
    return "good" if abs(means[2] - means[0]) <= abs(means[2] - means[1]) else "bad"
