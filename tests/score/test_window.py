"""Series with known truth, by simulation with fixed seeds: where they settle, and whether they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from trainmark.score.figures import steady
from trainmark.testing.synthetic import Shape, step_seconds

SEEDS = range(150)
# Autocorrelated steps, of which one in fifty is a heavy-tailed outlier.
REAL = {"memory": 0.5, "outliers": 0.02}


def outcomes(shape: Shape, seeds: Iterable[int] = SEEDS) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        series = step_seconds(shape, seed)
        found[steady.judge(series[steady.start(series) :]).outcome] += 1
    return found


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
@pytest.mark.parametrize("steps", [60, 300, 1000])
def test_steady_runs_are_rarely_refused(steps: int, noise: float) -> None:
    found = outcomes(Shape(steps=steps, noise=noise, **REAL))
    assert found["steady"] >= (0.92 if steps < 100 else 0.95) * len(SEEDS), found


@pytest.mark.parametrize("factor", [1.5, 3.0, 20.0])
@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize(("steps", "warmup"), [(60, 6), (100, 30), (400, 20), (400, 160)])
def test_the_start_is_found_within_a_twentieth(steps: int, warmup: int, noise: float, factor: float) -> None:
    shape = Shape(steps=steps, warmup=warmup, warmup_factor=factor, noise=noise, **REAL)
    close = sum(abs(steady.start(step_seconds(shape, seed)) - warmup) <= 0.05 * steps for seed in SEEDS)
    assert close >= 0.93 * len(SEEDS)


def test_without_a_warm_up_nothing_is_cut_off() -> None:
    kept = [steady.start(step_seconds(Shape(steps=300, noise=0.03, **REAL), seed)) <= 15 for seed in SEEDS]
    assert sum(kept) >= 0.97 * len(SEEDS)


@pytest.mark.parametrize("drift", [0.1, 0.3, -0.2])
def test_drift_is_said(drift: float) -> None:
    found = outcomes(Shape(steps=400, drift=drift, noise=0.02, **REAL))
    assert found["steady"] <= 0.02 * len(SEEDS) and found["drifting"] > found["two-level"], found


@pytest.mark.parametrize(("level", "at"), [(0.1, 0.6), (0.3, 0.8), (-0.3, 0.6), (0.3, 0.4)])
def test_two_levels_are_said(level: float, at: float) -> None:
    found = outcomes(Shape(steps=300, level=level, level_at=at, noise=0.02, **REAL))
    assert found["two-level"] >= 0.95 * len(SEEDS), found


def test_levels_that_come_and_go_are_not_steady() -> None:
    import numpy as np

    for seed in range(20):
        series = step_seconds(Shape(steps=360, noise=0.02, **REAL), seed)
        series *= 1 + 0.5 * (np.arange(360) // 60 % 2)
        assert steady.judge(series[steady.start(series) :]).outcome != "steady"


def test_a_processors_boost_is_a_start_like_another() -> None:
    series = step_seconds(Shape(steps=400, warmup=40, warmup_factor=0.8, noise=0.01, **REAL), 1)
    assert abs(steady.start(series) - 40) <= 2
