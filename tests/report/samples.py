"""Reports made by hand, one of each kind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from tests.plans import plan
from trainmark.automl.experiment.document import document
from trainmark.automl.experiment.monitoring import Series
from trainmark.automl.experiment.result import Gaps, Result, TrialRow
from trainmark.automl.experiment.rules import RuleVerdict
from trainmark.automl.experiment.score import Point as CurvePoint
from trainmark.reasons import Reason, as_reason, reason
from trainmark.report.charts.records import Curve
from trainmark.report.make import why
from trainmark.report.make.acceptance import Acceptance
from trainmark.report.make.compare import Compared, Comparison, NotCompared, Overall
from trainmark.report.make.goodput import GoodputCase, GoodputRun
from trainmark.report.make.history import Entry, History, LeftOut
from trainmark.report.make.predict import PredictedRun, PredictedSeries, Refusal
from trainmark.report.make.references import Reference, ReferenceCase
from trainmark.report.make.score import Score
from trainmark.report.make.score import score as score_of
from trainmark.report.make.why import Why
from trainmark.report.records import (
    CaseReport,
    Contest,
    Report,
    Rival,
    RunReport,
    RunSeries,
    StudyCell,
    StudyReport,
    Trained,
)
from trainmark.report.show import show
from trainmark.score.accept.contract import PromiseCheck
from trainmark.score.accept.links import Effect, LinksResult
from trainmark.score.accept.nodes import NodeResult
from trainmark.score.records import Cause, Diagnosis, Figure, Flag, Goodput, Measurement, Recovery, Value, Verdict
from trainmark.score.stats.change_points import Change
from trainmark.score.studies.aggregate import Speed
from trainmark.score.studies.goodput import Forecast
from trainmark.score.studies.predict import Prediction
from trainmark.score.studies.scaling import ScalePoint
from trainmark.spec.peaks import Bandwidth, Matmul, Message, Peaks, Product
from trainmark.spec.states import JobState
from trainmark.store.rundir import Imported
from trainmark.testing.launchers import case_plan

HOSTILE = "<script>alert(1)</script>"
WORSE = "\"'><img src=x onerror=alert(2)>&lt;\u202e{0}\x1b[31m|`@user #1"


def curve(name: str, unit: str, ys: list[float | None], step: float = 1.0, start: float = 1.0) -> Curve:
    return Curve(name, unit, [start + step * index for index in range(len(ys))], ys)


def run(number: int, *, speed: float = 24.6, steps: int = 400, outcome: str = "steady", seed: int = 0) -> RunReport:
    dice = random.Random(100 * seed + number)
    pace = 16 / speed
    drift = 0.0015 if outcome == "drifting" else 0.0
    times: list[float | None] = [
        pace * (1 + drift * index) * dice.lognormvariate(0, 0.03) * (1 + 30 * math.exp(-index / 2))
        for index in range(steps)
    ]
    loss: list[float | None] = [6.9 * math.exp(-index / 180) + 0.4 + dice.gauss(0, 0.06) for index in range(steps)]
    seconds = int(steps * pace)
    window = [value for value in times[20:] if value is not None]
    edges = [min(window) + (max(window) - min(window)) * index / 24 for index in range(25)]
    counts = [sum(low <= value < high for value in window) for low, high in pairwise(edges)]
    cpu: list[float | None] = [min(1.0, 0.9 + dice.gauss(0, 0.04)) for _ in range(min(300, seconds))]
    cpu[10:14] = [None] * min(4, max(0, len(cpu) - 10))
    series = RunSeries(
        step_time=curve("step time", "s", times),
        loss=curve("loss", "loss", loss),
        evaluations=[curve("accuracy", "fraction", [0.3, 0.52, 0.61, 0.66], steps / 4, steps / 4)],
        band_low=Curve("low", "", [1.0, 20.0, 21.0, 100.0], [6.0, 6.0, 4.4, 4.4]),
        band_high=Curve("high", "", [1.0, 20.0, 21.0, 100.0], [8.2, 8.2, 6.6, 6.6]),
        band_means=Curve("mean", "", [1.0, 20.0, 21.0, 100.0], [6.95, 6.95, 5.4, 5.4]),
        utilisation=[
            curve("n1 cpu", "fraction", cpu),
            curve("n1 mem_used", "bytes", [float(6e9 + 2e6 * index) for index in range(len(cpu))]),
        ],
    )
    total = steps * pace
    return RunReport(
        round=number,
        attempt=1,
        hosts=["n1"],
        outcome=outcome,
        window_first=21,
        window_last=steps,
        throughput=speed,
        sustained=speed * 0.93,
        phases={"init": 4.2, "train": total, "evaluate": total / 11, "checkpoint": 2.0, "other": 1.1},
        end_to_end=total * 12 / 11 + 7.3,
        step_time={"p50": pace, "p90": pace * 1.04, "p99": pace * 1.09, "max": max(window)},
        histogram_edges=edges,
        histogram_counts=counts,
        series=series,
    )


def texts(*told: str) -> list[Reason]:
    """Text of an older run, as it stands in records."""
    return [found for one in told if (found := as_reason(one))]


def measured(speeds: list[float], *, unit: str = "images", why: str = "") -> dict[str, Measurement]:
    formula = "samples of the window over all ranks ÷ longest duration of any rank, declared phases left out"
    n, mean = len(speeds), math.exp(sum(map(math.log, speeds)) / len(speeds))
    value, low, high = (None, None, None) if why else (mean, mean * 0.953, mean * 1.049)
    if n == 1:
        low = high = None
    method = [reason("single-run") if n == 1 else reason("geometric-mean")]
    rate = Measurement("throughput", value, f"{unit}/s", n, low, high, method, formula, speeds, texts(why), seed=7)
    found = [
        rate,
        Measurement("sustained_throughput", mean * 0.93, f"{unit}/s", n, method=method, formula=formula, inputs=speeds),
        Measurement("steps", 400.0 * n, "steps", n, method=[reason("sum")], formula="steps of the slowest rank"),
        Measurement("data_wait", 0.0123, "fraction", n, method=[reason("mean")], formula="wait ÷ window"),
        Measurement("matmul_fraction", 0.412, "fraction", n, method=[reason("mean")], formula="FLOP/s ÷ matmul FLOP/s"),
        Measurement("peak_memory", 6.4e9, "bytes", n, method=[reason("highest")], formula="largest resident set"),
        Measurement("energy", None, "J", 0, reason=texts("no energy counter on this machine")),
    ]
    return {one.name: one for one in found}


def case(name: str, runs: list[RunReport], **more: object) -> CaseReport:
    fields: dict[str, object] = {
        "state": JobState.SUCCEEDED,
        "reason": "all ranks ended well",
        "rounds": max(1, len(runs)),
        "counted": len(runs),
        "measurements": measured([one.throughput or 1.0 for one in runs]) if runs else {},
        "variance_level": as_reason(f"{len(runs)} runs, 1 allocation, node n1" if runs else ""),
        "band": reason("band-inside"),
        "notes": [],
        "trained": Trained(
            name.partition(":")[0],
            "quick",
            "images",
            parameters=25_557_032,
            model={"layers": 50, "width": 64},
            batch_per_rank=16,
            global_batch=16,
            ranks=1,
            dtype="fp32",
            data="synthetic",
            synthetic=True,
            image_size=64,
        ),
    }
    fields |= more
    fields["reason"] = as_reason(str(fields["reason"]))
    return CaseReport(case=name, fingerprint="18ad9378bad1cecd", division="closed", preset="quick", runs=runs, **fields)  # type: ignore[arg-type]


def steady(name: str = "resnet50:pytorch:cpu:1:1:3", speed: float = 24.6, seed: int = 0) -> CaseReport:
    return case(name, [run(index + 1, speed=speed * by, seed=seed) for index, by in enumerate((0.97, 1.0, 1.028))])


def single() -> CaseReport:
    return case(
        "mnist:pytorch:cpu:1:2:1@batch=64,dtype=bf16",
        [run(1, speed=6120.0)],
        band=reason("band-not-applicable", why="batch=64 is not the preset's"),
    )


def drifting() -> CaseReport:
    drift = Flag("severe", reason("drifting-slower", percent=38.0, error=2.1, first=21, last=400), 2, 3)
    load = Flag("warning", reason("disturbed", why=texts("steal 4.1 %")[0]), 1, 3)
    flags = [drift, load, Flag("note", reason("round-apart"), 1, 3), Flag("note", reason("data-synthetic"))]
    runs = [run(1, speed=11.3, outcome="drifting"), run(2, speed=11.9, outcome="drifting"), run(3, speed=11.0)]
    runs[0] = replace(runs[0], flags=[replace(drift, rounds=None, of=None)])
    runs[1] = replace(
        runs[1],
        disturbed=texts("steal 4.1 %", "memory pressure 12 %"),
        outlier=True,
        flags=[replace(flag, rounds=None, of=None) for flag in flags[:3]],
    )
    found = {name: replace(one, flags=flags) for name, one in measured([11.3, 11.9, 11.0]).items()}
    return case("bert_tiny:pytorch:cpu:1:2:3@batch=32,seq=128", runs, measurements=found, flags=flags)


def failed(lines: list[str] | None = None) -> CaseReport:
    return case(
        "resnet50:pytorch:cpu:1:4:3@batch=256",
        [],
        state=JobState.FAILED,
        reason="probably out of memory: rank 2 was killed, while the kernel killed 1 processes here for memory",
        rounds=3,
        band=None,
        failure={
            "rank": 2,
            "kind": "oom",
            "exit": None,
            "signal": 9,
            "last_lines": lines or ["epoch 1 step 12 loss 6.91", "epoch 1 step 13 loss 6.90", "allocating 4,096 MiB …"],
        },
    )


def invalid() -> CaseReport:
    return case(
        "mnist:pytorch:cpu:1:1:2@lr=9.0",
        [run(1, speed=5900.0), run(2, speed=5950.0)],
        state=JobState.INVALID,
        reason="loss 7.31 at step 200 is outside its band (1.2 … 3.4)",
        measurements={},
        band=reason("band-outside"),
    )


def skipped() -> CaseReport:
    return case(
        "llama_tiny:pytorch:nvidia:1:8:3",
        [],
        state=JobState.SKIPPED,
        reason="no device `nvidia` on this site",
        rounds=3,
        band=None,
    )


def hostile() -> CaseReport:
    one = run(1)
    evil = [curve(WORSE, HOSTILE, [1.0, 2.0])]
    series = RunSeries(step_time=one.series and one.series.step_time, evaluations=evil, utilisation=evil)
    one = replace(one, hosts=[HOSTILE], disturbed=texts(WORSE), phases={HOSTILE: 3.0, WORSE: 2.0}, series=series)
    return case(
        f"{HOSTILE}:{WORSE}",
        [one],
        state=JobState.FAILED,
        reason=f"=cmd|' /C calc'!A0 {HOSTILE}",
        notes=texts(HOSTILE, WORSE),
        failure={
            "rank": 0,
            "kind": HOSTILE,
            "exit": 1,
            "signal": None,
            "last_lines": [HOSTILE, WORSE, "</pre>" + HOSTILE],
        },
        band=reason("band-not-applicable", why=HOSTILE),
    )


def report(*cases: CaseReport, state: JobState = JobState.SUCCEEDED, **more: object) -> Report:
    fields: dict[str, object] = {
        "run": "20261115-234558-quick-aacd",
        "suite": "quick",
        "dir": "/srv/runs/20261115-234558-quick-aacd",
        "created": 1794786358.0,
        "environment": {
            "code": {"trainmark": "0.1.0", "commit": "2e3af42"},
            "host": {"host": "n1", "cpu.model": "Example CPU 8375C", "cpu.threads": "8", "memory_bytes": "33285996544"},
            "python": {"version": "3.11.7"},
            "packages": {"torch": "2.13.0", "numpy": "2.1.0"},
            "environment": {"OMP_NUM_THREADS": "4"},
        },
    }
    return Report(state=state, cases=list(cases), **{**fields, **more})  # type: ignore[arg-type]


def everything() -> Report:
    return report(
        steady(),
        single(),
        drifting(),
        failed(),
        invalid(),
        skipped(),
        state=JobState.FAILED,
        warnings=["journal.jsonl: line 41 is torn and was passed over"],
    )


def nasty() -> Report:
    return report(
        hostile(),
        steady(),
        warnings=[HOSTILE, WORSE],
        suite=HOSTILE,
        run=WORSE,
        environment={HOSTILE: {WORSE: HOSTILE}},
    )


def many(count: int = 200) -> Report:
    return report(
        *(steady(f"resnet50:pytorch:cpu:1:1:3@batch={index}", 5.0 + 3 * index, index) for index in range(count))
    )


ALL = {
    "everything": everything,
    "steady": lambda: report(steady()),
    "nasty": nasty,
    "empty": lambda: report(state=JobState.LOST, environment={}, created=None),
}


def study() -> StudyReport:
    speeds = {(1, 1): [369.8, 371.3, 369.0], (1, 8): [2789.0, 2762.3, 2778.1], (2, 8): [5483.2, 5480.7, 5484.0]}
    cells = []
    for (nodes, procs), found in speeds.items():
        ratio = sum(found) / sum(speeds[1, 1])
        share = ratio / (nodes * procs)
        cells.append(
            StudyCell(
                case=f"resnet50:pytorch:cpu:{nodes}:{procs}:3",
                nodes=nodes,
                procs=procs,
                batch=128,
                state=JobState.SUCCEEDED,
                speeds=found,
                average=sum(found) / 3,
                median=sorted(found)[1],
                ci_low=0.99 * found[0],
                ci_high=1.01 * found[0],
                speedup=ratio,
                speedup_low=0.98 * ratio,
                speedup_high=1.02 * ratio,
                efficiency=share,
                efficiency_low=0.98 * share,
                efficiency_high=1.02 * share,
            )
        )
    cells.append(
        StudyCell(
            "resnet50:pytorch:cpu:4:8:3", 4, 8, 128, JobState.FAILED, [], value="OOM", note="rank 3: out of memory"
        )
    )
    return StudyReport(
        "resnet50 pytorch cpu batch 128",
        "weak",
        "1x1",
        128,
        "fp32",
        "images/s",
        cells,
        note="128 is the largest multiple of 8 that fits (136 ran out of memory)",
    )


def contest() -> tuple[list[CaseReport], Contest]:
    cases = [
        case("mnist:jax:cpu:1:1:3", [run(n, speed=150.0 + n) for n in (1, 2, 3)]),
        case("mnist:pytorch:cpu:1:1:3", [run(n, speed=140.0 + 9 * n) for n in (1, 2, 3)]),
        case(
            "mnist:mindspore:cpu:1:1:3",
            [],
            state=JobState.FAILED,
            reason="the scheduler ended with exit code 1",
            measurements={},
            band=None,
        ),
    ]
    verdict = Verdict("inconclusive", 1.02, 0.97, 1.07, 3, 3, "paired t test", "n is too small", needed=14)
    rivals = [
        Rival("jax", cases[0].case, "fastest", 152.0, 1.0),
        Rival("pytorch", cases[1].case, "inconclusive", 149.0, 0.98, verdict),
        Rival("mindspore", cases[2].case, "none", reason="the scheduler ended with exit code 1"),
    ]
    return cases, Contest("mnist:*:cpu:1:1", "images/s", 0.03, rivals)


def diagnosis(name: str = "resnet50:pytorch:cpu:1:2:3") -> Diagnosis:
    parts = {
        "compute": 0.04,
        "transfer": 0.006,
        "waiting": 0.004,
        "copies": 0.0,
        "data": 0.03,
        "host": 0.002,
        "launch": 0.001,
        "unexplained": 0.0005,
    }
    classes = {key: Value(value, 0.9 * value, 1.1 * value) for key, value in parts.items()}
    whole = sum(parts.values())
    return Diagnosis(
        name,
        3,
        classes,
        Value(whole, 0.95 * whole, 1.05 * whole),
        Value(0.9 * whole),
        Value(0.1, 0.08, 0.12),
        Value(None, reason="no rank communicates"),
        Value(0.01),
        Value(0.012, 0.01, 0.014),
        "trace and ablation differ by 20 %",
        [Cause("data", Value(0.03, 0.027, 0.033), 0.36, "rank 0 on n1"), Cause("transfer", Value(0.006), 0.07, "n1")],
        operators={"aten::addmm": 0.02, "aten::copy_": 0.003},
        remarks=["round 2: no trace of rank 1; its classes are left out"],
    )


def goodput() -> Goodput:
    start = {"queue": Figure(0.5), "process": Figure(1.2), "import": Figure(2.2), "build": Figure(0.8)}
    start |= {"image": Figure(None, "no container"), "first_step": Figure(0.7)}
    return Goodput(
        "resnet50:pytorch:cpu:1:2:1",
        2,
        start,
        Figure(5.4),
        Figure(0.31, how="the probe's marks"),
        Figure(None, "nothing was loaded"),
        Figure(20.0),
        Figure(0.012),
        [Recovery(9.4, 3.1, 4.4, 1.9, 12)],
        Figure(0.83),
        Figure(0.16),
    )


def peaks() -> Peaks:
    products = [
        Product("n1", 1, "fp32", size, size / 6, 1e11 * min(1.0, size / 1024)) for size in (64, 256, 1024, 4096)
    ]
    messages = [
        Message("within", operation, size, 2, 1e-5 + size / 5e9, size / (1e-5 + size / 5e9), size / (1e-5 + size / 5e9))
        for operation in ("all_reduce", "all_gather")
        for size in (1024, 65536, 1 << 20, 1 << 25)
    ]
    return Peaks(
        1,
        "mine",
        "cpu",
        1794786358.0,
        "earlier",
        ["n1"],
        [Matmul("n1", 1, "fp32", 1.02e11, 1.1e11, 12.0, 4)],
        [Bandwidth("memory", "n1", 1, 2.1e10)],
        products,
        messages,
        ["bf16: this CPU has no bf16 units (amx_bf16) and would emulate them"],
    )


def whole() -> Report:
    """A run with a study, a contest, a diagnosis, goodput and peaks."""
    cases, found = contest()
    return report(
        steady(),
        *cases,
        studies=[study()],
        contests=[found],
        diagnoses=[diagnosis()],
        goodput=[goodput()],
        peaks=to_builtins(peaks()),
        imported=Imported("perflog", "log.txt", "0" * 64, 1, 99, {}, {}, ["step times"], {"a step twice": 3}),
    )


def comparison(b: str = "20261116-b") -> Comparison:
    def one(name: str, word: str, ratio: float, **more: object) -> Compared:
        verdict = Verdict(
            word,
            ratio,
            ratio * 0.97,
            ratio * 1.03,
            5,
            5,
            "Welch's t test on logs",
            "the interval lies outside",
            **more,
        )  # type: ignore[arg-type]
        return Compared(
            name,
            name,
            50.0,
            50.0 * ratio,
            "images/s",
            verdict,
            ["A: round 1 was disturbed: steal 9 %"],
            ratio < 1,
        )

    cases = [
        one("resnet50:pytorch:cpu:1:1:5", "faster", 1.21),
        one("mnist:pytorch:cpu:1:1:5@batch=64", "slower", 0.8, past_threshold=True),
        one("bert:pytorch:cpu:1:1:5", "inconclusive", 1.01, needed=40),
    ]
    left = [NotCompared("llama:pytorch:cpu:1:1:*", "only in A")]
    overall = Overall("incomplete", ["llama:pytorch:cpu:1:1:*"], cases[0].verdict)
    return Comparison("20261115-a", b, "throughput", 0.03, 0.05, cases, left, overall, ["torch: 2.12.0 → 2.13.0"])


def history() -> list[History]:
    values = [50.0, 50.4, 49.8, 50.1, 42.0, 42.3, 41.9]
    entries = [
        Entry(f"run-{n}", 1794786358.0 + 86400 * n, value, 0.98 * value, 1.02 * value, 5, "f" if n < 4 else "g", "1")
        for n, value in enumerate(values)
    ]
    change = Change(4, 0.84, 0.002)
    levels = [50.07] * 4 + [42.07] * 3
    return [
        History(
            "mnist:pytorch:cpu:1:1:*",
            ["n1"],
            "images/s",
            entries,
            [change],
            levels,
            [LeftOut("run-9", "out of memory")],
        ),
        History("mnist:pytorch:cpu:1:2:*", ["n1"], "images/s", entries[:2], [], levels[:2], []),
    ]


def prediction() -> PredictedRun:
    points = [ScalePoint(1, 8, [2780.0, 2770.0]), ScalePoint(2, 8, [5480.0, 5490.0])]
    found = [
        Prediction(nodes, 8, nodes * 2600.0, nodes * 2400.0, nodes * 2800.0, 0.93, "from 2x8 by a fade of 0.6", ["far"])
        for nodes in (4, 16)
    ]
    series = PredictedSeries("resnet50 batch 128", "images/s", found, points)
    return PredictedRun("20261115-a", [series], [Refusal("bert", "not enough points")])


def acceptance() -> Acceptance:
    nodes = [
        NodeResult("n1", "good", "no loss beyond 3 %", 0.001, -0.01, 0.012, 5, 0.5, 0.04, 101.0, 1.1e11, 0.5),
        NodeResult("n2", "bad", "a loss of 20 % beyond doubt", 0.2, 0.18, 0.22, 5, 1e-6, 0.04, 80.0),
        NodeResult("n3", "untested", "it cannot be reached"),
    ]
    effect = Effect("link", ("n1", "n2"), "bad", 0.7, 0.6, 0.8, 1e-5, "a loss of 70 % beyond doubt")
    links = LinksResult([effect], {"n1–n2": 3e8, "n1–n3": 1e9}, untested=["n2–n3: no route"])
    return Acceptance(
        site="mine",
        case="noop:none:cpu:1:2:5",
        unit="samples",
        verdict="bad",
        margin=0.03,
        level=0.01,
        link_margin=0.1,
        nodes=nodes,
        links=links,
        held=[PromiseCheck("n2", "throughput", False, "80 samples/s, promised are 105")],
        notes=["2 of 15 rounds were disturbed; they count"],
        drain=["n2"],
        scontrol='scontrol update NodeName=n2 State=DRAIN Reason="trainmark accept"',
        runs=["20261115-a"],
    )


def automl(*, valid: bool = False) -> tuple[Result, list[Series]]:
    curve = [CurvePoint(60.0 * n, 0.9 / n, 1e12 * n, 1e11 * n, 1e15 * n, 3 * n) for n in range(1, 60)]
    trials = [
        TrialRow(
            n, "COMPLETE", n // 8, n // 2 if n else None, [["deeper", n, 3]], "", 0.3 + 0.01 * n, 4, 1, 1e14, ["n1"],
            30.0 * n, 30.0 * n + 25, 1, None, 25_000_000 + n, 4.1e9, {"lr": 0.2, "dropout": None, "batch": 448},
        )
        for n in range(30)
    ]  # fmt: skip
    verdicts = [
        RuleVerdict("accuracy", valid, "at least 70 %", "59.00 %"),
        RuleVerdict("time", True, "at least 1 h", "1 h"),
        RuleVerdict("precision", None, "fp16 or wider", "unknown"),
    ]
    result = Result(
        "20261115-search", "search", "me", "RUNNING", "aiperf", "AIPerf 1.0", "analytical", valid, verdicts,
        1794786358.0, 3600.0, 0.59, 0.41, 5.9e13, 5.9e12, 5.9e16, 177, 10**6, curve, trials, 29, 8,
        ["n1", "n2"], Gaps(22, 0.12, 0.4, 0.01, 1), 0.3, 0.97, True, False, ["data is synthetic"], "morph", "synthetic",
        devices={"Example H9": 16},
    )  # fmt: skip
    seconds = [10.0 * n for n in range(200)]
    series = [
        Series(h, "cpu", "fraction", seconds, [0.5 + 0.4 * ((n % 7) / 7) for n in range(200)]) for h in ("n1", "n2")
    ]
    return result, series


def goodput_run() -> GoodputRun:
    return GoodputRun("20261115-a", "/srv/runs", [GoodputCase(goodput(), Forecast(2, 720, 600, 0.9, 300, 0.92))])


def why_slower() -> list[Why]:
    sides = [report(diagnoses=[diagnosis()], run=name) for name in "ab"]
    return why.why(sides[0], sides[1], None, None)


# Every kind of report, as records or documents.
def score() -> Score:
    """One case of the reference is slower here, one is flagged, one has no speed, and one has no part in it."""
    found = report(steady(), drifting(), invalid(), single())
    old = Speed(20.0, 19.0, 21.0, 3)
    kept = [
        ReferenceCase(one.case, "", one.trained or Trained("", "quick", "images"), "images/s", old)
        for one in found.cases[:3]
    ]
    hardware = {"processor": "Example CPU 8375C", "threads": "8", "memory_bytes": "33285996544"}
    other = Reference(1, "lab", "quick", 1794786358.0, "0.1.0", hardware, kept, "measured on a quiet machine")
    cases = tuple(replace(case_plan(("true",), ["n1"], one.case), version="") for one in found.cases)
    return score_of(found, replace(plan([1]), cases=cases), other)


PAGES: dict[str, Callable[[], Any]] = {
    **ALL,
    "whole": whole,
    "compare": lambda: [comparison(), comparison("20261117-c")],
    "history": history,
    "predict": prediction,
    "acceptance": acceptance,
    "diagnosis": lambda: [diagnosis()],
    "why": why_slower,
    "goodput": goodput_run,
    "peaks": peaks,
    "score": score,
    "automl": lambda: document(*automl()),
}


def page(record: Any, language: str | None = None) -> str:
    return show(record, "html", language)
