"""Which of two is faster: a verdict on per-run throughput, with the error of every claim under control.

The run is the unit, and everything happens on logarithms, so that A against B and B against A say the same. Words:

- `equivalent`: the ratio is proven to lie within ±margin (two one-sided t tests, 5 %). It wins over the next two: a
  difference that is real but inside the margin is named in the reason.
- `faster`, `slower`: B differs from A (two-sided t test, 5 %).
- `inconclusive`: neither is shown; `needed` says how many runs per side would settle it.

Claims are made over a family of cases, so their p-values are Holm's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.records import Verdict, VerdictWord
from trainmark.score.stats import student
from trainmark.score.stats.confidence import t_limit
from trainmark.score.stats.power import POWER, needed
from trainmark.score.stats.variation import Between, over_occasions

LEVEL = 0.05
MARGIN = 0.03
THRESHOLD = 0.05
# Welch's degrees of freedom promise too much when few runs meet many: 2 against 10 would give 10 % false verdicts.
# Held to this times (the smaller number − 1), where the sides differ in number, 2 to 5 against up to 50 stay below 6 %.
UNEQUAL_DF = 1.5


class Pair(msgspec.Struct, frozen=True):
    """Per-run throughput of A and of B. `paired`: the i-th of both were made in the same block."""

    a: Sequence[float]
    b: Sequence[float]
    paired: bool = False


class Estimate(msgspec.Struct, frozen=True):
    """ln(B ÷ A). Without an error there are too few runs for any claim."""

    log_ratio: float
    error: float | None
    df: float
    method: Reason
    n_a: int
    n_b: int
    # Of ln(throughput) per run: of each side, or of the paired differences. Tells how many runs would do.
    variances: tuple[float, ...] = ()
    # The part of `error` that the occasions of A and B have in it: cases of the same runs share it.
    occasion: float = 0.0


def judge(pairs: Sequence[Pair], margin: float = MARGIN, threshold: float = THRESHOLD) -> list[Verdict]:
    """One verdict for each pair, as one family."""
    return decide([estimate(pair) for pair in pairs], margin, threshold)


def estimate(pair: Pair) -> Estimate:
    """Welch's t on logarithms, or the t of their differences when runs are paired by block."""
    a, b = _logs(pair.a), _logs(pair.b)
    log_ratio = _mean(b) - _mean(a)
    if pair.paired:
        if len(a) != len(b):
            raise ValueError(f"{len(a)} and {len(b)} runs cannot be paired")
        samples = [[after - before for before, after in zip(a, b, strict=True)]]
        method = reason("paired-t")
    else:
        samples, method = [a, b], reason("welch-t")
    known = tuple(variance(sample) for sample in samples if len(sample) > 1)
    if len(known) < len(samples):
        # One side's spread is the best guess for the other's.
        guess = known * 2 if len(known) == 1 else ()
        return Estimate(log_ratio, None, 0.0, method, len(a), len(b), guess)
    parts = [(variance / len(sample), len(sample) - 1) for variance, sample in zip(known, samples, strict=True)]
    error, df = pooled(parts)
    if len(a) != len(b):
        df = min(df, UNEQUAL_DF * (min(len(a), len(b)) - 1))
    return Estimate(log_ratio, error, df, method, len(a), len(b), known)


def with_occasions(one: Estimate, between: Between) -> Estimate:
    """For runs of different occasions, whose variation a history tells. More rounds would not settle it."""
    if one.error is None:
        return one
    error, df = over_occasions(one.error, between)
    occasion = math.sqrt(max(0.0, error**2 - one.error**2))
    method = reason("over-occasions", df=round(between.df))
    return msgspec.structs.replace(one, error=error, df=df, method=method, variances=(), occasion=occasion)


def combine(estimates: Sequence[Estimate]) -> Estimate:
    """The geometric mean of ratios. Its error is that of the runs; the cases are taken as they are. A slow day is one
    for all of them: errors of occasions are added, those of rounds cancel out."""
    n = len(estimates)
    log_ratio = _mean([one.log_ratio for one in estimates])
    n_a, n_b = (sum(one.n_a for one in estimates), sum(one.n_b for one in estimates))
    method = reason("mean-of-ratios", count=n)
    parts = [(one.error**2 - one.occasion**2, one.df) for one in estimates if one.error is not None]
    if len(parts) < n:
        return Estimate(log_ratio, None, 0.0, method, n_a, n_b)
    error, df = pooled(parts)
    occasion = _mean([one.occasion for one in estimates])
    if occasion:
        # Of the occasions no more is known than the history of one case tells.
        df = min(one.df for one in estimates)
    return Estimate(log_ratio, math.hypot(error / n, occasion), df, method, n_a, n_b, occasion=occasion)


