"""Everything beside speed: phases, contention, energy, FLOP/s, convergence."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from trainmark.i18n.speaker import say
from trainmark.score.figures import contention, convergence
from trainmark.score.figures.attempt import Question, RunScore, score_run
from trainmark.score.figures.case import measure, to_target
from trainmark.score.figures.compute import PeakFlops
from trainmark.score.figures.convergence import Reach
from trainmark.score.figures.flags import of_case
from trainmark.score.records import Figure
from trainmark.spec.columns import Columns, Event, RankColumns
from trainmark.spec.workload import Target
from trainmark.store import columns, events
from trainmark.testing.synthetic import Load, Shape, write_attempt

S = 1_000_000_000
ACCURACY = Target("accuracy", 0.3, "up")


def score(
    folder: Path, shape: Shape, load: Load | None = None, *, hosts: tuple[str, ...] = ("n1",), **question: object
) -> RunScore:
    write_attempt(folder, shape, 1, hosts, load=load)
    asked = Question(world=len(hosts), **question)  # type: ignore[arg-type]
    return score_run(columns.read(folder, len(hosts)), events.samples(folder), asked)


def test_phases_add_up_and_flagperfs_three_speeds_follow(tmp_path: Path) -> None:
    found = score(tmp_path, Shape(steps=200, evaluate_every=100, evaluate_seconds=5.0, data=0.25))
    assert found.phases == pytest.approx({"init": 2.0, "train": 20.0, "evaluate": 10.0, "other": 0.5})
    assert sum(found.phases.values()) == pytest.approx(found.value("end_to_end_time"))
    times = [found.value(name) for name in ("init_time", "train_time", "train_no_eval_time", "pure_compute_time")]
    assert times == pytest.approx([2.0, 30.0, 20.0, 15.0])
    speeds = [found.value(name) for name in ("p_whole", "p_train", "p_core")]
    assert speeds == pytest.approx([1600 / 30, 1600 / 20, 1600 / 15])


def test_phases_inside_phases_count_once() -> None:
    kinds = ["PHASE_BEGIN", "PHASE_BEGIN", "PHASE_END", "PHASE_END"]
    names = ["evaluate", "checkpoint", "checkpoint", "evaluate"]
    inner = [
        Event(kind, 0, number + 3, (number + 3) * S, name=name)
        for number, (kind, name) in enumerate(zip(kinds, names, strict=True))
    ]
    begin = [Event("INIT_START", 0, 0, 0), Event("INIT_END", 0, 1, S), Event("TRAIN_START", 0, 2, 2 * S)]
    end = [Event("TRAIN_END", 0, 8, 10 * S), Event("FINISHED", 0, 9, 11 * S)]
    found = score_run(Columns([RankColumns(0, "n", 0, 11 * S, [*begin, *inner, *end])], [], 9))
    assert found.phases == pytest.approx({"init": 1.0, "train": 5.0, "evaluate": 3.0, "other": 2.0})
    assert say(found.reason) == "no steps"


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (Load(steal=0.05), "gave 5 % of the processors' time to others (limit 2 %)"),
        (Load(psi_cpu=0.4), "waited for a processor 40 % of the time (limit 10 %)"),
        (Load(foreign=1.5), "other programs kept 1.50 processors busy (limit 0.25)"),
        (Load(clocks=[3000.0] * 20 + [2000.0] * 10), "clock fell from 3000 to 2000 MHz"),
    ],
)
def test_a_disturbed_round_says_why_and_still_counts(tmp_path: Path, load: Load, reason: str) -> None:
    found = score(tmp_path, Shape(), load)
    assert len(found.disturbed) == 1 and say(found.disturbed).startswith("n1: ") and reason in say(found.disturbed)
    result = measure([found, found], "images", 1)
    assert result["throughput"].value == pytest.approx(80)
    (flag,) = of_case([found, found])
    assert (flag.reason.code, flag.rounds, flag.of) == ("disturbed", 2, 2) and reason in say(flag.reason)
    assert result["throughput"].value is not None
    assert result["disturbed_rounds"].value == 2


def test_a_quiet_machine_is_not_called_disturbed(tmp_path: Path) -> None:
    load = Load(foreign=0.1, steal=0.005, psi_cpu=0.03, clocks=[3000.0, 2900.0])
    assert score(tmp_path, Shape(), load).disturbed == []


def test_noise_outside_the_window_is_no_disturbance(tmp_path: Path) -> None:
    write_attempt(tmp_path, Shape(), 1, ["n1"], load=Load())
    (node,) = events.samples(tmp_path)
    first = min(record["t"] for record in node.records)
    noisy = [{**record, "steal": 1.0} if record["t"] <= first + S else record for record in node.records]
    found = score_run(columns.read(tmp_path), [msgspec.structs.replace(node, records=noisy)])
    assert found.disturbed == []
    assert contention.foreign_cores(node, first, first + 10 * S) == pytest.approx(0.0, abs=1e-9)


def test_energy_comes_from_counters_at_the_edges_of_each_nodes_window(tmp_path: Path) -> None:
    found = score(tmp_path, Shape(skew=1000.0), Load(watts=50.0), hosts=("n1", "n2"))
    assert found.window is not None
    assert found.value("energy") == pytest.approx(2 * 50 * found.window.seconds, rel=1e-6)
    assert found.value("energy_per_sample") == pytest.approx(2 * 50 / 160, rel=1e-6)
    assert "counter at the edges; processor packages" in say(measure([found], "images", 1)["energy"].method)


def test_power_is_integrated_only_over_a_minute_or_more(tmp_path: Path) -> None:
    load = Load(watts=50.0, counter=False)
    long = score(tmp_path / "long", Shape(steps=700), load)
    assert long.window is not None and long.value("energy") == pytest.approx(50 * long.window.seconds, rel=1e-6)
    assert "integrated power" in say(long.figures["energy"].how)
    short = score(tmp_path / "short", Shape(steps=300), load)
    assert short.value("energy") is None and "60 s" in say(short.figures["energy"].reason)


def test_a_node_without_a_counter_means_no_total(tmp_path: Path) -> None:
    write_attempt(tmp_path, Shape(), 1, ["n1", "n2"], load=Load(watts=50.0))
    one, two = events.samples(tmp_path)
    read = columns.read(tmp_path)
    blind = [{**record, "energy_uj": None, "power_w": None} for record in two.records]
    found = score_run(read, [one, msgspec.structs.replace(two, records=blind)]).figures["energy"]
    assert (found.value, say(found.reason)) == (None, "n2: has no energy counter")
    assert score_run(read, [one]).figures["cpu_utilisation"].value is None


def test_flops_against_each_denominator(tmp_path: Path) -> None:
    notes = {"flops_per_sample": 1e9, "hardware_flops_per_sample": 1.5e9, "matmul_flops_per_s": 2e11}
    found = score(tmp_path, Shape(notes=notes), flops_per_sample=7.0, peak=PeakFlops(4e11))
    # 80 samples a second; what the run noted goes before what the workload declares.
    names = ("achieved_flops", "mfu", "hfu", "matmul_fraction")
    assert [found.value(name) for name in names] == pytest.approx([8e10, 0.2, 0.3, 0.4])


def test_over_a_hundred_per_cent_is_an_error_and_an_unknown_peak_no_guess(tmp_path: Path) -> None:
    shape = Shape(notes={"matmul_flops_per_s": 1e10})
    found = score(tmp_path, shape, flops_per_sample=1e9, peak=PeakFlops(None, "nobody said")).figures
    assert (found["matmul_fraction"].value, found["mfu"].value) == (None, None)
    assert "800 % is over 100 %" in say(found["matmul_fraction"].reason)
    assert say(found["mfu"].reason) == "nobody said" and "not noted" in say(found["hfu"].reason)


def test_time_to_target_is_found_at_the_evaluation_that_reached_it(tmp_path: Path) -> None:
    shape = Shape(steps=200, evaluate_every=50, evaluate_seconds=1.0, accuracy=0.5)
    found = score(tmp_path / "a", shape, target=ACCURACY, hosts=("n1", "n2"))
    # Accuracy 0.375 after step 150: 15 s of steps and three evaluations.
    assert found.reach == Reach(True, pytest.approx(18.0), 150 * 8 * 2)  # type: ignore[arg-type]
    assert found.value("evaluation_accuracy") == 0.5 and found.value("final_loss") == pytest.approx(1.0)
    missed = score(tmp_path / "b", msgspec.structs.replace(shape, accuracy=0.2), target=ACCURACY)
    assert missed.reach == Reach(False, pytest.approx(24.0), 1600)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "value", "reason"),
    [
        ([(True, 10.0), (True, 12.0), (False, 61.0)], 12.0, "not reached in 1 of 3 rounds; censored at 61 s"),
        ([(True, 10.0), (False, 61.0), (False, 61.0)], None, "not reached in 2 of 3 rounds; censored at 61, 61 s"),
        ([(True, 10.0), (False, 61.0)], None, "not reached in 1 of 2 rounds"),
        ([(True, 10.0)], 10.0, "at least 2 rounds"),
    ],
)
def test_runs_that_miss_are_censored_never_averaged_away(
    runs: list[tuple[bool, float]], value: float | None, reason: str
) -> None:
    reaches = [Reach(good, seconds, 100) for good, seconds in runs]
    found = to_target(reaches, ACCURACY, "images", 1)["time_to_target"]
    assert found.value == value and reason in say(found.reason)
    assert found.n == len(runs) and found.inputs == [seconds for _, seconds in runs]


def test_the_parameter_sets_the_target() -> None:
    assert convergence.target(ACCURACY, {"target_accuracy": 0.8}) == Target("accuracy", 0.8, "up")
    assert convergence.target(ACCURACY, {"target_accuracy": 0.0}) is None
    assert convergence.target(ACCURACY, {}) == ACCURACY


def test_a_share_lies_within_what_can_be() -> None:
    """Two runs far apart: the t interval of their mean would reach below nothing and above everything."""
    runs = [RunScore(figures={"data_wait": Figure(value), "straggler": Figure(value)}) for value in (0.1, 0.9)]
    found = measure(runs, "samples", 1)
    assert (found["data_wait"].ci_low, found["data_wait"].ci_high) == (0.0, 1.0)
    assert found["straggler"].ci_low == 0.0 and (found["straggler"].ci_high or 0) > 1


def test_the_peak_is_named_with_the_figure(tmp_path: Path) -> None:
    notes = {"flops_per_sample": 1e9}
    found = score(tmp_path, Shape(notes=notes), peak=PeakFlops(4e11, source="the maker's paper"))
    assert say(found.figures["mfu"].how) == "of 4e+11 FLOP/s, the maker's paper"


def test_rounds_on_several_sets_of_nodes_are_not_pooled_blindly() -> None:
    """Six rounds on two sets of nodes are two observations of what other nodes would give, not six."""
    runs = [RunScore({"throughput": Figure(value)}) for value in (100.0, 101.0, 99.0, 120.0, 121.0, 119.0)]
    blind = measure(runs, "things", 1)["throughput"]
    sets = [("n1", "n2")] * 3 + [("n3", "n4")] * 3
    found = measure(runs, "things", 1, sets=sets)["throughput"]
    assert found.ci_low is not None and blind.ci_low is not None and found.ci_low < 60 < blind.ci_low
    assert found.value == pytest.approx(blind.value, rel=1e-9) and "means of 2 sets of nodes" in say(found.method)
    assert measure(runs, "things", 1, sets=[("n1",)] * 6)["throughput"] == blind
