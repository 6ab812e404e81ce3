"""What a run says in a few lines: the verdict and how far to trust it, what gave a result, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.report.records import CaseReport, Change, Report, Summary
from trainmark.score.records import SEVERITIES, Flag
from trainmark.spec.states import JobState
from trainmark.spec.suite import built_in_names

_UNFINISHED = (JobState.PENDING, JobState.RUNNING)
_CUT_OFF = (JobState.LOST, JobState.CANCELLED, JobState.PREEMPTED)
_NOTE, _WARNING, _SEVERE = SEVERITIES


def with_summary(report: Report, change: Change | None = None) -> Report:
    return msgspec.structs.replace(report, summary=of(report, change))


def of(report: Report, change: Change | None = None) -> Summary:
    """Pure: whatever is told here is in the report already, but for the change against the baseline."""
    results = sum(_has_result(case) for case in report.cases)
    worst = [_worst(case.flags) for case in report.cases if _has_result(case)]
    severe, warned = worst.count(_SEVERE), worst.count(_WARNING)
    return Summary(
        verdict=_verdict(report, results, severe, warned),
        trust=_trust(report, results, severe, warned),
        results=results,
        cases=len(report.cases),
        change=change,
        next=_next(report, change, weak=severe > 0),
    )


def _has_result(case: CaseReport) -> bool:
    found = case.measurements.get("throughput")
    return found is not None and found.value is not None


def _worst(flags: Sequence[Flag]) -> str:
    return max((flag.severity for flag in flags), key=SEVERITIES.index, default=_NOTE)


def _verdict(report: Report, results: int, severe: int, warned: int) -> Reason:
    cases = len(report.cases)
    if not cases:
        return reason("summary-no-cases")
    if report.state in _UNFINISHED:
        return reason("summary-unfinished", results=results, cases=cases)
    if not results:
        return reason("summary-none") if cases == 1 else reason("summary-no-result", cases=cases)
    trust = reason("trust-good")
    if severe:
        trust = reason("trust-only-severe", count=severe)
        if warned:
            trust = reason("trust-severe", count=severe, warned=warned)
    elif warned:
        trust = reason("trust-warned", count=warned)
    if results == cases:
        return reason("summary-one", trust=trust) if cases == 1 else reason("summary-all", cases=cases, trust=trust)
    return reason("summary-some", results=results, cases=cases, trust=trust)


def _trust(report: Report, results: int, severe: int, warned: int) -> str:
    """For programs, and for the colour of the sentence."""
    if report.cases and results == len(report.cases) and report.state is JobState.SUCCEEDED:
        return "weak" if severe else "fair" if warned else "good"
    return "weak" if results else "none"


def _next(report: Report, change: Change | None, *, weak: bool) -> list[str]:
    """Commands to type, the most useful first. `weak`: figures are not to be relied on, which makes no baseline."""
    run = report.run
    if report.state in _UNFINISHED:
        return [f"trainmark status {run}", f"trainmark logs -f {run}"]
    if report.state in _CUT_OFF:
        return [f"trainmark resume {run}"]
    failed = next((case for case in report.cases if case.state in (JobState.FAILED, JobState.TIMEOUT)), None)
    if failed is not None:
        return [f"trainmark logs {run} --case {failed.case}"]
    look = f"trainmark report {run} --format html"
    if weak and report.suite in built_in_names() and report.imported is None:
        return [look, f"trainmark run {report.suite}"]
    if change is None:
        whole = report.state is JobState.SUCCEEDED and all(_has_result(case) for case in report.cases)
        return [look, f"trainmark baseline set {run}"] if whole and not weak else [look]
    return [f"trainmark compare {change.baseline} {run}", look]
