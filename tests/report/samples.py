"""Reports made by hand, one of each kind."""

from __future__ import annotations

import math
import random
from itertools import pairwise

from msgspec.structs import replace

from trainmark.reasons import Reason, as_reason, reason
from trainmark.report.records import CaseReport, Curve, Report, RunReport, RunSeries
from trainmark.score.figures.measurement import Measurement
from trainmark.spec.states import JobState

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
        band_low=curve("low", "", [4.5, 1.2, 0.3], steps / 2.1),
        band_high=curve("high", "", [8.2, 3.4, 1.6], steps / 2.1),
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
    why = "the speed drifts: −38 % over the window"
    runs = [run(1, speed=11.3, outcome="drifting"), run(2, speed=11.9, outcome="drifting"), run(3, speed=11.0)]
    runs[1] = replace(runs[1], disturbed=texts("steal 4.1 %", "memory pressure 12 %"), outlier=True)
    found = measured([11.3, 11.9, 11.0], why=why)
    return case(
        "bert_tiny:pytorch:cpu:1:2:3@batch=32,seq=128",
        runs,
        measurements=found,
        notes=[
            reason("data-synthetic"),
            reason("round-disturbed", round=2, why=texts("steal 4.1 %")[0]),
        ],
    )


def failed(lines: list[str] | None = None) -> CaseReport:
    return case(
        "resnet50:pytorch:cpu:1:4:3@batch=256",
        [],
        state=JobState.FAILED,
        reason="out of memory: rank 2 was killed and the kernel's oom_kill count rose by 1",
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
