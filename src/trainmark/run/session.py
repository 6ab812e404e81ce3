"""Beginning, driving, resuming and ending runs: from a plan to a driven loop, with the lease held around it.

Nothing here belongs to the process: several threads may each drive a run of their own. Signals, the terminal and the
command line are the caller's, who hands in an observer and a stop switch.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainmark import __version__
from trainmark.cache import cache_dir
from trainmark.errors import SiteError
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, reason
from trainmark.run import lease as leases
from trainmark.run import machine, stop
from trainmark.run.judge import judge
from trainmark.run.lease import Lease
from trainmark.run.loop import Loop
from trainmark.run.observers import Observer
from trainmark.run.preflight import unmet, unmet_elsewhere
from trainmark.run.stop import RunSwitch, StopSwitch, Switch
from trainmark.spec.states import JobState
from trainmark.store import digests, journal, provenance, rundir, secrets, series
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState

_LOOK_SECONDS = 0.5


def create(plan: Plan, runs: Path, command: Sequence[str] = (), folder: Path | None = None) -> RunDir:
    """A new run: its folder and manifest. Nothing is started.

    `command`: how the run was asked for. `folder`: where that was, to record the state of a git checkout there.
    """
    cache_dir("weights")  # ranks read from it, so it must be ours
    run = rundir.create(runs, plan.suite)
    describe(run, plan, command, folder)
    return run


def describe(run: RunDir, plan: Plan, command: Sequence[str] = (), folder: Path | None = None) -> None:
    """Writes the manifest of a run whose folder is there."""
    created = time.time_ns()
    told, words = secrets.hide(run, plan, command)
    manifest = Manifest(
        schema=rundir.SCHEMA,
        run=run.id,
        created=created,
        trainmark=__version__,
        command=words,
        plan=told,
        provenance=provenance.collect(folder),
        series=series.join(run.path.parent, run.id, plan, created),
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
    rundir.check_own(run.path)
    return launcher_of(plan.site).release(run.path)


def drive(
    run: RunDir,
    plan: Plan,
    observer: Observer,
    switch: Switch | None = None,
    *,
    ending: Callable[[], Reason | None] = lambda: None,
    blocks: int | None = None,
    epoch: int | None = None,
    patient: bool = False,
) -> JobState:
    """Own the run and work on it until it ends or is stopped. Also how a run is resumed.

    `switch`: the caller's, by which it asks this run to stop; one may serve several runs. `ending`: why no further
    round is needed, if so. `blocks`: work on the first so many blocks, and leave the rest for another time (then the
    state is PENDING). `epoch`: of the last owner that the caller knows of. `patient`: wait while other runs hold its
    hosts. Raises `Owned` when somebody else works on the run, `LostLease` when it was taken over.
    """
    before = stop.standing(run.path)
    with leases.take(run.path, epoch) as lease:
        stop.clear(run.path, before)
        asked = RunSwitch(run.path, switch or StopSwitch())
        if patient:
            _wait_for_hosts(run, plan, observer, asked)
        with machine.held(run.path, plan):
            return _work(run, plan, observer, lease, asked, ending, blocks)


def _wait_for_hosts(run: RunDir, plan: Plan, observer: Observer, switch: RunSwitch) -> None:
    """Until no other run holds them, or somebody asks to stop."""
    places, told = machine.places_of(plan), False
    while places and (blocking := machine.try_claim(run.path, places)) and not switch.level():
        if not told:
            observer.note(machine.in_the_way(blocking))
            told = True
        time.sleep(_LOOK_SECONDS)


def end(run: RunDir, plan: Plan, observer: Observer | None = None, *, now: bool = False) -> JobState:
    """Own a run that nobody works on just to end what an earlier controller left running."""
    with leases.take(run.path) as lease:
        stop.request(run.path, now=now)
        return _work(run, plan, observer or Observer(), lease, RunSwitch(run.path, StopSwitch()), lambda: None)


def _work(
    run: RunDir,
    plan: Plan,
    observer: Observer,
    lease: Lease,
    switch: RunSwitch,
    ending: Callable[[], Reason | None],
    blocks: int | None = None,
) -> JobState:
    try:
        writer = journal.Journal(run.path, lease.epoch, lease.held)
    except OSError as error:
        raise SiteError(f"{run.path}: the journal cannot be written: {error.strerror}") from None
    try:
        past = journal.read(run.path)
        for warning in past.warnings:
            observer.note(reason("warning", text=warning))
        state = RunState.replay(plan, past.records)
        of_manifest = digests.manifest_digest(run.path)
        state.apply(writer.append(journal.OWNER, host=os.uname().nodename, pid=os.getpid(), digest=of_manifest))
        hidden = secrets.known(run)
        if hidden:
            observer.note(reason("secrets-hidden", count=len(hidden)))
        plan = secrets.reveal(plan, hidden)
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
            observer,
            lease.renew,
            judge,
            ending=ending,
            blocks=blocks,
        )
        final = loop.go()
        secrets.forget(run, hidden, over=final is JobState.SUCCEEDED or nothing_left(run, plan))
        for text in launcher.release(run.path):
            observer.note(reason("warning", text=text))
        return final
    except OSError as error:
        raise SiteError(
            f"{run.path}: the run cannot go on: {error}; make room and `trainmark resume {run.id}`"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            writer.close()