def decide(estimates: Sequence[Estimate], margin: float = MARGIN, threshold: float = THRESHOLD) -> list[Verdict]:
    """Verdicts over a family. Holm keeps the chance of any false claim of a kind at 5 %, however many cases."""
    band, loss = math.log1p(margin), math.log1p(-threshold)
    tested = [(position, one, one.error) for position, one in enumerate(estimates) if one.error is not None]
    difference = holm([2 * _tail(-abs(one.log_ratio), error, one.df) for _, one, error in tested])
    equivalent = holm([_tail(abs(one.log_ratio) - band, error, one.df) for _, one, error in tested])
    lost = holm([_tail(one.log_ratio - loss, error, one.df) for _, one, error in tested])
    found: dict[int, Verdict] = {}
    for (position, one, error), *chances in zip(tested, difference, equivalent, lost, strict=True):
        found[position] = _verdict(one, error, chances, margin, len(tested))
    return [found[position] if position in found else _too_few(one, margin) for position, one in enumerate(estimates)]


def holm(chances: Sequence[float], family: int | None = None) -> list[float]:
    """Holm's step-down p-values: a claim with one at most 5 % holds beside all others of its family.

    `family` counts those, too, that are not tested this time."""
    adjusted = [0.0] * len(chances)
    highest = 0.0
    for rank, position in enumerate(sorted(range(len(chances)), key=lambda index: chances[index])):
        highest = max(highest, min(1.0, ((family or len(chances)) - rank) * chances[position]))
        adjusted[position] = highest
    return adjusted


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(_mean(_logs(values)))


def _verdict(one: Estimate, error: float, chances: list[float], margin: float, family: int) -> Verdict:
    difference, equivalent, lost = chances
    half = t_limit(one.df, 1 - LEVEL) * error
    faster = one.log_ratio > 0
    percent = 100 * abs(math.expm1(one.log_ratio))
    word: VerdictWord = "inconclusive"
    runs = None
    if equivalent <= LEVEL:
        word, why = "equivalent", reason("within-margin", margin=100 * margin)
        if difference <= LEVEL and faster:
            why = reason("faster-within-margin", percent=percent, margin=100 * margin)
        elif difference <= LEVEL:
            why = reason("slower-within-margin", percent=percent, margin=100 * margin)
    elif difference <= LEVEL:
        word = "faster" if faster else "slower"
        why = reason("faster-by", percent=percent) if faster else reason("slower-by", percent=percent)
    else:
        # The number holds for the hardest of Holm's steps, since it is not known which one this case will meet.
        runs = needed(one.variances, margin, LEVEL / family) if one.variances else None
        why = reason("nothing-shown", margin=100 * margin)
        if _tail(-abs(one.log_ratio), error, one.df) <= LEVEL / 2:
            alone = reason("faster-alone", percent=percent, cases=family)
            why = alone if faster else reason("slower-alone", percent=percent, cases=family)
        elif runs is not None and runs <= min(one.n_a, one.n_b):
            why = reason("near-margin", margin=100 * margin, runs=runs, percent=100 * POWER)
    return Verdict(
        word=word,
        ratio=math.exp(one.log_ratio),
        ci_low=math.exp(one.log_ratio - half),
        ci_high=math.exp(one.log_ratio + half),
        n_a=one.n_a,
        n_b=one.n_b,
        method=one.method,
        reason=why,
        p_difference=difference,
        p_equivalent=equivalent,
        p_loss=lost,
        past_threshold=lost <= LEVEL,
        needed=runs,
    )


def _too_few(one: Estimate, margin: float) -> Verdict:
    runs = needed(one.variances, margin) if one.variances else None
    why = reason("spread-needs-runs", a=one.n_a, b=one.n_b)
    return Verdict("inconclusive", math.exp(one.log_ratio), None, None, one.n_a, one.n_b, one.method, why, needed=runs)


def _logs(values: Sequence[float]) -> list[float]:
    if not values or not all(0 < value < math.inf for value in values):
        raise ValueError(f"throughput must be positive, found {list(values)}")
    return [math.log(value) for value in values]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def pooled(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Error of a sum from (squared error, degrees of freedom) of its parts, with Satterthwaite's degrees of freedom."""
    total = math.fsum(square for square, _ in parts)
    weight = math.fsum(square**2 / df for square, df in parts)
    return math.sqrt(total), (total**2 / weight if weight > 0 else math.fsum(df for _, df in parts))


def _tail(distance: float, error: float, df: float) -> float:
    """P(T ≤ distance ÷ error). Without any spread the answer is certain."""
    if error == 0:
        return 0.0 if distance < 0 else 1.0
    return student.below(df, distance / error)
