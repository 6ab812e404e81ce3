"""Campaigns: runs that are decided as they go, each by what the earlier ones showed.

A campaign is a folder with a record of its runs, a lease and requests to stop, as a run has. What differs between an
acceptance, a bisection and the search for a batch is a `Procedure`: which run comes next is a pure function of what the
runs so far showed, and all of that is in their folders. So a campaign that was killed at any moment goes on.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from trainmark.agent.private import is_ours
from trainmark.errors import STOPPED, UserError
from trainmark.plan.records import Kind, Plan
from trainmark.reasons import Reason
from trainmark.run import lease as leases
from trainmark.run import session, stop
from trainmark.run.lease import Lease
from trainmark.run.observers import Observer, Observers
from trainmark.run.stop import RunSwitch, StopSwitch, Switch
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.files import decode, read_json, write_json
from trainmark.store.rundir import RunDir

RECORD = "campaign.json"
# A campaign that has no folder of its own beside the runs has one of this name in its first run.
FOLDER = "campaign"
# In the folder of a run that does not lie in its campaign's: where that is.
PART = "campaign-part.json"
# What goes on beside the rounds of a run of these kinds: a function of the run, its plan and the observer of its rounds
# that gives a context manager of a `Companion`.
_COMPANIONS = {
    "acceptance": "trainmark.run.budget:companion",
    "goodput": "trainmark.run.faults:companion",
    "automl": "trainmark.automl.experiment.runs:companion",
}


class Step(msgspec.Struct, frozen=True):
    """What one run of a campaign is for: all that is needed to make its plan, again if need be."""

    what: str
    arguments: dict[str, Any] = {}
    # A run that is there already and is driven further, by the path from the campaign's folder; None: a new run.
    run: str | None = None


class Member(msgspec.Struct, frozen=True):
    """A run of a campaign, by the path from the campaign's folder to its own."""

    run: str
    step: Step


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`campaign.json`: what was asked for, in the terms of its kind, and the runs so far."""

    schema: Literal[1] = 1
    kind: Kind
    created: int
    asked: dict[str, Any]
    command: tuple[str, ...] = ()
    # Where it was asked for: the state of a git checkout there is recorded with each run.
    where: str | None = None
    members: tuple[Member, ...] = ()
    finished: bool = False


# What each run so far was for, and what it showed.
Shown = tuple[Step, Any]
# Tells the user how far a campaign is.
Tell = Callable[[Reason], object]
# Drives one run: shows its progress, and says how it ended.
Driver = Callable[[Step, RunDir, Plan, Switch], JobState]


class Procedure(Protocol):
    """What a kind of campaign contributes."""

    def next(self, shown: Sequence[Shown]) -> Step | None:
        """The next run; None when the runs so far are enough. Pure: the same runs give the same answer."""

    def plan(self, step: Step) -> Plan:
        """The plan of a run."""

    def folder(self, step: Step) -> Path:
        """Where the run's folder is made."""

    def read(self, step: Step, run: RunDir) -> Any:
        """What a run that ended showed, from its folder alone."""


class CampaignStopped(UserError):
    """Somebody asked a campaign to stop before its end."""

    exit_code = STOPPED

    def __init__(self, name: str) -> None:
        super().__init__(f"stopped; `trainmark resume {name}` goes on")


