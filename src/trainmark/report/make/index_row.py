"""A run as one row of the index."""

from __future__ import annotations

from pathlib import Path

from trainmark.errors import UserError
from trainmark.reasons import EMULATED, as_reason
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.store import journal, rundir
from trainmark.store.files import read_json
from trainmark.store.index import Row
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState


def _row(run: RunDir, state: RunState, manifest: Manifest) -> Row:
    outcomes = [state.case_outcome(index)[0] for index in range(len(state.plan.cases))]
    kind = " (imported)" if manifest.imported else " (emulated)" if _emulated(run, state) else ""
    return Row(
        run=run.id,
        created=manifest.created,
        suite=state.plan.suite + kind,
        state=str(control.state_of(run, state)),
        cases=len(outcomes),
        succeeded=sum(outcome is JobState.SUCCEEDED for outcome in outcomes),
        stamp=journal.stamp(run.path),
    )


def _emulated(run: RunDir, state: RunState) -> bool:
    """Whether its nodes tell that their service was emulated: the first that left a result does."""
    for index, case in enumerate(state.plan.cases):
        for ref in state.refs(index)[:1]:
            last = state.rounds[ref].last()
            files = [] if last is None else rundir.node_files(run.attempt(case, ref, last.number), rundir.RESULT)
            for found in map(read_json, files[:1]):
                warnings = found.get("warnings") if isinstance(found, dict) else None
                reasons = [as_reason(one) for one in warnings] if isinstance(warnings, list) else []
                return any(one is not None and one.code == EMULATED for one in reasons)
    return False


def summarise(path: Path) -> Row:
    """The row of a run read from its folder. A broken run is listed as such instead of hiding the others."""
    run = RunDir(path)
    try:
        manifest = run.manifest()
        state = RunState.replay(manifest.plan, journal.read(path).records)
        return _row(run, state, manifest)
    except UserError as error:
        return Row(run.id, 0, f"unreadable: {error}", "INVALID", 0, 0, 0)
