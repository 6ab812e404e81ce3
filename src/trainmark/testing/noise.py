"""Rounds whose steps are noisy in known ways, scored as real ones are: how often an interval covers the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from trainmark.score.figures import window
from trainmark.score.figures.attempt import RunScore
from trainmark.score.figures.case import measure
from trainmark.score.figures.flags import of_case
from trainmark.score.figures.steps import Grid
from trainmark.score.records import Figure, Measurement
from trainmark.score.stats import variation
from trainmark.score.stats.variation import Occasion
from trainmark.score.stats.verdict import Pair, decide, estimate, with_occasions

if TYPE_CHECKING:
    from numpy.random import Generator

    from trainmark.spec.columns import Floats

STEPS = 150
SECONDS = 0.12
# Of whole rounds, beside that of their steps.
ROUNDS = 0.01


class Noise(msgspec.Struct, frozen=True):
    """How steps of a round vary. Shares of the time of a step; `memory` is the lag-one autocorrelation."""

    name: str
    spread: float = 0.05
    memory: float = 0.0
    # Student's degrees of freedom of single steps; None: normal.
    tails: float | None = None
    # Chance that a burst begins with a step, how long it lasts in the mean, and how many times slower its steps are.
    burst: float = 0.0
    burst_steps: float = 20.0
    burst_factor: float = 1.5
    # Over a round, from the first step to the last; and a level that a share of all rounds changes to on its way.
    drift: float = 0.0
    level: float = 0.0
    level_share: float = 0.8
    # What comes so seldom that three rounds often do not show it: no interval made of them can cover it.
    seldom: bool = False


MODELS = (
    *(Noise(f"steady, {100 * spread:.0f} % noise", spread) for spread in (0.01, 0.05, 0.1, 0.2)),
    Noise("autocorrelation 0.4", 0.1, 0.4),
    Noise("autocorrelation 0.8", 0.1, 0.8),
    Noise("autocorrelation 0.8, 20 % noise", 0.2, 0.8),
    Noise("heavy tails", 0.1, tails=3.0),
    Noise("bursts", 0.03, burst=0.02, burst_steps=8),
    Noise("long bursts", 0.03, burst=0.02, burst_steps=30, burst_factor=2.0),
    Noise("drift of 5 %", 0.03, drift=0.05),
    Noise("drift of 30 %", 0.03, drift=0.3),
    Noise("two levels, 10 % apart", 0.03, level=0.1),
    Noise("two levels, 30 % apart", 0.03, level=0.3),
    Noise("a burst in every second round", 0.03, burst=0.004, seldom=True),
    Noise("two levels in every second round", 0.03, level=0.3, level_share=0.5, seldom=True),
)


def seconds(noise: Noise, dice: Generator, steps: int = STEPS) -> Floats:
    """Of each step of one round."""
    import numpy as np

    before = 60  # until the noise has forgotten how it began
    drawn = (
        dice.normal(size=steps + before) if noise.tails is None else dice.standard_t(noise.tails, size=steps + before)
    )
    series = np.empty_like(drawn)
    last, fresh = 0.0, math.sqrt(1 - noise.memory**2)
    for at, value in enumerate(drawn.tolist()):
        last = series[at] = noise.memory * last + fresh * value
    level = SECONDS * math.exp(dice.normal(0, ROUNDS))
    if noise.tails is None:
        found = level * np.exp(noise.spread * series[before:])
    else:  # not of logarithms, which would have no mean
        found = level * np.maximum(0.3, 1 + noise.spread * series[before:])
    if noise.burst:
        for begin in np.flatnonzero(dice.random(steps) < noise.burst).tolist():
            found[begin : begin + 1 + int(dice.exponential(noise.burst_steps))] *= noise.burst_factor
    if noise.drift:
        found *= np.linspace(1 - noise.drift / 2, 1 + noise.drift / 2, steps)
    if noise.level and dice.random() < noise.level_share:
        found[int(steps * dice.uniform(0.1, 0.9)) :] *= 1 + noise.level
    return found


def truth(noise: Noise, dice: Generator, rounds: int = 20_000) -> float:
    """ln of the speed in steps per second, the mean over many rounds."""
    return math.fsum(-math.log(float(seconds(noise, dice).mean())) for _ in range(rounds)) / rounds


def scored(series: Floats) -> RunScore:
    """A round with these times of its steps, one sample each, as the scorer sees it."""
    import numpy as np

    ends = np.concatenate(([0.0], series.cumsum()))
    zero = np.zeros((1, len(ends)), dtype=np.int64)
    edges = np.arange(len(ends))
    grid = Grid([0], ["n1"], edges, (ends * 1e9).astype(np.int64)[None, :], zero, edges[None, :], zero)
    found = window.find(grid)
    if not isinstance(found, window.FoundWindow):
        raise ValueError(f"no window: {found.code}")
    own = found.window
    return RunScore(figures={"throughput": Figure(own.samples / own.seconds)}, window=own, flags=own.flags)


def headline(rounds: Sequence[RunScore]) -> Measurement:
    return measure(rounds, "samples", 1, of_case(rounds))["throughput"]


def covers(found: Measurement, log_speed: float) -> bool:
    return (
        found.ci_low is not None and found.ci_high is not None and found.ci_low <= math.exp(log_speed) <= found.ci_high
    )


def occasions(
    dice: Generator,
    others: int,
    ratio: float = 1.0,
    rounds: int = 5,
    of_round: float = 0.01,
    of_occasion: float = 0.02,
    outlying: float = 1.0,
) -> tuple[Pair, list[Occasion]]:
    """Two runs of different days, B `ratio` times as fast as A, and other runs of the case; days differ by luck. One of
    the others was `outlying` times as fast as it should be."""
    runs = [dice.normal(dice.normal(0, of_occasion), of_round, rounds).tolist() for _ in range(others + 2)]
    a, b = ([math.exp(value) for value in run] for run in runs[:2])
    found = [Occasion(run) for run in runs[2:]]
    if found and outlying != 1.0:
        at = int(dice.integers(len(found)))
        found[at] = Occasion([value + math.log(outlying) for value in found[at].logs])
    return Pair(a, [ratio * speed for speed in b]), found


def word(pair: Pair, history: Sequence[Occasion]) -> str:
    """The verdict on B, with what the history tells of occasions where it is long enough."""
    found = estimate(pair)
    between = variation.history(history, variation.LEAST_OCCASIONS)
    return decide([found if between is None else with_occasions(found, between)])[0].word


def speeds(dice: Generator, runs: int, memory: float, spread: float = 0.02) -> list[float]:
    """Of runs one after another, alike as days that follow each other are."""
    found, last = [], dice.normal()
    for _ in range(runs):
        found.append(100 * math.exp(spread * last))
        last = memory * last + math.sqrt(1 - memory**2) * dice.normal()
    return found
