"""One figure for many cases: the geometric mean of their speeds against those of a reference, with its interval.

    ln score = mean over k cases of (ln a − ln r)
    error²   = sum of the squared errors of every ln a and ln r ÷ k²
    interval = exp(ln score ± t · error), t with Satterthwaite's degrees of freedom

a is a case's speed and r that of the reference. The error of a logarithm is half its 95 % interval ÷ t of n − 1 degrees
of freedom, so whatever widened the interval of a case widens that of the score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from trainmark.score.stats.confidence import t_limit
from trainmark.score.stats.verdict import pooled


class Speed(msgspec.Struct, frozen=True):
    """A speed over `n` rounds with its 95 % interval; without one where there was a single round."""

    value: float
    low: float | None
    high: float | None
    n: int


class Ratio(msgspec.Struct, frozen=True):
    """Without ends where the error of a side is not known."""

    value: float
    low: float | None = None
    high: float | None = None


def ratio(speed: Speed, reference: Speed) -> Ratio:
    """Of one case."""
    return aggregate([(speed, reference)])


def aggregate(pairs: Sequence[tuple[Speed, Speed]]) -> Ratio:
    """Over the cases, each with its reference. The cases are taken as they are: the error is that of their rounds."""
    center = math.fsum(math.log(one.value / other.value) for one, other in pairs) / len(pairs)
    parts = [_error(speed) for pair in pairs for speed in pair]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return Ratio(math.exp(center))
    error, freedom = pooled(known)
    half = t_limit(freedom) * error / len(pairs)
    return Ratio(math.exp(center), math.exp(center - half), math.exp(center + half))


def _error(speed: Speed) -> tuple[float, float] | None:
    """The squared error of the speed's logarithm, and its degrees of freedom."""
    if speed.low is None or speed.high is None or speed.n < 2 or not 0 < speed.low <= speed.high:
        return None
    freedom = float(speed.n - 1)
    half = math.log(speed.high / speed.low) / 2
    return (half / t_limit(freedom)) ** 2, freedom
