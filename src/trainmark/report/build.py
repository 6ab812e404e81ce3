"""A run's report: states, reasons and measurements of every case, recomputed from the run directory."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from trainmark.launch.protocol import allocation_of
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import EMULATED, Reason, as_reason, listed, reason
from trainmark.report.make import cache, environment, trained, tries
from trainmark.report.make.attempt import Scored, question, score_attempt
from trainmark.report.make.contest import contests
from trainmark.report.records import CaseReport, Experiment, Report, RunReport, Share, StudyReport
from trainmark.run import control
from trainmark.score.figures.case import measure
from trainmark.score.figures.flags import of_case, of_round, outlier_runs
from trainmark.score.figures.gate import INSIDE, OUTSIDE
from trainmark.score.records import Diagnosis, Flag, Goodput, Measurement
from trainmark.spec.case import SYNTHETIC
from trainmark.spec.states import JobState
from trainmark.store import digests, events, journal
from trainmark.store.rundir import MANIFEST, Imported, Manifest, RunDir
from trainmark.store.state import Attempt, RunState

# What nodes tell that weighs on every figure: a comparison says it, too.
_OF_FIGURES = (EMULATED, "single-server")
# Kinds of runs that are scored as a whole, and whose room, above this one, knows how: a function of the run.
_EXPERIMENTS = {"automl": "trainmark.automl.experiment.runs:scored"}


def build(run: RunDir, series: bool = False) -> Report:
    """`series` adds the curves of every round. What took long is cached while nothing in the folder changes."""
    found = None if series else cache.find(run)
    return found or _made(run, series)


def headlines(run: RunDir) -> Report:
    """A report without anything but speeds, if that saves time; else the whole of it."""
    return cache.find(run, headlines=True) or _made(run, False)


def some_cases(run: RunDir, first: int, last: int) -> Share:
    """Those from one number up to another, without looking at the others."""
    return _cases(run, RunState.replay(run.manifest().plan, journal.read(run.path).records), first, last)


def _cases(run: RunDir, state: RunState, first: int, last: int, series: bool = False) -> Share:
    warnings: list[Reason | str] = []
    return Share([_case(run, state, index, series, warnings) for index in range(first, last)], warnings)


def _made(run: RunDir, series: bool) -> Report:
    manifest = run.manifest()
    past = journal.read(run.path)
    state = RunState.replay(manifest.plan, past.records)
    count = len(manifest.plan.cases)
    if series or state.finished is None or len(state.rounds) < cache.LEAST_ROUNDS:
        return _report(run, manifest, past, state, _cases(run, state, 0, count, series))
    from trainmark.report.make import parallel

    sources = cache.sources_of(run)
    before = cache.stamp(run, sources)
    made = parallel.scored(run, count, len(state.rounds), lambda first, last: _cases(run, state, first, last))
    report = _report(run, manifest, past, state, made)
    cache.store(run, report, sources, before)
    return report


def _report(run: RunDir, manifest: Manifest, past: journal.Read, state: RunState, made: Share) -> Report:
    report = Report(
        run=run.id,
        state=control.state_of(run, state),
        suite=manifest.plan.suite,
        cases=made.cases,
        warnings=[*past.warnings, *_of_manifest(run, past), *made.warnings],
        dir=str(run.path),
        created=manifest.created * 1e-9,
        environment=environment.groups(manifest),
        diagnoses=_diagnoses(run, state),
        peaks=_peaks(run, manifest, state),
        studies=_studies(manifest.plan.cases, made.cases),
        goodput=_goodput(run, state),
        contests=contests(manifest.plan, made.cases),
        experiment=_experiment(run, state),
    )
    return _marked(report, manifest.imported) if isinstance(manifest.imported, Imported) else report


def _of_manifest(run: RunDir, past: journal.Read) -> list[Reason]:
    """The manifest is written once: every owner of the run must have found the same."""
    known = {record.digest for record in past.records if record.k == journal.OWNER and record.digest}
    if not known or known == {digests.manifest_digest(run.path)}:
        return []
    return [reason("manifest-changed", path=str(run.path / MANIFEST))]


def _studies(plans: tuple[CasePlan, ...], cases: list[CaseReport]) -> list[StudyReport]:
    if not any(plan.studies for plan in plans):
        return []
    from trainmark.report.make.study import studies

    return studies(plans, cases)


def _diagnoses(run: RunDir, state: RunState) -> list[Diagnosis]:
    if state.plan.kind != "diagnosis":
        return []
    from trainmark.report.make import diagnosis

    return diagnosis.of_run(run, state)


def _peaks(run: RunDir, manifest: Manifest, state: RunState) -> dict[str, Any] | None:
    """A run that measures peaks tells its own, others those they may be held against."""
    if manifest.plan.kind == "peaks":
        from trainmark.report.make import peaks

        measured = peaks.of_run(run, manifest, state)
    elif manifest.plan.peaks is not None:
        from trainmark.spec.peaks import Peaks

        measured = msgspec.convert(manifest.plan.peaks, Peaks).usable()
    else:
        return None
    found: dict[str, Any] = msgspec.to_builtins(measured)
    return found


def _goodput(run: RunDir, state: RunState) -> list[Goodput]:
    if state.plan.kind != "goodput":
        return []  # most runs
    from trainmark.report.make import goodput

    return goodput.of_run(run, state)


def _experiment(run: RunDir, state: RunState) -> Experiment | None:
    where = _EXPERIMENTS.get(state.plan.kind)
    if where is None:
        return None
    module, _, function = where.partition(":")
    found: Experiment = getattr(import_module(module), function)(run)
    return found


def _marked(report: Report, imported: Imported) -> Report:
    """A figure of another tool is never taken for one of ours, wherever the case is shown."""
    note = reason("imported-from", format=imported.format)
    cases = [
        msgspec.structs.replace(
            case,
            notes=[*case.notes, note],
            measurements={name: _known(one, imported) for name, one in case.measurements.items()},
        )
        for case in report.cases
    ]
    return msgspec.structs.replace(report, cases=cases, imported=imported)


def _known(one: Measurement, imported: Imported) -> Measurement:
    """A log that says nothing of waiting for data does not say that nobody waited."""
    if one.name != "data_wait" or one.value:
        return one
    why = [reason("not-told-by", format=imported.format)]
    return msgspec.structs.replace(one, value=None, n=0, method=[], inputs=[], reason=why)


def _case(run: RunDir, state: RunState, index: int, series: bool, warnings: list[Reason | str]) -> CaseReport:
    case = state.plan.cases[index]
    outcome, ended = state.case_outcome(index)
    why = tries.readable(as_reason(ended))
    counted = state.counted(index)
    scored, notes, sets = [], list[Reason](), []
    damaged: list[list[Reason]] = []
    for ref, attempt in counted:
        folder = run.attempt(case, ref, attempt.number)
        results = list(events.results(folder))
        found = score_attempt(folder, case, results, series=series)
        warnings.extend(found.warnings)
        warnings.extend(_missing(folder, results, found.lines))
        changed = digests.changes(folder, attempt.digest)
        warnings.extend(changed)
        damaged.append(changed)
        if changed:
            flags_too = [*found.score.flags, Flag("severe", reason("files-changed"))]
            found = msgspec.structs.replace(found, score=msgspec.structs.replace(found.score, flags=flags_too))
        scored.append(found)
        sets.append(events.hosts_of(folder, case))
        notes.extend(_notes(results, case))
        if attempt.trained:
            notes.append(reason("in-round", round=ref.round, why=attempt.reason))
        notes.extend(_round_notes(found, ref, case))
        notes.extend(found.remarks)
    decided = state.enough.get(index)
    if decided is not None and outcome is JobState.SUCCEEDED and decided[1] is not None:
        notes.append(decided[1])  # why it ended after this many rounds
    # Speed of a case that computed wrongly is no speed.
    valid = outcome is not JobState.INVALID
    scores = [found.score for found in scored]
    aim = question(case).target
    # Rounds that were tried: how many there will be may not be known yet.
    needed = [ref for ref in state.refs(index) if not state.is_spare(ref)]
    tried = sum(state.outcome(ref)[0] is not JobState.PENDING for ref in needed)
    flags = [*of_case(scores, tried), *_flags(case, notes)] if scores and valid else []
    measurements = measure(scores, case.unit, state.plan.seed, flags, aim, sets) if scores and valid else {}
    lasts = [state.rounds[ref].last() for ref in state.refs(index)]
    failure = next((last.failure for last in lasts if last is not None and last.failure), None)
    return CaseReport(
        case=case.case,
        state=outcome,
        reason=why,
        fingerprint=case.fingerprint,
        division=case.division,
        preset=case.preset,
        rounds=len(needed),
        counted=len(counted),
        measurements=measurements,
        failure=tries.readable(failure),
        notes=sorted(dict.fromkeys(note for note in notes if note.code not in _OF_FIGURES), key=lambda note: note.code),
        band=_band(lasts),
        variance_level=_variance_level(sets, [attempt for _, attempt in counted]),
        runs=_runs(sets, counted, scored, damaged, valid),
        tries=tries.of_case(state, index),
        flags=flags,
        trained=trained.of_case(case, next((found.model for found in reversed(scored) if found.model), {})),
    )


def _runs(
    sets: list[tuple[str, ...]],
    counted: list[tuple[RoundRef, Attempt]],
    scored: list[Scored],
    damaged: list[list[Reason]],
    valid: bool,
) -> list[RunReport]:
    found = []
    apart = outlier_runs([one.score for one in scored])
    for (ref, attempt), one, odd, hosts, changed in zip(counted, scored, apart, sets, damaged, strict=True):
        score, window = one.score, one.score.window
        found.append(
            RunReport(
                round=ref.round,
                attempt=attempt.number,
                hosts=list(hosts),
                outcome=window.outcome if window else None,
                window_first=window.before + 1 if window else None,
                window_last=window.last if window else None,
                throughput=score.value("throughput") if valid else None,
                sustained=score.value("sustained_throughput") if valid else None,
                disturbed=score.disturbed,
                outlier=odd,
                changed=changed,
                phases=score.phases,
                end_to_end=score.value("end_to_end_time"),
                step_time=score.step_time if valid else {},
                histogram_edges=score.histogram_edges if valid else [],
                histogram_counts=score.histogram_counts if valid else [],
                reason=score.reason,
                series=one.series,
                flags=of_round(score, odd) if valid else [],
            )
        )
    return found


def _variance_level(sets: list[tuple[str, ...]], attempts: list[Attempt]) -> Reason | None:
    """Which variation the interval covers: repeats on one allocation say nothing of other nodes."""
    if not attempts:
        return None
    # A site's own machines are one allocation; a scheduler gives some.
    given = {allocation_of(attempt.handle) for attempt in attempts if attempt.handle}
    allocations = max(1, len(given - {None}))
    distinct = list(dict.fromkeys(sets))
    hosts = distinct[0]
    single = reason("one-node", node=hosts[0])
    nodes = single if len(hosts) == 1 else reason("several-nodes", first=hosts[0], last=hosts[-1])
    if len(distinct) > 1:
        nodes = reason("sets-of-nodes", count=len(distinct))
    runs = reason("one-run") if len(attempts) == 1 else reason("several-runs", count=len(attempts))
    whole = reason("one-allocation") if allocations == 1 else reason("several-allocations", count=allocations)
    return reason("variance-level", runs=runs, allocations=whole, nodes=nodes)


def _band(lasts: list[Attempt | None]) -> Reason | None:
    """How the losses of a case lie to its reference band: the worst of its rounds."""
    found = [_as_band(last.band) for last in lasts if last is not None and last.band]
    return OUTSIDE if OUTSIDE in found else next(iter(found), None)


def _as_band(band: Reason | str) -> Reason:
    """Journals of older versions hold `inside`, `outside`, or `not applicable: ` and why."""
    if isinstance(band, Reason):
        return band
    known, _, why = band.partition(": ")
    return {"inside": INSIDE, "outside": OUTSIDE}.get(known) or reason("band-not-applicable", why=why)


def _missing(folder: Path, results: list[dict[str, Any]], found: int) -> list[Reason]:
    """Events that an agent counted and that are no longer there."""
    counted = sum(int(result.get("events") or 0) for result in results)
    return [reason("events-missing", folder=str(folder), recorded=counted, found=found)] if found < counted else []


def _round_notes(found: Scored, ref: RoundRef, case: CasePlan) -> list[Reason]:
    """What a round's events tell besides figures."""
    notes = [reason("round-went-on", round=ref.round, step=step) for step in found.resumed]
    # A program that ended well without saying so may have ended early.
    if case.probe and found.unfinished:
        notes.append(reason("ended-without-finish", ranks=listed(found.unfinished)))
    return notes + [reason("in-round", round=ref.round, why=note) for note in found.score.notes]


def _notes(results: list[dict[str, Any]], case: CasePlan) -> list[Reason]:
    """What a reader must know besides the figures."""
    notes = [note for result in results for one in result.get("warnings", []) if (note := as_reason(one))]
    if case.diagnostic is not None:
        notes.append(reason("diagnostic-round"))
    if case.opened:
        notes.append(reason("open-division", changed=list(case.opened)))
    return notes


def _flags(case: CasePlan, notes: list[Reason]) -> list[Flag]:
    """What is wrong with the figures of every round of the case. Where a service was emulated, or nodes trained each
    alone, they tell."""
    of_figures = dict.fromkeys(note for note in notes if note.code in _OF_FIGURES)
    synthetic = [Flag("note", reason("data-synthetic"))] if case.data == SYNTHETIC else []
    return [*synthetic, *(Flag("warning", note) for note in of_figures)]
