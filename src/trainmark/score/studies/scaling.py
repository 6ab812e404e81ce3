"""Speed-up and efficiency of the configurations of a study against its baseline. Pure.

The speed-up is the ratio of medians over runs. Its interval is that of a ratio of medians too: t on logarithms, with
the error of a median, which for so few runs is up to a quarter larger than that of a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.stats.confidence import log_t, median, t_limit
from trainmark.score.stats.verdict import LEVEL, UNEQUAL_DF, pooled, variance

METHOD = reason("ratio-of-medians")
# Variance of the median of n normal values ÷ that of their mean; by numerical integration.
_OF_MEDIAN = (1.0, 1.0, 1.0, 1.346, 1.1928, 1.4342, 1.2885, 1.4731, 1.3454, 1.4949, 1.3833, 1.5088, 1.4102)
_OF_MEDIAN_LIMIT = math.pi / 2


class ScalePoint(msgspec.Struct, frozen=True):
    """One configuration: its ranks, and the speed of each run that counts."""

    nodes: int
    procs: int
    speeds: Sequence[float]

    @property
    def ranks(self) -> int:
        return self.nodes * self.procs


class Scaled(msgspec.Struct, frozen=True):
    """What is known of a configuration. None: not known; an interval needs two runs on both sides."""

    average: float | None = None
    median: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    efficiency: float | None = None
    efficiency_low: float | None = None
    efficiency_high: float | None = None


def scaled(point: ScalePoint, baseline: ScalePoint | None) -> Scaled:
    """Without runs of the baseline there is no speed-up: it is never taken for 1."""
    if not point.speeds:
        return Scaled()
    speeds = list(point.speeds)
    own = log_t(speeds)
    found = Scaled(
        average=math.fsum(speeds) / len(speeds),
        median=median(speeds),
        ci_low=own[1] if own else None,
        ci_high=own[2] if own else None,
    )
    if baseline is None or not baseline.speeds:
        return found
    same = (point.nodes, point.procs) == (baseline.nodes, baseline.procs)
    ratio, low, high = (1.0, None, None) if same else ratio_of_medians(baseline.speeds, speeds)
    share = baseline.ranks / point.ranks
    return msgspec.structs.replace(
        found,
        speedup=ratio,
        speedup_low=low,
        speedup_high=high,
        efficiency=ratio * share,
        efficiency_low=None if low is None else low * share,
        efficiency_high=None if high is None else high * share,
    )


def ratio_of_medians(a: Sequence[float], b: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Median of b ÷ median of a, with its interval where both have at least two runs."""
    ratio = median(list(b)) / median(list(a))
    if len(a) < 2 or len(b) < 2:
        return ratio, None, None
    parts = []
    for side in (a, b):
        spread = variance([math.log(value) for value in side])
        parts.append((_of_median(len(side)) * spread / len(side), len(side) - 1))
    error, df = pooled(parts)
    if len(a) != len(b):
        df = min(df, UNEQUAL_DF * (min(len(a), len(b)) - 1))
    half = t_limit(df, 1 - LEVEL) * error
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


def _of_median(n: int) -> float:
    return _OF_MEDIAN[n] if n < len(_OF_MEDIAN) else _OF_MEDIAN_LIMIT


def oddities(points: Sequence[tuple[ScalePoint, Scaled]]) -> list[Reason | None]:
    """For each configuration what a reader should look at twice; None where nothing is odd."""
    found = []
    for point, own in points:
        odd = None
        if own.efficiency_low is not None and own.efficiency_low > 1:
            odd = reason("more-than-linear")
        beaten = [
            f"{other.nodes}x{other.procs}"
            for other, theirs in points
            if own.median and theirs.median and other.ranks < point.ranks and theirs.median > own.median
        ]
        if beaten:
            odd = reason("slower-than", configuration=beaten[-1])
        found.append(odd)
    return found
