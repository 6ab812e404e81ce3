"""Where the variation of a speed comes from: single steps, rounds, occasions (runs of other days), hosts.

A nested model on logarithms, `ln speed = mean + host + occasion + round`, estimated from mean squares. Rounds of one
run share its occasion: they say nothing of how another day would have been. So two runs are held against the variation
of run means that a history shows; without one, how much occasions differ is unknown, and that is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from trainmark.score.stats import student
from trainmark.score.stats.confidence import median, t_limit

# Runs besides the two that are compared. Fewer leave Student's t without a hold.
LEAST_OCCASIONS = 3
# Without a history: what it would mean if occasions differed by so many times as much as rounds do.
SUPPOSED = 2.0


# One occasion far off the others (another job on the machine, say) would hide every later loss: it counts as one that
# is off by so many times their spread, which is taken from the median. From so many runs on: fewer have no middle.
MOST_OFF = 3.0
LEAST_TO_CLIP = 5
_TO_DEVIATION = 1.4826  # of a normal distribution: from the median of distances to the standard deviation


class Occasion(msgspec.Struct, frozen=True):
    """One run: ln(speed) of its rounds, where it ran, and the spread of single steps where that is known."""

    logs: Sequence[float]
    hosts: tuple[str, ...] = ()
    steps: float | None = None
    # Runs before and after a change of level are not held against each other.
    level: int = 0

    @property
    def mean(self) -> float:
        return math.fsum(self.logs) / len(self.logs)


class Variation(msgspec.Struct, frozen=True):
    """Standard deviations, relative to the speed. None: cannot be told apart from what is here."""

    step: float | None
    round: float | None
    occasion: float | None
    host: float | None
    occasions: int
    hosts: int


class Between(msgspec.Struct, frozen=True):
    """How the means of runs vary: their variance, its degrees of freedom, and the part that their rounds explain."""

    variance: float
    df: float
    rounds: float


def decompose(found: Sequence[Occasion]) -> Variation:
    places = _grouped(found, lambda one: one.hosts)
    within, between = _of_rounds(found), history(found)
    occasion = None if between is None else math.sqrt(max(0.0, between.variance - between.rounds))
    host = None
    if len(places) > 1 and between is not None:
        means = [_mean([one.mean for one in runs]) for runs in places]
        # Means of few runs differ even where all hosts are alike.
        by_chance = _mean([between.variance / len(runs) for runs in places])
        host = math.sqrt(max(0.0, _squares(means) / (len(means) - 1) - by_chance))
    steps = [one.steps for one in found if one.steps is not None]
    return Variation(
        step=_mean(steps) if steps else None,
        round=None if within is None else math.sqrt(within),
        occasion=occasion,
        host=host,
        occasions=len(found),
        hosts=len(places),
    )


def history(found: Sequence[Occasion], least: int = 2) -> Between | None:
    """From runs on the same hosts and of one level; those of several are pooled, each around its own mean. What lies
    far off counts for less."""
    places = [runs for runs in _grouped(found, lambda one: (one.hosts, one.level)) if len(runs) > 1]
    df = sum(len(runs) - 1 for runs in places)
    if df < max(1, least - 1):
        return None
    squares = math.fsum(_squares(_clipped([one.mean for one in runs])) for runs in places)
    within = _of_rounds(found)
    parts = [within / len(one.logs) for runs in places for one in runs] if within is not None else [0.0]
    return Between(squares / df, df, _mean(parts))


def _clipped(means: Sequence[float]) -> Sequence[float]:
    if len(means) < LEAST_TO_CLIP:
        return means
    middle = median(means)
    # The median of few distances is small by chance.
    spread = _TO_DEVIATION * median([abs(one - middle) for one in means]) * (1 + 1.5 / len(means))
    return [min(max(one, middle - MOST_OFF * spread), middle + MOST_OFF * spread) for one in means]


def over_occasions(error: float, between: Between) -> tuple[float, float]:
    """Error and degrees of freedom of ln(B ÷ A) for two runs of different occasions. `error`: that of their rounds.

    What the history's runs vary by, rounds included, is what these two may differ by. Where they have fewer rounds
    than those had, the error of theirs is larger by the difference."""
    more = max(0.0, error**2 - 2 * between.rounds)
    return math.sqrt(2 * between.variance + more), between.df


def if_supposed(df: float, n_a: int, n_b: int, times: float = SUPPOSED) -> tuple[float, float]:
    """By how much the interval of ln(B ÷ A) would have to be wider, and how often a difference would be claimed wrongly
    as it is, if occasions varied `times` as much as rounds do."""
    wider = math.sqrt(1 + 2 * times**2 / (1 / n_a + 1 / n_b))
    return wider, 2 * student.below(df, -t_limit(df) / wider)


def _grouped(found: Sequence[Occasion], key: Callable[[Occasion], object]) -> list[list[Occasion]]:
    places: dict[object, list[Occasion]] = {}
    for one in found:
        places.setdefault(key(one), []).append(one)
    return list(places.values())


def _of_rounds(found: Sequence[Occasion]) -> float | None:
    """The variance of a round, pooled over runs."""
    df = sum(len(one.logs) - 1 for one in found)
    return math.fsum(_squares(one.logs) for one in found) / df if df else None


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
