"""How fast more nodes would be, for the series of a run: from its own speeds, or by what lies between two nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.plan.records import CasePlan
from trainmark.reasons import Reason, reason
from trainmark.report.build import build
from trainmark.report.make.study import batch_of, point_of
from trainmark.report.records import CaseReport
from trainmark.score.stats.verdict import geometric_mean
from trainmark.score.studies.predict import Prediction, predict
from trainmark.score.studies.scaling import ScalePoint
from trainmark.spec.columns import is_number
from trainmark.spec.peaks import Message, Peaks, fit, load
from trainmark.spec.site import peaks_file
from trainmark.store import columns, journal
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState

# DistributedDataParallel shares gradients in the format of the weights, which mixed precision leaves at 32 bits.
GRADIENT_BYTES = 4
ALL_REDUCE = "all_reduce"


class Crossing(msgspec.Struct, frozen=True):
    """Seconds that the gradients take between two nodes, and where that comes from."""

    seconds: float
    source: Reason | None = None


class ScalingSeries(msgspec.Struct, frozen=True):
    """Configurations that differ in nodes and processes alone."""

    name: str
    mode: str
    unit: str
    batch: int | None
    points: list[ScalePoint]
    # The case of each point.
    cases: list[str] = []


def series_of(plans: tuple[CasePlan, ...], cases: list[CaseReport]) -> list[ScalingSeries]:
    """The series of a run's studies; in a run without any, cases that are alike in everything but their size."""
    groups: dict[tuple[str, str], list[tuple[CasePlan, CaseReport]]] = {}
    for plan, case in zip(plans, cases, strict=True):
        for series in plan.studies:
            groups.setdefault((series.name, series.mode), []).append((plan, case))
        if not plan.studies:
            case_id = msgspec.structs.replace(plan.id, nnodes=1, nproc=1)
            groups.setdefault((case_id.identity.replace(":1:1:*", ""), "weak"), []).append((plan, case))
    return [
        ScalingSeries(
            name=name,
            mode=mode,
            unit=f"{members[0][0].unit}/s",
            batch=batch_of(members[0][0]),
            points=[point_of(plan, case) for plan, case in members],
            cases=[plan.case for plan, _ in members],
        )
        for (name, mode), members in groups.items()
    ]


class PredictedSeries(msgspec.Struct, frozen=True):
    """Predictions for one series, and the points that were measured."""

    series: str
    unit: str
    predictions: list[Prediction]
    points: list[ScalePoint]


class Refusal(msgspec.Struct, frozen=True):
    """A series that cannot be predicted, and why."""

    series: str
    reason: str


class PredictedRun(msgspec.Struct, frozen=True):
    """What `trainmark predict --json` prints."""

    run: str
    series: list[PredictedSeries]
    refused: list[Refusal]


def peaks_of_site(path: Path) -> Peaks:
    """Those that are kept beside a site's file."""
    file = peaks_file(path, os.uname().nodename)
    found = load(file)
    if found is None:
        raise UserError(f"{file}: nothing is kept yet; `trainmark peaks --site {path}` measures it")
    return found


def predict_run(
    run: RunDir, nodes: Sequence[int], *, all_reduce: float | None = None, peaks: Peaks | None = None
) -> PredictedRun:
    """Every series of a run on as many nodes. Without a speed on two nodes, the time of an all-reduce between them is
    needed: `all_reduce` seconds, else by `peaks`, else by those that the run was planned with."""
    manifest = run.manifest()
    found, refused = [], []
    for one in series_of(manifest.plan.cases, build(run).cases):
        try:
            crossing = _crossing(run, manifest, one, all_reduce, peaks)
            predictions = [_predict(one, count, crossing) for count in nodes]
            found.append(PredictedSeries(one.name, one.unit, predictions, one.points))
        except UserError as error:
            refused.append(Refusal(one.name, str(error)))
    if not found:
        whys = "; ".join(f"{one.series}: {one.reason}" for one in refused)
        raise UserError(f"{run.id}: {whys or 'no case has a speed'}")
    return PredictedRun(run.id, found, refused)


def _crossing(
    run: RunDir, manifest: Manifest, one: ScalingSeries, all_reduce: float | None, peaks: Peaks | None
) -> Crossing | None:
    """What is known of the gradients between two nodes, where no speed on two nodes tells more."""
    if any(point.nodes > 1 and point.speeds for point in one.points):
        return None
    if all_reduce is not None:
        return Crossing(all_reduce)
    if peaks is None and manifest.plan.peaks is not None:
        planned = msgspec.convert(manifest.plan.peaks, Peaks)
        peaks = planned if len(planned.hosts) > 1 else None
    return None if peaks is None else crossing_by_peaks(run, manifest, one, peaks)


def crossing_by_peaks(run: RunDir, manifest: Manifest, series: ScalingSeries, found: Peaks) -> Crossing:
    """UserError when the peaks, or the run, do not tell enough."""
    points = sorted({(one.bytes, _between_two(one)) for one in found.messages if _is_ours(one)})
    if len(points) < 2:
        raise UserError(
            f"the peaks of site `{found.site}` have no all-reduce between hosts; `trainmark peaks --site FILE` "
            "measures it on a site of 2 hosts and more"
        )
    size = GRADIENT_BYTES * _parameters(run, manifest, series)
    line = fit(points)
    worlds = sorted({one.world for one in found.messages if _is_ours(one)})
    seconds = line.latency + size / line.bandwidth
    code = "all-reduce-by-peaks" if worlds == [2] else "all-reduce-by-peaks-of-more"
    source = reason(code, megabytes=size / 1e6, milliseconds=1e3 * seconds, run=found.run, hosts=worlds[0])
    return Crossing(seconds, source)


def _predict(one: ScalingSeries, nodes: int, crossing: Crossing | None) -> Prediction:
    if one.mode == "strong":
        raise UserError("the model is of weak scaling (a fixed batch per process), and this study is strong")
    found = predict(one.points, nodes, None if crossing is None else _share(one, crossing.seconds))
    source = [crossing.source] if crossing is not None and crossing.source else []
    return msgspec.structs.replace(found, notes=[*source, *found.notes])


def _share(one: ScalingSeries, seconds: float) -> float:
    """Of a step on one node, with as many processes as the largest such point has."""
    single = [point for point in one.points if point.nodes == 1 and point.speeds]
    if not single or one.batch is None:
        raise UserError("an all-reduce alone needs a speed on one node and a `batch`, to know how long a step takes")
    largest = max(single, key=lambda point: point.procs)
    return seconds * geometric_mean(largest.speeds) / (one.batch * largest.procs)


def _is_ours(one: Message) -> bool:
    return (one.operation, one.scope) == (ALL_REDUCE, "between") and one.seconds > 0


def _between_two(one: Message) -> float:
    """A ring's wire carries 2 (n − 1) ÷ n of a message: just one between two hosts."""
    return one.seconds * one.world / (2 * (one.world - 1))


def _parameters(run: RunDir, manifest: Manifest, series: ScalingSeries) -> int:
    plan = manifest.plan
    state = RunState.replay(plan, journal.read(run.path).records)
    for index, case in enumerate(plan.cases):
        for ref, attempt in state.counted(index)[:1] if case.case in series.cases else []:
            ranks = columns.read(run.attempt(case, ref, attempt.number), case.world).ranks
            counts = [note for rank in ranks for note in rank.notes("parameters") if is_number(note)]
            if counts:
                return int(counts[0])
    raise UserError(
        "the run does not tell how many parameters it trained, so the size of its gradients is not known; "
        "--all-reduce SECONDS says how long they take between two nodes"
    )
