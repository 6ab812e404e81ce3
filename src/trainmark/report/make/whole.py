"""A run's report with what stands on top of it: its summary, and how it compares with the baseline of its hosts."""

from __future__ import annotations

from trainmark.errors import UserError
from trainmark.reasons import Reason, as_reason
from trainmark.report.build import build, headlines
from trainmark.report.records import Change, Report
from trainmark.report.summary import with_summary
from trainmark.score.stats.verdict import MARGIN, THRESHOLD
from trainmark.spec.states import JobState
from trainmark.store import baselines
from trainmark.store.rundir import RunDir


def whole(run: RunDir, series: bool = False) -> Report:
    report = build(run, series)
    return with_summary(report, _change(run, report))


def _change(run: RunDir, report: Report) -> Change | None:
    """None without a baseline, for the baseline itself, and for a run that is not over."""
    runs = run.path.parent
    if report.state in (JobState.PENDING, JobState.RUNNING) or not (runs / baselines.NAME).is_file():
        return None
    manifest = run.manifest()
    try:
        base = RunDir(runs / baselines.find(runs, manifest).run)
    except UserError:
        return None  # there is none for these hosts
    if base.id == run.id:
        return None
    from trainmark.report.make.compare import Side, compare_many

    try:
        sides = [Side(headlines(base), base.manifest()), Side(report, manifest)]
        (found,) = compare_many(sides, "throughput", MARGIN, THRESHOLD)
    except UserError as error:
        return Change(base.id, reason=_told(error))
    verdict = found.overall.verdict
    return Change(
        baseline=base.id,
        word=found.overall.word if found.cases else None,
        ratio=verdict.ratio if verdict else None,
        ci_low=verdict.ci_low if verdict else None,
        ci_high=verdict.ci_high if verdict else None,
        cases=len(found.cases),
        lost=[one.name for one in found.past_threshold],
    )


def _told(error: UserError) -> Reason | None:
    return as_reason(str(error))
