"""Intervals over runs. The run is the unit: steps inside one are no independent repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEVEL = 0.95
# From here on the bootstrap may be used; below it covers too little (75 % at n = 3).
MOST_FOR_T = 15


def log_t(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Geometric mean with a t interval on the logarithm; None for fewer than two values or non-positive ones."""
    n = len(values)
    if n < 2 or any(value <= 0 for value in values):
        return None
    from scipy.special import stdtrit

    logs = [math.log(value) for value in values]
    mean = sum(logs) / n
    variance = sum((value - mean) ** 2 for value in logs) / (n - 1)
    half = float(stdtrit(n - 1, 0.5 + LEVEL / 2)) * math.sqrt(variance / n)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)
