"""A run's report: states, reasons and measurements of every case, recomputed from the run directory."""

from __future__ import annotations

from pathlib import Path

from trainmark.plan.records import CasePlan
from trainmark.report.records import CaseReport, Report
from trainmark.run import lease
from trainmark.score.case import measure, score_run
from trainmark.spec.case import SYNTHETIC
from trainmark.spec.event import Event
from trainmark.spec.states import JobState
from trainmark.store import events, journal
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState


def build(run: RunDir) -> Report:
    manifest = run.manifest()
    past = journal.read(run.path)
    state = RunState.replay(manifest.plan, past.records)
    warnings = list(past.warnings)
    cases = [_case(run, state, index, warnings) for index in range(len(manifest.plan.cases))]
    return Report(run.id, present_state(run, state), manifest.plan.suite, cases, warnings, str(run.path))


def present_state(run: RunDir, state: RunState) -> JobState:
    """RUNNING only while somebody works on it: a run whose controller was killed is LOST until it is resumed."""
    if state.finished is not None:
        return state.finished
    return JobState.RUNNING if lease.seems_alive(run.path) else JobState.LOST


def _case(run: RunDir, state: RunState, index: int, warnings: list[str]) -> CaseReport:
    case = state.plan.cases[index]
    outcome, reason = state.case_outcome(index)
    counted = state.counted(index)
    scores, notes = [], []
    for ref, attempt in counted:
        folder = run.attempt(case, ref, attempt.number)
        read = events.read_attempt(folder)
        warnings.extend(read.warnings)
        warnings.extend(_missing(folder, read.lines))
        scores.append(score_run(read.events, case.world))
        notes.extend(_notes(folder, case))
        notes.extend(_resumed(read.events, ref.round))
        notes.extend(_unfinished(read.events, case))
    # Speed of a case that computed wrongly is no speed.
    valid = outcome is not JobState.INVALID
    measurements = measure(scores, case.unit, state.plan.seed) if scores and valid else {}
    failures = [state.rounds[ref].last() for ref in state.plan.order if ref.case == index]
    failure = next((last.failure for last in failures if last is not None and last.failure), None)
    return CaseReport(
        case=case.case,
        state=outcome,
        reason=reason,
        fingerprint=case.fingerprint,
        division=case.division,
        preset=case.preset,
        rounds=case.repeat,
        counted=len(counted),
        measurements=measurements,
        failure=failure,
        notes=sorted(set(notes)),
    )


def _missing(folder: Path, found: int) -> list[str]:
    """Events that an agent counted and that are no longer there."""
    counted = sum(int(result.get("events") or 0) for result in events.results(folder))
    return [f"{folder}: {counted} events were recorded, {found} are there"] if found < counted else []


def _unfinished(found: list[Event], case: CasePlan) -> list[str]:
    """A program that ended well without saying so may have ended early."""
    spoke = {event.rank for event in found}
    silent = sorted(spoke - {event.rank for event in found if event.k == "FINISHED"})
    return [f"rank {rank} ended without `finish()`" for rank in silent] if case.probe else []


def _resumed(found: list[Event], number: int) -> list[str]:
    """A round that an earlier attempt had begun shows only its later part."""
    notes = [event.value for event in found if event.k == "NOTE" and event.name == "resumed_from_step"]
    steps = {value for value in notes if isinstance(value, int)}
    return [f"round {number} went on from step {step} of an earlier attempt" for step in sorted(steps)]


def _notes(attempt_dir: Path, case: CasePlan) -> list[str]:
    """What a reader must know besides the figures."""
    notes = [warning for result in events.results(attempt_dir) for warning in result.get("warnings", [])]
    notes += [f"disturbed: {why}" for result in events.results(attempt_dir) for why in result.get("disturbed", [])]
    if case.data == SYNTHETIC:
        notes.append("data is synthetic")
    if case.opened:
        notes.append(f"open division: changed {', '.join(case.opened)}")
    return notes
