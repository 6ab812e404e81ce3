"""Speed of runs whose speed is known."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.i18n.speaker import say
from trainmark.score.figures.attempt import Question, RunScore, score_run
from trainmark.score.figures.case import measure
from trainmark.score.figures.definitions import GATED
from trainmark.score.figures.flags import of_case, outlier_runs
from trainmark.score.figures.steady import LEAST_INTERVALS
from trainmark.score.figures.window import LEAST_SECONDS, LEAST_STEPS
from trainmark.score.stats.confidence import log_t, outliers, t_limit
from trainmark.spec.rules import FixedWindow
from trainmark.testing import edges
from trainmark.testing.synthetic import Shape, columns_of, step_seconds, truth


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


@pytest.mark.parametrize(
    ("shape", "severity"),
    [
        (Shape(steps=60, seconds=1.0), "warning"),
        (Shape(steps=500, seconds=0.01), "warning"),
        (Shape(steps=9, seconds=9.0), "severe"),
        (Shape(steps=120, seconds=0.01), "severe"),
    ],
)
def test_a_short_window_is_flagged_and_its_figure_given(shape: Shape, severity: str) -> None:
    found = score(shape)
    assert [flag.severity for flag in found.flags] == [severity] and found.reason is None
    assert "100 steps and 15 s are asked for" in say(found.flags[0].reason)
    result = measure([found], "images", 1, of_case([found]))["throughput"]
    assert result.value == pytest.approx(8 / shape.seconds)
    assert [flag.reason.code for flag in result.flags] == sorted(["window-too-short", "one-round"], reverse=True)


def test_what_makes_speed_a_lie_withholds_every_figure_of_steps_and_samples() -> None:
    found = score(Shape(steps=200, dropped={1: 0}), ranks=2)
    given = {name for name in GATED if found.figures[name].value is not None}
    assert not given and not found.histogram_counts and not found.step_time and found.value("samples") is None
    assert found.value("end_to_end_time") is not None


def test_a_round_without_a_figure_is_left_out_and_said() -> None:
    runs = [score(Shape(), 2), score(Shape(seconds=0.11), 2), score(Shape(dropped={1: 0}), 2)]
    flags = of_case(runs)
    assert [(flag.severity, flag.reason.code, flag.rounds, flag.of) for flag in flags] == [
        ("severe", "round-withheld", 1, 3)
    ]
    found = measure(runs, "images", 1, flags, sets=["n1", "n1", "n2"])
    assert found["throughput"].n == 2 and found["p_whole"].n == 2 and found["end_to_end_time"].n == 3
    assert found["throughput"].value == pytest.approx(160 / math.sqrt(1.1), rel=1e-6)


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


def test_steps_that_the_device_timed_have_percentiles() -> None:
    shape = Shape(steps=300, timing="host-enqueue", events=1.0, noise=0.05, evaluate_every=100, slow={1: 1.1})
    found = score(shape, ranks=2)
    assert found.window is not None
    inside = 1.1 * step_seconds(shape)[found.window.before : found.window.last]
    # The step after an evaluation holds it, on the device's clock as well.
    trained = [one for at, one in enumerate(inside, found.window.before + 1) if at % 100 != 1]
    assert found.value("step_time_p90") == pytest.approx(np.quantile(trained, 0.9), rel=1e-6)
    assert found.value("step_time_max") == pytest.approx(max(trained), rel=1e-6)
    assert "timed by the device" in say(measure([found], "images", 1)["step_time_p50"].method)
    assert sum(found.histogram_counts) == len(trained)


def test_a_device_that_tells_other_times_than_the_host_sees_is_not_believed() -> None:
    found = score(Shape(steps=300, timing="host-enqueue", events=1e-3))
    assert found.value("throughput") == pytest.approx(80, rel=1e-9)
    assert found.value("step_time_p50") is None and found.histogram_counts == []
    assert "differ by -100 %" in say(found.figures["step_time_p50"].reason)


@pytest.mark.parametrize("seconds", [0.02, 0.11, 0.2, 0.95, 1.0])
@pytest.mark.parametrize("ahead", [0, 1000])
def test_ranks_share_edges_in_every_window_that_is_long_enough(seconds: float, ahead: int) -> None:
    steps = LEAST_STEPS + 30 + int(LEAST_SECONDS / seconds)
    training = edges.Training(ranks=8, steps=steps, seconds=seconds, jitter=0.1, ahead=ahead)
    least = edges.in_window(*edges.shared(training), LEAST_STEPS, LEAST_SECONDS)
    assert least is not None and least > LEAST_INTERVALS


def test_ranks_that_go_by_their_own_clocks_share_too_few_edges() -> None:
    training = edges.Training(ranks=8, steps=300, seconds=0.1, late=0.01)
    least = edges.in_window(*edges.shared(training, rule=edges.OwnClocks), LEAST_STEPS, LEAST_SECONDS)
    assert least is not None and least < LEAST_INTERVALS


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
    found = measure(runs, "images", 1, of_case(runs, 5))["throughput"]
    logs = [math.log(8 / s) for s in (0.2, 0.21, 0.19)]
    mean = sum(logs) / 3
    half = 4.302652729911275 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    assert found.value == pytest.approx(math.exp(mean), rel=1e-9)
    assert found.ci_low == pytest.approx(math.exp(mean - half), rel=1e-9)
    assert found.ci_high == pytest.approx(math.exp(mean + half), rel=1e-9)
    assert [say(flag.reason) for flag in found.flags] == ["3 of 5 rounds succeeded"]


def test_one_round_that_is_not_steady_is_counted_flagged_and_widens_the_interval() -> None:
    shapes = [Shape(noise=0.01), Shape(noise=0.01, level=0.3, level_at=0.6), Shape(noise=0.01)]
    runs = [score_run(columns_of(shape, seed=seed)) for seed, shape in enumerate(shapes)]
    found = measure(runs, "images", 1, of_case(runs))["throughput"]
    plain = log_t([run.value("throughput") or 0.0 for run in runs])
    assert plain is not None and found.value == pytest.approx(plain[0]) and found.n == 3
    (flag,) = found.flags
    assert (flag.severity, flag.rounds, flag.of) == ("severe", 1, 3)
    assert "two levels: from about step 181 on, steps took 30." in say(flag.reason) and "more time" in say(flag.reason)
    # In one round of three the speed was a tenth above and a sixth below the round's own.
    assert found.ci_low is not None and found.ci_high is not None
    assert found.ci_low / plain[1] == pytest.approx((1.12 / 1.3) ** (1 / 3), rel=0.01)
    assert found.ci_high / plain[2] == pytest.approx(1.12 ** (1 / 3), rel=0.01)


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
    found = measure(runs, "images", 1, of_case(runs))["throughput"]
    assert found.n == 5 and [(flag.reason.code, flag.rounds) for flag in found.flags] == [("round-apart", 1)]
    assert outliers([1.0, 1.0, 9.0]) == [False] * 3  # three runs cannot say which of them is odd
    assert outliers([5.0] * 6) == [False] * 6


@pytest.mark.parametrize("ranks", [1, 3])
def test_scoring_again_gives_the_same_to_the_last_bit(ranks: int) -> None:
    shape = Shape(noise=0.03, memory=0.4, outliers=0.02, warmup=20, evaluate_every=100)
    first, second = (
        measure([score_run(columns_of(shape, ranks, seed=seed)) for seed in (1, 2)], "images", 1) for _ in range(2)
    )
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
