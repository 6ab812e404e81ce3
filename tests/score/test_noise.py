"""Promises of intervals, verdicts and histories under noise, by simulation with fixed seeds. The full table, with many
more draws, is made by `benchmarks/statistics_rates.py`."""

from __future__ import annotations

import numpy as np
import pytest

from trainmark.score.stats import change_points
from trainmark.testing import noise
from trainmark.testing.noise import MODELS, Noise

SHOWN = [model for model in MODELS if not model.seldom]


@pytest.mark.parametrize("model", SHOWN, ids=lambda model: model.name)
def test_the_interval_covers_the_truth_and_a_figure_is_always_given(model: Noise) -> None:
    dice = np.random.default_rng(7)
    truth = noise.truth(model, dice, 1500)
    for rounds in (3, 5):
        found = [noise.headline([noise.scored(noise.seconds(model, dice)) for _ in range(rounds)]) for _ in range(100)]
        assert all(one.value is not None and one.ci_low is not None for one in found)
        # 95 % less two standard errors.
        assert sum(noise.covers(one, truth) for one in found) >= 90


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
def test_steady_rounds_are_seldom_flagged_whatever_their_noise(spread: float) -> None:
    dice = np.random.default_rng(11)
    found = [noise.scored(noise.seconds(Noise("steady", spread), dice)) for _ in range(300)]
    assert sum(bool(one.flags) for one in found) <= 15, "at most 5 %"


def test_a_large_change_inside_rounds_is_flagged() -> None:
    dice = np.random.default_rng(13)
    for model in (Noise("", 0.03, drift=0.3), Noise("", 0.03, level=0.3, level_share=1.0)):
        found = [noise.scored(noise.seconds(model, dice)) for _ in range(60)]
        assert sum(bool(one.flags) for one in found) >= 45


@pytest.mark.parametrize("others", [3, 8])
def test_runs_of_different_days_are_seldom_told_apart_wrongly_where_a_history_is_known(others: int) -> None:
    dice = np.random.default_rng(17)
    said = [noise.word(*noise.occasions(dice, others)) for _ in range(400)]
    assert sum(word in ("faster", "slower") for word in said) <= 0.07 * 400
    blind = [noise.word(*noise.occasions(dice, 0)) for _ in range(200)]
    assert sum(word in ("faster", "slower") for word in blind) >= 0.3 * 200, "what the history is for"


@pytest.mark.parametrize(("memory", "most"), [(0.0, 0.05), (0.3, 0.07), (0.6, 0.15)])
def test_alike_neighbours_are_seldom_a_change_of_level(memory: float, most: float) -> None:
    dice = np.random.default_rng(19)
    found = [change_points.changes(noise.speeds(dice, 12, memory), seed) for seed in range(100)]
    assert sum(map(bool, found)) <= most * 100
