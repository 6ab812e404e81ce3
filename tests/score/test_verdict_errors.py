"""How often verdicts are wrong, by simulation with fixed seeds: the promises that a verdict makes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from trainmark.score.stats import verdict
from trainmark.score.stats.confidence import log_t
from trainmark.score.stats.power import needed, stein
from trainmark.score.stats.verdict import Pair, decide, estimate, judge
from trainmark.spec.rules import RepeatAuto

PAIRS = 2000
Runs = np.ndarray[tuple[int, int], np.dtype[np.float64]]


@pytest.fixture(autouse=True)
def _only_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many runs would settle an open case takes most of the time, and changes no verdict."""
    monkeypatch.setattr(verdict, "needed", lambda *_: None)


def runs(seed: int, n: int, cv: float, ratio: float = 1.0, count: int = PAIRS) -> Runs:
    """Throughput of `n` runs in each of `count` experiments."""
    noise = np.random.default_rng(seed).normal(0.0, cv, (count, n))
    found: Runs = 250.0 * ratio * np.exp(noise)
    return found


def words(a: Runs, b: Runs, *, paired: bool = False) -> dict[str, float]:
    """The share of each verdict; every experiment is a family of its own."""
    found = Counter(judge([Pair(x, y, paired)])[0].word for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return {word: found[word] / len(a) for word in ("faster", "slower", "equivalent", "inconclusive")}


@pytest.mark.parametrize("n", [(2, 2), (3, 3), (5, 5), (10, 10), (2, 10), (12, 3)])
@pytest.mark.parametrize("cv", [(0.05, 0.05), (0.06, 0.02)])
def test_nothing_changed(n: tuple[int, int], cv: tuple[float, float]) -> None:
    found = words(runs(1, n[0], cv[0]), runs(2, n[1], cv[1]))
    assert found["faster"] + found["slower"] <= 0.06


def test_nothing_changed_in_blocks_with_their_own_weather() -> None:
    weather = runs(5, 6, 0.10) / 250.0
    found = words(runs(6, 6, 0.03) * weather, runs(7, 6, 0.03) * weather, paired=True)
    assert found["faster"] + found["slower"] <= 0.06


def test_a_slowdown_of_three_percent_is_found() -> None:
    found = words(runs(8, 10, 0.015), runs(9, 10, 0.015, ratio=0.97))
    assert found["slower"] >= 0.80 and found["faster"] == 0


@pytest.mark.parametrize("ratio", [1.03, 1 / 1.03])
@pytest.mark.parametrize("n", [3, 10])
def test_equivalence_is_not_claimed_at_the_edge(ratio: float, n: int) -> None:
    # With power to spare the claim is made at exactly 5 %, which 2,000 pairs show to within a percent.
    found = words(runs(10, n, 0.01), runs(11, n, 0.01, ratio=ratio))
    assert found["equivalent"] <= 0.06


def test_families_make_no_more_false_claims_than_single_cases() -> None:
    a, b = runs(12, 8 * 5, 0.03), runs(13, 8 * 5, 0.03)
    false = 0
    for left, right in zip(a.reshape(PAIRS, 8, 5).tolist(), b.reshape(PAIRS, 8, 5).tolist(), strict=True):
        verdicts = decide([estimate(Pair(x, y)) for x, y in zip(left, right, strict=True)])
        false += any(one.word in ("faster", "slower") for one in verdicts)
    assert false / PAIRS <= 0.06


def test_a_loss_at_the_threshold_seldom_crosses_it() -> None:
    a, b = runs(14, 5, 0.01), runs(15, 5, 0.01, ratio=0.95)
    crossed = sum(judge([Pair(x, y)])[0].past_threshold for x, y in zip(a.tolist(), b.tolist(), strict=True))
    assert crossed / PAIRS <= 0.06


def test_the_number_of_runs_said_to_be_needed_is_enough() -> None:
    n = needed((0.03**2, 0.03**2), 0.03)
    assert n is not None
    equal = words(runs(16, n, 0.03, count=1000), runs(17, n, 0.03, count=1000))
    lower = words(runs(18, n, 0.03, count=1000), runs(19, n, 0.03, ratio=1 / 1.03, count=1000))
    assert equal["equivalent"] >= 0.78 and lower["slower"] >= 0.78
    fewer = words(runs(20, n // 2, 0.03, count=1000), runs(21, n // 2, 0.03, count=1000))
    assert fewer["equivalent"] < 0.7


@pytest.mark.parametrize("cv", [0.01, 0.03, 0.05])
def test_adaptive_repeats_keep_their_promises(cv: float) -> None:
    """The mean is within ±target as often as Stein says, and the interval of the report is not much too narrow."""
    inside = covered = 0
    for speeds in runs(22, 150, cv).tolist():
        chosen = speeds[: stein(speeds[:5], RepeatAuto(max=150)).rounds]
        mean, low, high = log_t(chosen) or (0.0, 0.0, 0.0)
        inside += 1 / 1.02 <= mean / 250 <= 1.02
        covered += low <= 250 <= high
    assert inside / PAIRS >= 0.94 and covered / PAIRS >= 0.925
