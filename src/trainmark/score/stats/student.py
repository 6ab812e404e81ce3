"""Student's distribution for any degrees of freedom. (Importing SciPy for it takes longer than all it is asked for.)"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
# Each step of the fraction gains digits; for the arguments below a few dozen are plenty.
_MOST_STEPS = 10_000


def below(freedom: float, t: float) -> float:
    """P(T ≤ t)."""
    if t == 0:
        return 0.5
    beyond = _beyond(freedom, abs(t))
    return beyond if t < 0 else 1 - beyond


@lru_cache(maxsize=4096)
def limit(freedom: float, chance: float) -> float:
    """The t that is exceeded with `chance`, which lies between 0 and ½.

    ln P(T > t) over ln t falls ever more steeply, so Newton's steps come from one side and cannot miss. They are held
    short, so that none lands where nothing is left of the chance.
    """
    z, target = _normal_limit(chance), math.log(chance)
    # Cornish and Fisher's first terms lie near.
    at = math.log(z + z * (z**2 + 1) / (4 * freedom) + z * (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2))
    for _ in range(200):
        t = math.exp(at)
        beyond = _beyond(freedom, t)
        step = (math.log(beyond) - target) * beyond / (t * _density(freedom, t))
        at += min(step, 0.3)
        # The next one would be as small as the square of this.
        if abs(step) < 1e-8:
            break
    return math.exp(at)


@lru_cache(maxsize=64)
def _normal_limit(chance: float) -> float:
    at = 1.0
    for _ in range(100):
        beyond = math.erfc(at / math.sqrt(2)) / 2
        step = beyond * math.log(beyond / chance) * math.sqrt(2 * math.pi) * math.exp(at**2 / 2)
        at += step
        if abs(step) < 1e-12:
            break
    return max(at, 1e-9)


def _beyond(freedom: float, t: float) -> float:
    """P(T > t) for t > 0: half of the incomplete beta function of freedom ÷ 2 and ½ at freedom ÷ (freedom + t²)."""
    a, square = freedom / 2, t * t
    x = freedom / (freedom + square)
    # x^a (1 − x)^½ ÷ B(a, ½)
    front = math.exp(_log_beta_half(a) - a * math.log1p(square / freedom)) * math.sqrt(square / (freedom + square))
    if x < (a + 1) / (a + 2.5):
        return front * _fraction(a, 0.5, x) / (2 * a)
    return 0.5 - front * _fraction(0.5, a, square / (freedom + square))


def _density(freedom: float, t: float) -> float:
    a = freedom / 2
    return math.exp(_log_beta_half(a) - (a + 0.5) * math.log1p(t * t / freedom)) / math.sqrt(freedom)


def _log_beta_half(a: float) -> float:
    """−ln B(a, ½). The difference of two large numbers is taken from its series."""
    if a < 200:
        return math.lgamma(a + 0.5) - math.lgamma(a) - math.lgamma(0.5)
    return 0.5 * math.log(a / math.pi) - 1 / (8 * a) + 1 / (192 * a**3)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, from the front (Lentz's way)."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    value, low = d, a
    for m in range(1, _MOST_STEPS):
        middle, high = low + 1, low + 2
        part = m * (b - m) * x / (middle * high)
        d = 1 / (1 + part * d or _TINY)
        c = 1 + part / c or _TINY
        value *= c * d
        part = -(a + m) * (a + b + m) * x / (high * (high + 1))
        d = 1 / (1 + part * d or _TINY)
        c = 1 + part / c or _TINY
        change = c * d
        value *= change
        low = high
        if -1e-15 < change - 1 < 1e-15:
            break
    return value
