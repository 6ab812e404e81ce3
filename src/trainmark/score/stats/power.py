"""How many runs are enough: to settle a comparison, or to know one figure well."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.stats.confidence import t_limit
from trainmark.spec.rules import LEAST_PILOT, RepeatAuto

POWER = 0.8
# More runs than anybody makes: beyond this the answer is "not with this spread".
MOST_RUNS = 10_000
_LEVEL = 0.05


def needed(variances: Sequence[float], margin: float, level: float = _LEVEL) -> int | None:
    """Runs per side to settle a comparison at ±margin; None when even MOST_RUNS would not do.

    With so many runs a true difference of `margin` is found, and no difference at all is proven to be within ±margin,
    each with a chance of POWER. `variances` are those of ln(throughput) per run: one for each side, or a single one
    of the differences when runs are paired.
    """
    if _settles(2, variances, margin, level):
        return 2
    low, high = 2, 4
    while not _settles(high, variances, margin, level):
        if high >= MOST_RUNS:
            return None
        low, high = high, min(2 * high, MOST_RUNS)
    while high - low > 1:
        middle = (low + high) // 2
        if _settles(middle, variances, margin, level):
            high = middle
        else:
            low = middle
    return high


def _settles(n: int, variances: Sequence[float], margin: float, level: float) -> bool:
    from scipy.special import nctdtr, stdtrit

    total = sum(variances)
    if total == 0:
        return True
    df = (n - 1) * total**2 / sum(variance**2 for variance in variances)
    distance = math.log1p(margin) / math.sqrt(total / n)
    missed = nctdtr(df, distance, stdtrit(df, 1 - level / 2))
    # Equivalence is two one-sided tests: it fails at most as often as both together.
    unproven = 2 * nctdtr(df, distance, stdtrit(df, 1 - level))
    return bool(max(missed, unproven) <= 1 - POWER)


class Enough(msgspec.Struct, frozen=True):
    """The number of rounds a case gets in all, and why."""

    rounds: int
    reason: Reason


def stein(speeds: Sequence[float], rule: RepeatAuto) -> Enough:
    """Stein's two-stage rule: the spread of a pilot alone says how many rounds there are to be.

    `speeds` are those of the pilot's rounds that have one. With the number that comes out the true speed lies within
    ±target of the geometric mean with 95 % confidence. Looking at the spread again and again, and stopping when it
    looks small, would not keep that promise.
    """
    n, rounds, target = len(speeds), rule.pilot, rule.width
    if n < LEAST_PILOT:
        return Enough(rounds, reason("pilot-too-small", count=n, rounds=rounds, least=LEAST_PILOT))
    logs = [math.log(speed) for speed in speeds]
    mean = sum(logs) / n
    variance = sum((value - mean) ** 2 for value in logs) / (n - 1)
    wanted = math.ceil(variance * (t_limit(n - 1, 1 - _LEVEL) / math.log1p(target)) ** 2)
    aim, spread = 100 * target, 100 * math.sqrt(variance)
    if wanted > rule.max:
        why = reason("rounds-not-allowed", rounds=wanted, percent=aim, pilot=rounds, spread=spread, most=rule.max)
        return Enough(rule.max, why)
    chosen = max(rule.min, wanted)
    return Enough(chosen, reason("rounds-enough", rounds=chosen, percent=aim, pilot=rounds, spread=spread))
