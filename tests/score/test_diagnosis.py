"""Traces with known truth: the classes of a step must be found as they were made."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from trainmark.i18n.speaker import say
from trainmark.score.diagnosis import causes as diagnosis
from trainmark.score.diagnosis.breakdown import CLASSES
from trainmark.score.diagnosis.causes import Observed, RoundTrace
from trainmark.spec.columns import Trace
from trainmark.store import traces

ZERO = 3947379147991.0
STEP = 100_000.0  # microseconds
CPU, ANNOTATION, KERNEL = "cpu_op", "user_annotation", "kernel"


class Made:
    """A trace as PyTorch writes it, from spans in milliseconds of each step."""

    def __init__(self, steps: int = 20, step: float = STEP) -> None:
        self.events: list[dict[str, Any]] = []
        self.steps, self.step, self.launched = steps, step, 0
        for number in range(steps):
            self.add(number, ANNOTATION, f"ProfilerStep#{number}", 0, step / 1000)

    def add(self, number: int, cat: str, name: str, begin: float, end: float, tid: int = 1, **args: Any) -> None:
        at = {"ts": ZERO + number * self.step + 1000 * begin, "dur": 1000 * (end - begin), "tid": tid, "pid": 1}
        self.events.append({"ph": "X", "cat": cat, "name": name, "args": args, **at})

    def each(self, cat: str, name: str, begin: float, end: float, tid: int = 1, **args: Any) -> Made:
        for number in range(self.steps):
            self.add(number, cat, name, begin, end, tid, **args)
        return self

    def kernel(self, name: str, begin: float, end: float, asked: float, cat: str = KERNEL) -> Made:
        for number in range(self.steps):
            self.launched += 1
            self.add(number, "cuda_runtime", "cudaLaunchKernel", asked, asked + 0.001, correlation=self.launched)
            self.add(number, cat, name, begin, end, 7, correlation=self.launched)
        return self

    def read(self, folder: Path, rank: int = 0) -> Trace:
        file = folder / f"rank{rank}.json.gz"
        file.write_bytes(gzip.compress(json.dumps({"traceEvents": self.events, "schemaVersion": 1}).encode()))
        found = traces.read(file, rank, self.steps)
        assert isinstance(found, Trace)
        return found


def milli(found: RoundTrace, rank: int = 0) -> dict[str, float]:
    return {name: 1000 * seconds for name, seconds in found.classes[rank].items()}


def test_a_cpu_and_its_own_threads_for_communication(tmp_path: Path) -> None:
    made = Made().each(ANNOTATION, "trainmark:data", 0, 10).each(CPU, "aten::randn", 2, 8)
    made.each(CPU, "aten::conv2d", 12, 60).each(CPU, "aten::mm", 20, 50).each(CPU, "c10d::allreduce_", 60, 60.5)
    made.each(ANNOTATION, "gloo:all_reduce", 40, 80, tid=9).each(CPU, "aten::add_", 80.005, 90)
    found = diagnosis.read_round([made.read(tmp_path)])
    expected = {"compute": 48 + 9.995, "transfer": 20, "waiting": 0, "copies": 0, "data": 10, "launch": 0.005}
    assert milli(found) == pytest.approx({**expected, "host": 2 + 10, "unexplained": 0}, abs=1e-3)
    assert found.overlap == pytest.approx(0.5) and found.step == pytest.approx(0.1)
    # Time of operators without those inside them.
    assert found.operators["aten::conv2d"] == pytest.approx(0.018) and found.operators["aten::mm"] == pytest.approx(
        0.03
    )


def test_a_device_that_works_behind_its_host(tmp_path: Path) -> None:
    made = (
        Made().kernel("gemm", 0, 30, -5).kernel("gemm", 30.005, 40, 10).kernel("Memcpy HtoD", 40, 45, 12, "gpu_memcpy")
    )
    made.kernel("ncclDevKernel_AllReduce_Sum_f32", 35, 60, 20).kernel("gemm", 70, 80, 69).kernel("gemm", 85, 90, 30)
    made.each(ANNOTATION, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 90, 98)
    found = diagnosis.read_round([made.read(tmp_path)])
    expected = {
        "compute": 30 + 9.995 + 10 + 5,
        "transfer": 20,
        "waiting": 0,
        "copies": 0,  # behind communication
        "data": 8,
        "host": 10,  # asked for 9 ms after the device had become idle
        "launch": 0.005,
        # Asked for long before, and still late; and after the last kernel of all nothing tells.
        "unexplained": 5 + 2,
    }
    # The gap over a step's end is ended by a kernel of the next step, asked for before the gap began.
    assert milli(found) == pytest.approx(expected, abs=2e-3)


def test_who_came_last_and_why(tmp_path: Path) -> None:
    """Rank 1 loads for 30 ms longer, and its clock is an hour ahead."""
    fast = Made().each(ANNOTATION, "trainmark:data", 0, 5).each(CPU, "aten::mm", 5, 50)
    fast.each(ANNOTATION, "gloo:all_reduce", 50, 90, tid=9)
    slow = Made().each(ANNOTATION, "trainmark:data", 0, 35).each(CPU, "aten::mm", 35, 80)
    slow.each(ANNOTATION, "gloo:all_reduce", 80, 90, tid=9)
    for event in slow.events:
        event["ts"] += 3.6e9
    found = diagnosis.read_round([fast.read(tmp_path, 0), slow.read(tmp_path, 1)])
    assert milli(found, 0)["waiting"] == pytest.approx(30) and milli(found, 0)["transfer"] == pytest.approx(10)
    assert milli(found, 1)["waiting"] == 0 and milli(found, 1)["transfer"] == pytest.approx(10)
    assert found.waited[0] == pytest.approx({(1, "data"): 0.03})
    told = diagnosis.diagnose("mnist:pytorch:cpu:2:1:1", [Observed(found)] * 3, {0: "n1", 1: "n2"})
    first = told.causes[0]
    assert first.kind == "waiting" and "rank 1 on n2: its data" in say(first.place)
    assert first.seconds.value == pytest.approx(0.03)
    # What rank 1 alone does longer is not named a second time as everybody's loss.
    assert [(one.kind, round(one.seconds.value or 0, 6)) for one in told.causes[1:]] == [
        ("host", 0.01),
        ("transfer", 0.01),
    ]


def test_classes_add_up_whatever_the_trace_holds(tmp_path: Path) -> None:
    dice = random.Random(7)
    for trial in range(20):
        made = Made(steps=20)
        kinds = [(CPU, "aten::mm"), (ANNOTATION, "gloo:all_reduce"), (ANNOTATION, "trainmark:data"), (CPU, "c10d::x")]
        for _ in range(dice.randrange(1, 40)):
            begin = dice.uniform(-20, 110)
            made.each(*dice.choice(kinds), begin, begin + dice.expovariate(0.1), tid=dice.randrange(4))
        both = [made.read(tmp_path, 0), made.read(tmp_path, 1)]
        found = diagnosis.read_round(both)
        for parts in found.classes.values():
            assert set(parts) == set(CLASSES) and min(parts.values()) >= -1e-12
            assert sum(parts.values()) == pytest.approx(STEP * 1e-6, rel=1e-9), trial
            assert parts["unexplained"] <= 0.05 * STEP * 1e-6


def test_declared_pauses_are_no_part_of_a_step(tmp_path: Path) -> None:
    made = Made().each(CPU, "aten::mm", 0, 50)
    made.add(3, ANNOTATION, "trainmark:phase", 60, 100)
    found = diagnosis.read_round([made.read(tmp_path)])
    assert found.step == pytest.approx((20 * 0.1 - 0.04) / 20)


def test_what_is_not_whole_gives_no_class(tmp_path: Path) -> None:
    made = Made(steps=12).each(CPU, "aten::mm", 0, 50)
    made.read(tmp_path)
    assert say(traces.read(tmp_path / "rank0.json.gz", 0, 20)) == "rank 0: 12 of 20 steps were traced"
    (tmp_path / "rank1.json.gz").write_bytes((tmp_path / "rank0.json.gz").read_bytes()[:-40])
    assert "cannot be read" in say(traces.read(tmp_path / "rank1.json.gz", 1))
    (tmp_path / "rank2.json").write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 1.0, "dur": 2.0}]}')
    assert "no step is marked" in say(traces.read(tmp_path / "rank2.json", 2))
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:1:1", [Observed(None, {0: 0.1})] * 5, {0: "n1"})
    assert all(value.value is None and value.reason for value in told.classes.values()) and told.causes == []
    assert told.plain_step.value == pytest.approx(0.1)


def test_replayed_graphs_leave_the_reasons_for_idle_time_open(tmp_path: Path) -> None:
    made = Made().kernel("gemm", 0, 30, -5).each("cuda_runtime", "cudaGraphLaunch", 0, 1)
    found = diagnosis.read_round([made.read(tmp_path)])
    told = diagnosis.diagnose("mnist:pytorch:nvidia:1:1:1", [Observed(found)] * 3, {0: "n1"})
    assert told.classes["compute"].value == pytest.approx(0.03)
    assert told.classes["host"].value is None and "graphs" in say(told.classes["host"].reason)


def test_contradiction_is_shown_and_the_trace_is_lowered_by_its_own_slow_down_only(tmp_path: Path) -> None:
    made = Made().each(CPU, "aten::mm", 0, 60).each(ANNOTATION, "gloo:all_reduce", 60, 90, tid=9)
    found = diagnosis.read_round([made.read(tmp_path, 0), made.read(tmp_path, 1)])
    plain = {0: 0.1, 1: 0.1}
    agree = [Observed(found, plain, {0: 0.07 + 0.0001 * n, 1: 0.07}) for n in range(5)]
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:2:1", agree, {0: "n1", 1: "n1"})
    assert told.by_ablation.value == pytest.approx(0.03, rel=0.05) and say(told.disagreement) == ""
    apart = [Observed(found, plain, {0: 0.09 + 0.0001 * n, 1: 0.09}) for n in range(5)]
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:2:1", apart, {0: "n1", 1: "n1"})
    assert "67 % between them" in say(told.disagreement)
    # A call that stays in the ablation is not seen by it: the trace took no longer than plain steps.
    (transfer,) = [one for one in told.causes if one.kind == "transfer"]
    assert transfer.seconds.value == pytest.approx(0.03, rel=0.05)
    slowed = [Observed(found, {0: 0.085, 1: 0.085}, {0: 0.075 + 0.0001 * n, 1: 0.075}) for n in range(5)]
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:2:1", slowed, {0: "n1", 1: "n1"})
    (transfer,) = [one for one in told.causes if one.kind == "transfer"]
    assert transfer.seconds.value == pytest.approx(0.015, rel=0.05), "tracing added 15 ms to a step"


def test_a_noisy_ablation_does_not_outweigh_the_trace(tmp_path: Path) -> None:
    made = Made(step=172_000.0).each(CPU, "aten::mm", 0, 30).each(ANNOTATION, "gloo:all_reduce", 30, 166, tid=9)
    found = diagnosis.read_round([made.read(tmp_path, 0), made.read(tmp_path, 1)])
    noisy = [
        Observed(found, {0: 0.172 + off, 1: 0.172}, {0: 0.17, 1: 0.17}) for off in (0.03, -0.03, 0.02, -0.02, 0.001)
    ]
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:2:1", noisy, {0: "n1", 1: "n1"})
    assert told.causes[0].kind == "transfer" and told.causes[0].seconds.value == pytest.approx(0.136, rel=0.01)
    assert told.causes[0].share == pytest.approx(0.79, abs=0.01)


def test_a_large_share_of_the_optimizer_is_named(tmp_path: Path) -> None:
    made = Made(step=250_000.0).each(CPU, "aten::mm", 0, 90).each(CPU, "aten::add_", 95, 245)
    made.each(ANNOTATION, "Optimizer.step#AdamW.step", 92, 246)
    found = diagnosis.read_round([made.read(tmp_path)])
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:1:1", [Observed(found)] * 3, {0: "n1"})
    assert told.causes[0].kind == "optimizer" and told.causes[0].seconds.value == pytest.approx(0.154, rel=0.01)
    small = Made().each(CPU, "aten::mm", 0, 90).each(ANNOTATION, "Optimizer.step#SGD.step", 90, 93)
    found = diagnosis.read_round([small.read(tmp_path)])
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:1:1", [Observed(found)] * 3, {0: "n1"})
    assert "optimizer" not in [one.kind for one in told.causes]


def test_what_is_uncertain_is_not_called_nothing(tmp_path: Path) -> None:
    rounds = []
    for end in (60, 60, 95):
        made = Made().each(CPU, "aten::mm", 0, 60)
        made = made.each(ANNOTATION, "enumerate(DataLoader)#_next", 60, end) if end > 60 else made
        rounds.append(Observed(diagnosis.read_round([made.read(tmp_path)])))
    told = diagnosis.diagnose("mnist:pytorch:cpu:1:1:1", rounds, {0: "n1"})
    assert told.uncertain and all(one.seconds.low is not None and one.seconds.low <= 0 for one in told.uncertain)
