"""Speed of runs whose speed is known."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.i18n.speaker import say
from trainmark.score.figures.attempt import Question, RunScore, score_run
from trainmark.score.figures.case import measure, outlier_runs
from trainmark.score.stats.confidence import log_t, outliers, t_limit
from trainmark.spec.rules import FixedWindow
from trainmark.testing.synthetic import Shape, columns_of, truth


def score(shape: Shape, ranks: int = 1, nodes: int = 1, **question: object) -> RunScore:
    asked = Question(world=ranks, **question)  # type: ignore[arg-type]
    return score_run(columns_of(shape, ranks, nodes), question=asked)


def test_known_speed_is_found() -> None:
    found = score(Shape(steps=200, data=0.1))
    assert found.value("throughput") == pytest.approx(80, rel=1e-9)
    assert (found.value("steps"), found.value("samples"), say(found.reason)) == (200, 1600, "")
    assert found.value("data_wait") == pytest.approx(0.1)
    assert found.window is not None and found.window.outcome == "steady"


def test_slow_start_and_single_stalls_do_not_hide_the_speed() -> None:
    shape = Shape(steps=400, warmup=40, noise=0.02, memory=0.5)
    found = score(shape, ranks=2)
    assert found.value("throughput") == pytest.approx(truth(shape, 2), rel=0.01)
    stalled = score(msgspec.structs.replace(shape, stalls={200: 3.0, 300: 3.0}))
    assert stalled.window is not None and stalled.window.outcome == "steady"
    # A stall is time that was spent: it counts, and it is shown.
    assert stalled.value("throughput") == pytest.approx(80 * 36 / (36 + 6), rel=0.02)
    assert stalled.value("step_time_max") == pytest.approx(3.1, rel=0.01)
    assert stalled.value("step_time_p50") == pytest.approx(0.1, rel=0.01)


@given(st.floats(-1e6, 1e6))
@settings(max_examples=20, deadline=None)
def test_clocks_of_nodes_are_never_compared(skew: float) -> None:
    shape = Shape(steps=120, seconds=0.2, skew=skew, slow={1: 1.25})
    found = score(shape, ranks=2, nodes=2)
    # Both ranks' samples, the slower rank's time.
    assert found.value("throughput") == pytest.approx(16 / 0.25, rel=1e-6)
    assert found.value("straggler") == pytest.approx(0.25 / 0.225 - 1, rel=1e-6)
    assert "slowest: rank 1" in say(measure([found], "images", 1)["straggler"].method)


def test_only_steps_that_all_ranks_finished_count_and_the_early_rank_is_named() -> None:
    found = score(Shape(steps=300, dropped={1: 150}), ranks=3)
    assert found.window is not None and found.window.last == 150
    assert found.value("throughput") == pytest.approx(240, rel=1e-9)
    assert [say(one) for one in found.notes] == ["rank 1 stopped at step 150 of 300: later steps do not count"]


def test_ranks_that_say_nothing_are_named_and_there_is_no_speed() -> None:
    found = score(Shape(dropped={1: 0, 3: 0}), ranks=4)
    assert found.figures["throughput"].value is None
    assert say(found.reason) == "2 of 4 ranks told no steps: 1, 3"


def test_evaluation_is_out_of_throughput_and_in_sustained() -> None:
    found = score(Shape(steps=200, evaluate_every=50, evaluate_seconds=5.0))
    assert found.value("throughput") == pytest.approx(80, rel=1e-9)
    assert found.window is not None and found.window.steps == 199
    assert found.value("sustained_throughput") == pytest.approx(199 * 8 / (19.9 + 3 * 5), rel=1e-9)


def test_too_short_is_said_and_what_was_seen_is_kept() -> None:
    for shape in (Shape(steps=20, seconds=1.0), Shape(steps=100, seconds=0.01)):
        found = score(shape)
        assert "at least 30 steps and 10 s" in say(found.reason)
        result = measure([found], "images", 1)["throughput"]
        assert result.value is None and result.inputs == [pytest.approx(8 / shape.seconds)]


@pytest.mark.parametrize(("steps", "reason"), [(0, "no steps"), (1, "1 step")])
def test_no_window_means_no_speed(steps: int, reason: str) -> None:
    found = measure([score(Shape(steps=steps))], "images", 1)["throughput"]
    assert found.value is None and reason in say(found.reason) and found.n == 0


def test_queued_steps_are_timed_at_block_edges_only_and_make_no_percentiles() -> None:
    # The host runs ahead of the device.
    shape = Shape(steps=300, timing="host-enqueue", evaluate_every=100, evaluate_seconds=3.0)
    found = score(shape, ranks=2)
    assert found.value("train_time") == pytest.approx(39.0)
    assert found.value("throughput") == pytest.approx(160, rel=1e-9)
    assert found.window is not None and found.window.before % 10 == 0 and found.window.last % 10 == 0
    assert found.figures["step_time_p50"].value is None and found.histogram_counts == [] and found.step_time == {}


def test_a_fixed_window_counts_exactly_its_steps() -> None:
    shape = Shape(steps=300, warmup=150, warmup_factor=2.0)
    found = score(shape, window=FixedWindow(100, 100))
    assert found.window is not None and (found.window.before, found.window.last) == (100, 200)
    assert found.value("throughput") == pytest.approx(100 * 8 / (50 * 0.2 + 50 * 0.1), rel=1e-9)
    result = measure([found], "images", 1)["throughput"]
    assert result.value is not None and "fixed: skip 100, steps 100" in say(result.method)
    assert "ends after the last step" in say(score(Shape(steps=150), window=FixedWindow(100, 100)).reason)


def test_one_run_has_no_interval_and_says_why() -> None:
    found = measure([score(Shape())], "images", 7)["throughput"]
    assert (found.n, found.ci_low, found.ci_high, found.unit, found.seed) == (1, None, None, "images/s", 7)
    assert "at least 2 rounds" in say(found.reason)


def test_interval_of_three_runs_by_hand_and_the_rounds_behind_it() -> None:
    runs = [score(Shape(seconds=seconds)) for seconds in (0.2, 0.21, 0.19)]
    found = measure(runs, "images", 1, rounds=5)["throughput"]
    logs = [math.log(8 / s) for s in (0.2, 0.21, 0.19)]
    mean = sum(logs) / 3
    half = 4.302652729911275 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    assert found.value == pytest.approx(math.exp(mean), rel=1e-9)
    assert found.ci_low == pytest.approx(math.exp(mean - half), rel=1e-9)
    assert found.ci_high == pytest.approx(math.exp(mean + half), rel=1e-9)
    assert say(found.reason) == "3 of 5 rounds succeeded"


def test_one_round_that_is_not_steady_leaves_the_case_without_a_headline() -> None:
    runs = [score(Shape()), score(Shape(level=0.3, level_at=0.6)), score(Shape())]
    found = measure(runs, "images", 1)["throughput"]
    assert found.value is None and found.n == 3 and len(found.inputs) == 3
    assert "two-level: steps are 30.0 % slower from step 181 on" in say(found.reason)


@pytest.mark.parametrize("n", range(2, 11))
def test_interval_covers_what_it_claims(n: int) -> None:
    import numpy as np

    draws = np.random.default_rng(n).normal(0, 0.02, (8000, n))
    mean, error = draws.mean(axis=1), draws.std(axis=1, ddof=1) / math.sqrt(n)
    assert np.mean(np.abs(mean) <= t_limit(n - 1) * error) >= 0.94
    found = log_t([100 * math.exp(x) for x in draws[0]])
    assert found is not None
    assert found[2] == pytest.approx(100 * math.exp(mean[0] + t_limit(n - 1) * error[0]), rel=1e-12)


def test_students_t_is_scipys() -> None:
    from scipy.special import stdtrit

    for freedom in (1, 2, 3, 8, 9, 30, 199):
        assert t_limit(freedom) == pytest.approx(stdtrit(freedom, 0.975), rel=1e-12)


def test_outliers_are_flagged_and_still_count() -> None:
    runs = [score(Shape(seconds=seconds)) for seconds in (0.1, 0.101, 0.099, 0.1005, 0.15)]
    assert outlier_runs(runs) == [False, False, False, False, True]
    found = measure(runs, "images", 1)["throughput"]
    assert found.n == 5 and "1 of 5 rounds lie apart" in say(found.reason)
    assert outliers([1.0, 1.0, 9.0]) == [False] * 3  # three runs cannot say which of them is odd
    assert outliers([5.0] * 6) == [False] * 6


@pytest.mark.parametrize("ranks", [1, 3])
def test_scoring_again_gives_the_same_to_the_last_bit(ranks: int) -> None:
    shape = Shape(noise=0.03, memory=0.4, outliers=0.02, warmup=20, evaluate_every=100)
    first, second = (
        measure([score_run(columns_of(shape, ranks, seed=seed)) for seed in (1, 2)], "images", 1) for _ in range(2)
    )
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
