"""Intervals over runs. The run is the unit: steps inside one are no independent repeats, and rounds on the same nodes
say less of other nodes than rounds on others do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainmark.score.stats import student

LEVEL = 0.95
# A run this many scaled median deviations from the others is flagged, from this many runs on.
OUTLIER = 3.5
LEAST_FOR_OUTLIERS = 4


def median(values: Sequence[float]) -> float:
    """(Importing `statistics` takes longer than scoring a run.)"""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def t_limit(freedom: float, level: float = LEVEL) -> float:
    """The t within which `level` of Student's distribution lies."""
    return student.limit(freedom, (1 - level) / 2)


def plain_t(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Mean with a t interval; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_limit(n - 1) * math.sqrt(variance / n)
    return mean, mean - half, mean + half


def log_t(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Geometric mean with a t interval on the logarithm; None for fewer than two values or non-positive ones."""
    if any(value <= 0 for value in values):
        return None
    found = plain_t([math.log(value) for value in values])
    return (math.exp(found[0]), math.exp(found[1]), math.exp(found[2])) if found else None


def outliers(values: Sequence[float]) -> list[bool]:
    """Which values lie far from the others (modified z by the median deviation). They are flagged, never dropped."""
    if len(values) < LEAST_FOR_OUTLIERS:
        return [False] * len(values)
    middle = median(values)
    spread = median([abs(value - middle) for value in values])
    # Without any spread a rounding error would be an outlier.
    reach = max(OUTLIER * 1.4826 * spread, 1e-9 * abs(middle))
    return [abs(value - middle) > reach for value in values]


def mean_per_set(values: Sequence[float], sets: Sequence[object], *, logs: bool) -> list[float]:
    """One value for each set of nodes: the mean of its rounds, of logarithms where `logs` says so. The values as they
    are where all rounds ran on the same nodes, or each on others, or where that is not known."""
    distinct = list(dict.fromkeys(sets))
    if len(sets) != len(values) or len(distinct) in (0, 1, len(values)):
        return list(values)
    found = []
    for one in distinct:
        own = [value for value, at in zip(values, sets, strict=True) if at == one]
        geometric = logs and min(own) > 0
        found.append(math.exp(sum(map(math.log, own)) / len(own)) if geometric else sum(own) / len(own))
    return found
