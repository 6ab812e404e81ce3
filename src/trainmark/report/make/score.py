"""A run's score: the geometric mean of its speeds against those of a reference machine, and what weakens it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.plan.records import CasePlan, Plan
from trainmark.reasons import Reason, reason
from trainmark.report.make.references import Reference, ReferenceCase, speed_of
from trainmark.report.records import CaseReport, Report, Trained
from trainmark.score.records import SEVERITIES, Flag
from trainmark.score.studies.aggregate import Speed, aggregate, ratio
from trainmark.spec.case_id import CaseId
from trainmark.spec.states import JobState

# What makes a case another piece of work, by the fields of `Trained`.
_WORK = ("parameters", "model", "batch_per_rank", "dtype", "data", "sequence_length", "image_size")
FORMULA = "exp(mean over cases of ln(throughput ÷ reference throughput))"


class ScoredCase(msgspec.Struct, frozen=True):
    """A case of the run, of the reference, or of both. `reason`: why it is not part of the score."""

    case: str
    reference_case: str | None = None
    unit: str = ""
    speed: Speed | None = None
    reference: Speed | None = None
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    trained: Trained | None = None
    reason: Reason | None = None
    flags: list[Flag] = []


class Score(msgspec.Struct, frozen=True):
    """What `trainmark score --json` prints. `value` 2 is twice as fast as the reference, over
    `counted` of `of` cases."""

    run: str
    suite: str
    reference: str
    reference_suite: str
    reference_created: float
    reference_trainmark: str
    reference_hardware: dict[str, str]
    value: float | None
    ci_low: float | None
    ci_high: float | None
    counted: int
    of: int
    cases: list[ScoredCase]
    method: list[Reason] = []
    formula: str = FORMULA
    flags: list[Flag] = []
    # Why there is no value, or no interval.
    reason: Reason | None = None
    reference_note: str = ""


def score(report: Report, plan: Plan, reference: Reference) -> Score:
    """Only cases that did the reference's work count. What is missing or flagged is said, and never makes it better
    unseen: the score is flagged, and says over how many cases it is."""
    plans = {case.case: case for case in plan.cases}
    left = list(reference.cases)
    cases: list[ScoredCase] = []
    for case in report.cases:
        other = _counterpart(case, left, report.cases)
        if other is None:
            cases.append(ScoredCase(case.case, trained=case.trained, reason=reason("not-in-reference")))
        else:
            left.remove(other)
            cases.append(_scored(case, plans[case.case], other))
    cases += [
        ScoredCase(one.case, one.case, one.unit, None, one.speed, trained=one.trained, reason=reason("not-in-run"))
        for one in left
    ]
    counted = [case for case in cases if case.ratio is not None]
    wanted = [case for case in cases if case.reference is not None]
    pairs = [(case.speed, case.reference) for case in counted if case.speed and case.reference]
    found = aggregate(pairs) if pairs else None
    single = [case.case for case in counted if case.ci_low is None]
    why = None
    if found is None:
        why = reason("nothing-to-score")
    elif found.low is None:
        why = reason("score-without-interval")
    return Score(
        run=report.run,
        suite=report.suite,
        reference=reference.name,
        reference_suite=reference.suite,
        reference_created=reference.created,
        reference_trainmark=reference.trainmark,
        reference_hardware=reference.hardware,
        value=found.value if found else None,
        ci_low=found.low if found else None,
        ci_high=found.high if found else None,
        counted=len(counted),
        of=len(wanted),
        cases=cases,
        method=[reason("score-method", count=len(counted))] if counted else [],
        flags=_flags(cases, report, len(counted), len(wanted), single if found and found.assumed else []),
        reason=why,
        reference_note=reference.note,
    )


def _counterpart(case: CaseReport, left: Sequence[ReferenceCase], others: Sequence[CaseReport]) -> ReferenceCase | None:
    """The reference's case of the same workload, framework and variant: devices and their number are the machine's
    matter, but where a run or a reference has the case on several numbers, these must agree."""
    alike = [one for one in left if _question(one.case) == _question(case.case)]
    same = [one for one in alike if _shape(one.case) == _shape(case.case)]
    if same:
        return same[0]
    own = [one for one in others if _question(one.case) == _question(case.case)]
    return alike[0] if len(alike) == 1 and len(own) == 1 else None


def _question(case: str) -> tuple[object, ...]:
    found = CaseId.parse(case)
    return found.workload, found.framework, found.variant


def _shape(case: str) -> tuple[int, int]:
    found = CaseId.parse(case)
    return found.nnodes, found.nproc


def _scored(case: CaseReport, plan: CasePlan, other: ReferenceCase) -> ScoredCase:
    found = speed_of(case)
    blank = ScoredCase(case.case, other.case, other.unit, None, other.speed, trained=case.trained or other.trained)
    why = _obstacle(case, other, found is not None)
    if why is not None or found is None:
        return msgspec.structs.replace(blank, reason=why or reason("nothing-measured"))
    speed, unit = found
    if unit != other.unit:
        return msgspec.structs.replace(blank, reason=reason("other-unit", here=unit, there=other.unit))
    against = ratio(speed, other.speed)
    flags = [*case.flags]
    if plan.version != other.version:
        flags.append(Flag("warning", reason("reference-of-other-version")))
    flags += [
        Flag(flag.severity, reason("reference-flagged", why=flag.reason)) for flag in other.flags if _weighs(flag)
    ]
    return msgspec.structs.replace(
        blank, speed=speed, ratio=against.value, ci_low=against.low, ci_high=against.high, flags=flags
    )


def _obstacle(case: CaseReport, other: ReferenceCase, measured: bool) -> Reason | None:
    """Why the two do not compare."""
    if case.state is JobState.INVALID or not measured:
        speed = case.measurements.get("throughput")
        why = case.reason if case.state is not JobState.SUCCEEDED or speed is None else next(iter(speed.reason), None)
        return reason("no-speed-because", state=str(case.state), why=why or reason("nothing-measured"))
    if case.trained is None:
        return reason("other-work", what="model", here="–", there=other.trained.workload)
    if case.trained.preset != other.trained.preset:
        return reason("other-work", what="preset", here=case.trained.preset, there=other.trained.preset)
    for name in _WORK:
        here, there = getattr(case.trained, name), getattr(other.trained, name)
        if here != there:
            return reason("other-work", what=name.replace("_", " "), here=_told(here), there=_told(there))
    return None


def _told(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    return "–" if value is None else str(value)


def _weighs(flag: Flag) -> bool:
    """A note is no fault."""
    return flag.severity != SEVERITIES[0]


def _flags(cases: Sequence[ScoredCase], report: Report, counted: int, of: int, single: Sequence[str]) -> list[Flag]:
    """The worst first. `single`: cases with one round, whose spread was taken from others."""
    found: list[Flag] = []
    missing = [case for case in cases if case.reference is not None and case.ratio is None]
    if missing:
        names = [case.case for case in missing]
        found.append(Flag("severe", reason("score-incomplete", counted=counted, of=of, cases=names)))
    if report.state in (JobState.PENDING, JobState.RUNNING):
        found.append(Flag("severe", reason("score-of-unfinished", state=str(report.state))))
    for severity in reversed(SEVERITIES[1:]):
        own = [case.case for case in cases if case.ratio is not None and _worst(case.flags) == severity]
        if own:
            found.append(Flag(severity, reason("score-flagged-cases", count=len(own), cases=own)))
    if single:
        found.append(Flag("warning", reason("score-assumed-spread", cases=list(single))))
    more = [case.case for case in cases if case.reference is None]
    if more:
        found.append(Flag("note", reason("score-leaves-out", cases=more)))
    return found


def _worst(flags: Sequence[Flag]) -> str:
    return max((flag.severity for flag in flags), key=SEVERITIES.index, default=SEVERITIES[0])
