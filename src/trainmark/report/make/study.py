"""Scaling studies of a run: every series with its baseline, its cells and what can be said of them."""

from __future__ import annotations

import msgspec

from trainmark.plan.records import CasePlan
from trainmark.reasons import Reason, as_reason, reason
from trainmark.report import figures
from trainmark.report.records import CaseReport, StudyCell, StudyReport
from trainmark.score.studies import scaling
from trainmark.score.studies.scaling import Scaled, ScalePoint
from trainmark.spec.scaling import Series
from trainmark.spec.states import JobState

OOM = "OOM"


def studies(plans: tuple[CasePlan, ...], cases: list[CaseReport]) -> list[StudyReport]:
    """One for each series that a case belongs to, in the order of the plan."""
    members: dict[Series, list[tuple[CasePlan, CaseReport]]] = {}
    for plan, case in zip(plans, cases, strict=True):
        for series in plan.studies:
            members.setdefault(series, []).append((plan, case))
    return [_study(series, found) for series, found in members.items()]


def _study(series: Series, members: list[tuple[CasePlan, CaseReport]]) -> StudyReport:
    points = [point_of(plan, case) for plan, case in members]
    base = next((point for point in points if f"{point.nodes}x{point.procs}" == series.baseline), None)
    known = [(point, scaling.scaled(point, base)) for point in points]
    odd = scaling.oddities(known)
    cells = [
        _cell(plan, case, point, found, note)
        for (plan, case), (point, found), note in zip(members, known, odd, strict=True)
    ]
    return StudyReport(
        name=series.name,
        mode=series.mode,
        baseline=series.baseline,
        batch=series.batch,
        dtype=series.dtype,
        unit=f"{members[0][0].unit}/s",
        cells=cells,
        method=scaling.METHOD,
        reason=None if base is not None and base.speeds else _no_baseline(series, members),
        note=as_reason(series.note),
    )


def _no_baseline(series: Series, members: list[tuple[CasePlan, CaseReport]]) -> Reason:
    case = next((case for plan, case in members if f"{plan.id.nnodes}x{plan.id.nproc}" == series.baseline), None)
    why = _why(case) if case else [reason("not-measured")]
    return reason("baseline-without-speed", baseline=series.baseline, why=why)


def point_of(plan: CasePlan, case: CaseReport) -> ScalePoint:
    found = figures.throughput(case)
    speeds = found.inputs if found is not None and found.value is not None else []
    return ScalePoint(plan.id.nnodes, plan.id.nproc, speeds)


def _cell(plan: CasePlan, case: CaseReport, point: ScalePoint, found: Scaled, odd: Reason | None) -> StudyCell:
    return StudyCell(
        case=case.case,
        nodes=point.nodes,
        procs=point.procs,
        batch=batch_of(plan),
        state=case.state,
        speeds=list(point.speeds),
        value=OOM if out_of_memory(case) else None,
        note=[odd] if odd else [] if point.speeds else _why(case),
        **msgspec.structs.asdict(found),
    )


def out_of_memory(case: CaseReport) -> bool:
    return case.state is JobState.FAILED and (case.failure or {}).get("kind") == "oom"


def _why(case: CaseReport) -> list[Reason]:
    """Of a case that went well, its figure says why it has no value."""
    found = figures.throughput(case)
    reasons = [found.reason if found else [], [case.reason] if case.reason else []]
    ordered = reasons if case.state is JobState.SUCCEEDED else reversed(reasons)
    return next(filter(None, ordered), [reason("case-state", state=str(case.state).lower())])


def batch_of(plan: CasePlan) -> int | None:
    batch = plan.params.get("batch")
    return batch if isinstance(batch, int) else None