class Campaign:
    """One campaign on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """What `trainmark resume` finds it by."""
        return self.folder.parent.name if self.folder.name == FOLDER else self.folder.name

    def record(self) -> Record:
        try:
            return decode(self.folder / RECORD, Record)
        except FileNotFoundError:
            raise UserError(f"{self.folder / RECORD}: no such file") from None

    def run(self, member: Member) -> RunDir:
        return RunDir(Path(os.path.normpath(self.folder / member.run)))

    def shown(self, procedure: Procedure) -> list[Shown]:
        """What its runs showed, read without going on."""
        return [(one.step, procedure.read(one.step, self.run(one))) for one in self.record().members]

    def go(self, procedure: Procedure, driver: Driver, switch: Switch | None = None) -> list[Shown] | None:
        """From wherever the campaign stands to its end; None if it was stopped. A request to stop is heard in a run
        and between two."""
        before = stop.standing(self.folder)
        with self._owned() as lease:
            stop.clear(self.folder, before)
            asked = _Watch(self.folder, switch or StopSwitch(), lease)
            shown: list[Shown] = []
            while True:
                members = self.record().members
                if len(shown) < len(members):
                    member = members[len(shown)]
                else:
                    step = procedure.next(shown)
                    if step is None:
                        break
                    if asked.level():
                        return None
                    member = self._begin(procedure, step, lease)
                run = self._described(procedure, member)
                # Runs before the last one decided on it: they stay as they are.
                if len(shown) >= len(members) - 1 and not _ended(run, member.step, driver, asked):
                    return None
                shown.append((member.step, procedure.read(member.step, run)))
            self._write(msgspec.structs.replace(self.record(), finished=True), lease)
            return shown

    def _begin(self, procedure: Procedure, step: Step, lease: Lease) -> Member:
        """Written down before there is a manifest: without one, a folder is no run, and its plan is made again."""
        record = self.record()
        if step.run is not None:
            member = Member(step.run, step)
            self._write(msgspec.structs.replace(record, members=(*record.members, member)), lease)
            return member
        plan = procedure.plan(step)
        run = rundir.create(procedure.folder(step), plan.suite)
        member = Member(os.path.relpath(run.path, self.folder), step)
        self._write(msgspec.structs.replace(record, members=(*record.members, member)), lease)
        self.describe(run, plan)
        return member

    def _described(self, procedure: Procedure, member: Member) -> RunDir:
        run = self.run(member)
        if not rundir.is_run(str(run.path)):
            if not run.path.is_dir():
                rundir.make_private(run.path)
            self.describe(run, procedure.plan(member.step))
        return run

    def describe(self, run: RunDir, plan: Plan) -> None:
        """Writes the manifest of a member; before it, where its campaign is."""
        if run.path.parent != self.folder:
            write_json(run.path / PART, {"schema": 1, "campaign": os.path.relpath(self.folder, run.path)})
        record = self.record()
        session.describe(run, plan, record.command, None if record.where is None else Path(record.where))

    def _write(self, record: Record, lease: Lease) -> None:
        with lease.held():
            write_json(self.folder / RECORD, record, durable=True)

    def _owned(self) -> Lease:
        try:
            return leases.take(self.folder)
        except leases.Owned:
            raise UserError(f"{self.name} is being worked on by another process") from None


class _Watch(RunSwitch):
    """Whether the campaign shall stop. The loop asks about twice a second: often enough to renew the lease, too."""

    def __init__(self, folder: Path, caller: Switch, lease: Lease) -> None:
        super().__init__(folder, caller)
        self._lease = lease

    def level(self) -> int:
        self._lease.renew()
        return super().level()


def create(
    folder: Path,
    kind: Kind,
    asked: Any,
    command: Sequence[str] = (),
    members: Sequence[Member] = (),
    where: Path | None = None,
) -> Campaign:
    """A new campaign; nothing is started. `where`: the folder it is about (default: the current one)."""
    if where is None:
        with contextlib.suppress(OSError):  # the working directory may be gone
            where = Path.cwd()
    try:
        # One that was killed before its record was written may have left its folder.
        if not folder.is_dir() or (folder / RECORD).exists():
            rundir.make_private(folder)
    except OSError as error:
        raise UserError(f"--runs {folder.parent}: cannot be written: {error.strerror}") from None
    record = Record(
        kind=kind,
        created=time.time_ns(),
        asked=msgspec.to_builtins(asked),
        command=tuple(command),
        where=None if where is None else str(where),
        members=tuple(members),
    )
    write_json(folder / RECORD, record, durable=True)
    return Campaign(folder)


def of_run(run: RunDir) -> Campaign | None:
    """The campaign that a run belongs to, if it belongs to one."""
    part = read_json(run.path / PART)
    folder = run.path / str(part["campaign"]) if isinstance(part, dict) else run.path.parent
    return Campaign(folder.resolve()) if (folder / RECORD).is_file() else None


def find(runs: Path, name: str | None) -> Campaign | None:
    """A campaign that has a folder of its own beside the runs, by that folder; without a name, one that is not finished
    and newer than every run."""
    if name is not None:
        folders = [Path(name), runs / name]
        return next((Campaign(folder.resolve()) for folder in folders if (folder / RECORD).is_file()), None)
    files = [file for file in runs.glob(f".*/{RECORD}") if is_ours(str(file.parent)) and is_ours(str(file))]
    found = [Campaign(file.parent.resolve()) for file in files]
    newest = max(found, key=lambda one: one.record().created, default=None)
    if newest is None or newest.record().finished:
        return None
    last = rundir.run_ids(runs)[-1:]
    later = any(RunDir(runs / run).manifest().created > newest.record().created for run in last)
    return None if later else newest


def _ended(run: RunDir, step: Step, driver: Driver, asked: Switch) -> bool:
    plan = run.manifest().plan
    if session.nothing_left(run, plan):
        return True
    return not asked.level() and driver(step, run, plan, asked) is not JobState.CANCELLED


class Companion(Observer):
    """What goes on beside the rounds of a run: it observes them, and may say that no more are needed."""

    def ending(self) -> Reason | None:
        """Why no further round is needed; None while some are."""
        return None


def drive(
    run: RunDir,
    plan: Plan,
    observer: Observer,
    switch: Switch | None = None,
    blocks: int | None = None,
    epoch: int | None = None,
    *,
    patient: bool = False,
) -> JobState:
    """Drives one run of any kind, new or resumed, with what belongs beside it. `blocks`: only the first so many.
    `epoch`, `patient`: see `session.drive`."""
    where = _COMPANIONS.get(plan.kind)
    if where is None:
        return session.drive(run, plan, observer, switch, blocks=blocks, epoch=epoch, patient=patient)
    module, _, function = where.partition(":")
    make: Callable[[RunDir, Plan, Observer], AbstractContextManager[Companion]] = getattr(
        importlib.import_module(module), function
    )
    with make(run, plan, observer) as companion:
        both = Observers(companion, observer)
        more: dict[str, Any] = {"blocks": blocks, "epoch": epoch, "patient": patient}
        return session.drive(run, plan, both, switch, ending=companion.ending, **more)
