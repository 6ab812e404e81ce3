"""A run as one row of the index."""

from __future__ import annotations

from pathlib import Path

from trainmark.errors import UserError
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.index import Row
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState


def _row(run: RunDir, state: RunState, manifest: Manifest) -> Row:
    outcomes = [state.case_outcome(index)[0] for index in range(len(state.plan.cases))]
    return Row(
        run=run.id,
        created=manifest.created,
        suite=state.plan.suite + (" (imported)" if manifest.imported else ""),
        state=str(control.state_of(run, state)),
        cases=len(outcomes),
        succeeded=sum(outcome is JobState.SUCCEEDED for outcome in outcomes),
        stamp=journal.stamp(run.path),
    )


def summarise(path: Path) -> Row:
    """The row of a run read from its folder. A broken run is listed as such instead of hiding the others."""
    run = RunDir(path)
    try:
        manifest = run.manifest()
        state = RunState.replay(manifest.plan, journal.read(path).records)
        return _row(run, state, manifest)
    except UserError as error:
        return Row(run.id, 0, f"unreadable: {error}", "INVALID", 0, 0, 0)
