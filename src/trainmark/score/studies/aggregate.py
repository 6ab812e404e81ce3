"""One figure for many cases: the geometric mean of their speeds against those of a reference, with its interval.

    ln score = mean over k cases of (ln a − ln r)
    error²   = sum of the squared errors of every ln a and ln r ÷ k²
    interval = exp(ln score ± t · error), t with Satterthwaite's degrees of freedom

a is a case's speed and r that of the reference. The error of a logarithm is half its 95 % interval ÷ t of n − 1 degrees
of freedom, so whatever widened the interval of a case widens that of the score. A case with a single round has no
interval: its rounds are taken to vary as those of the case that varies most on the same machine, with twice its
variance where that is the only case that tells. How much cases differ in their spread is not known, so the interval
then has two degrees of freedom at most. Where no case of a machine has an interval, the score has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from trainmark.score.stats.confidence import t_limit
from trainmark.score.stats.verdict import pooled

# What is taken from other cases is no better known than by three rounds, however many they had.
_MOST_FREEDOM = 2.0
# A single case may be the steadiest of all: times its variance.
_ALONE = 2.0


class Speed(msgspec.Struct, frozen=True):
    """A speed over `n` rounds with its 95 % interval; without one where there was a single round."""

    value: float
    low: float | None
    high: float | None
    n: int


class Ratio(msgspec.Struct, frozen=True):
    """Without ends where the error of a side is not known. `assumed`: of so many speeds it was taken from others."""

    value: float
    low: float | None = None
    high: float | None = None
    assumed: int = 0


def ratio(speed: Speed, reference: Speed) -> Ratio:
    """Of one case."""
    return aggregate([(speed, reference)])


def aggregate(pairs: Sequence[tuple[Speed, Speed]]) -> Ratio:
    """Over the cases, each with its reference. The cases are taken as they are: the error is that of their rounds."""
    center = math.fsum(math.log(one.value / other.value) for one, other in pairs) / len(pairs)
    sides = [_errors([pair[side] for pair in pairs]) for side in (0, 1)]
    if not all(sides):
        return Ratio(math.exp(center))
    parts = [part for side in sides for part in side]
    error, freedom = pooled(parts)
    assumed = sum(_error(speed) is None for pair in pairs for speed in pair)
    if assumed:
        # One guess taken for many says no more than it does for one.
        freedom = min(_MOST_FREEDOM, *(freedom for _, freedom in parts))
    half = t_limit(freedom) * error / len(pairs)
    return Ratio(math.exp(center), math.exp(center - half), math.exp(center + half), assumed)


def _errors(speeds: Sequence[Speed]) -> list[tuple[float, float]]:
    """Of the speeds of one machine; none where no speed has an interval."""
    found = [_error(speed) for speed in speeds]
    known = [(square * speed.n, freedom) for speed, (square, freedom) in _with(speeds, found)]
    if not known:
        return []
    variance, freedom = max(one for one, _ in known), min(one for _, one in known)
    if len(known) == 1:
        variance *= _ALONE
    return [error or (variance / speed.n, freedom) for speed, error in zip(speeds, found, strict=True)]


def _with(
    speeds: Sequence[Speed], found: Sequence[tuple[float, float] | None]
) -> Iterator[tuple[Speed, tuple[float, float]]]:
    return ((speed, error) for speed, error in zip(speeds, found, strict=True) if error is not None)


def _error(speed: Speed) -> tuple[float, float] | None:
    """The squared error of the speed's logarithm, and its degrees of freedom."""
    if speed.low is None or speed.high is None or speed.n < 2 or not 0 < speed.low <= speed.high:
        return None
    freedom = float(speed.n - 1)
    half = math.log(speed.high / speed.low) / 2
    return (half / t_limit(freedom)) ** 2, freedom
