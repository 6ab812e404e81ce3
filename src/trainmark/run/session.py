"""Beginning and resuming runs: from a plan to a driven loop, with the lease held around it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trainmark import __version__
from trainmark.errors import SiteError
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.run import lease as leases
from trainmark.run import stop
from trainmark.run.judge import judge
from trainmark.run.loop import Loop
from trainmark.run.preflight import unmet, unmet_elsewhere
from trainmark.run.stop import Signals, StopSwitch
from trainmark.spec.states import JobState
from trainmark.store import journal, provenance, rundir
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState

if TYPE_CHECKING:
    from trainmark.run.words import View


def create(plan: Plan, runs: Path) -> RunDir:
    """A new run: its folder and manifest. Nothing is started."""
    run = rundir.create(runs, plan.suite)
    describe(run, plan)
    return run


def describe(run: RunDir, plan: Plan) -> None:
    """Writes the manifest of a run whose folder is there."""
    manifest = Manifest(
        schema=rundir.SCHEMA,
        run=run.id,
        created=time.time_ns(),
        trainmark=__version__,
        command=sys.argv,
        plan=plan,
        provenance=provenance.collect(Path.cwd()),
    )
    rundir.write_manifest(run, manifest)


def state_of(run: RunDir, plan: Plan) -> RunState:
    """Where a run stands, for anybody who only looks."""
    return RunState.replay(plan, journal.read(run.path).records)


def nothing_left(run: RunDir, plan: Plan) -> bool:
    """Whether a new controller would find nothing to do."""
    state = state_of(run, plan)
    state.apply(journal.Record(k=journal.OWNER, epoch=0, wall=0))
    return state.next_round() is None and not state.open_attempts()


def release(run: RunDir, plan: Plan) -> list[str]:
    """Clears what a run that nobody works on has left with its site; returns what could not be."""
    return launcher_of(plan.site).release(run.path)


def drive(
    run: RunDir,
    plan: Plan,
    view: View,
    *,
    stopping: Literal["", "stop", "now"] = "",
    ending: Callable[[], str] = str,
    heard: Signals | None = None,
) -> JobState:
    """Own the run and work on it until it ends or is stopped. Also how a run is resumed.

    `stopping`: only to end what an earlier controller left running. `ending`: why no further round is needed, if so.
    `heard`: signals to this command, if it does more than this run.
    """
    lease = leases.take(run.path)
    switch = StopSwitch(run.path, heard)
    if stopping:
        stop.request(run.path, "stopped by `trainmark stop`", now=stopping == "now")
    else:
        switch.clear()
    switch.listen()
    try:
        writer = journal.Journal(run.path, lease.epoch, lease.held)
    except OSError as error:
        raise SiteError(f"{run.path}: the journal cannot be written: {error.strerror}") from None
    past = journal.read(run.path)
    for warning in past.warnings:
        view.note(f"warning: {warning}")
    state = RunState.replay(plan, past.records)
    try:
        state.apply(writer.append(journal.OWNER, host=os.uname().nodename, pid=os.getpid()))
        launcher = launcher_of(plan.site)
        preflight = unmet if launcher.this_machine else unmet_elsewhere
        loop = Loop(
            run,
            plan,
            state,
            launcher,
            writer,
            lease.epoch,
            switch,
            preflight,
            view,
            lease.renew,
            judge,
            ending=ending,
        )
        final = loop.go()
        for text in launcher.release(run.path):
            view.note(f"warning: {text}")
        lease.release()
        return final
    except OSError as error:
        raise SiteError(
            f"{run.path}: the run cannot go on: {error}; make room and `trainmark resume {run.id}`"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            writer.close()
