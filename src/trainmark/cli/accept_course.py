"""The course of an acceptance: its runs, one after the other. What it needs to go on after a kill is in the first."""

from __future__ import annotations

import argparse
import fcntl
import os
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import msgspec

from trainmark.errors import UserError
from trainmark.plan import fleet
from trainmark.plan.records import Plan
from trainmark.report import acceptance, acceptance_rounds
from trainmark.report.acceptance import Gathered, Setting, Stage
from trainmark.report.acceptance_rounds import Measured
from trainmark.run import session
from trainmark.run.stop import StopSwitch, on_signals
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# In the first run: the tournament as it was planned; in every other: which one is the first.
_LINKS = "accept-links.json"
_PART = "accept-part.json"
_LOCK = "accept.lock"
Next = tuple[Literal["again", "links"], Plan, tuple[str, ...]]


def first_of(run: RunDir) -> RunDir | None:
    """The first run of the acceptance that a run belongs to, if it belongs to one."""
    if (run.path / acceptance.NAME).is_file():
        return run
    part = read_json(run.path / _PART)
    return RunDir(run.path.parent / str(part["first"])) if isinstance(part, dict) else None


def setting_of(first: RunDir) -> Setting:
    try:
        return msgspec.convert(read_json(first.path / acceptance.NAME), Setting)
    except msgspec.ValidationError as error:
        raise UserError(f"{first.path / acceptance.NAME}: broken: {error}") from None


def measured(first: RunDir, stage: Stage) -> list[Measured]:
    return acceptance_rounds.read(RunDir(first.path.parent / stage.run), stage.what)


def create(runs: Path, setting: Setting, nodes: Plan, links: Plan | None, command: Sequence[str]) -> RunDir:
    """The first run; nothing is started. Its manifest comes last: without one, a folder is no run."""
    first = rundir.create(runs, nodes.suite)
    if links is not None:
        write_json(first.path / _LINKS, links)
    stages = [Stage(first.id, "nodes")]
    write_json(first.path / acceptance.NAME, msgspec.structs.replace(setting, stages=stages), durable=True)
    session.describe(first, nodes, command)
    return first


class Course:
    """From wherever an acceptance stands to its end."""

    def __init__(self, first: RunDir, args: argparse.Namespace) -> None:
        self._first, self._args = first, args
        self.setting = setting_of(first)
        self._done: list[tuple[Stage, Sequence[Measured]]] = []
        self._switch = StopSwitch()

    def go(self) -> Gathered | None:
        """All rounds; None if it was stopped. Only the last run can be unfinished: the ones before decided on it."""
        with _alone(self._first), on_signals(self._switch):
            *before, last = self.setting.stages
            self._done = [(stage, measured(self._first, stage)) for stage in before]
            ended = self._drive(last)
            while ended and (following := self._following()):
                ended = not self._switch.level() and self._drive(self._begin(*following))
            return acceptance.gather(self._done) if ended else None

    def _following(self) -> Next | None:
        from trainmark.score.accept import nodes as accept

        if any(stage.what == "links" for stage in self.setting.stages):
            return None
        looks = acceptance.gather(self._done).looks
        nodes = self._first.manifest().plan
        again, beside = accept.suspects(looks, nodes.site.hosts, self.setting.rule)
        if again:
            blocks = nodes.cases[0].repeat
            return "again", fleet.again(nodes, [*again, *beside], nodes.seed + blocks * len(looks)), beside
        links = read_json(self._first.path / _LINKS)
        return None if links is None else ("links", msgspec.convert(links, Plan), ())

    def _begin(self, what: Literal["again", "links"], plan: Plan, references: tuple[str, ...]) -> Stage:
        run = rundir.create(self._first.path.parent, plan.suite)
        write_json(run.path / _PART, {"schema": 1, "first": self._first.id})
        session.describe(run, plan, self._first.manifest().command)
        stage = Stage(run.id, what, references)
        self.setting = msgspec.structs.replace(self.setting, stages=[*self.setting.stages, stage])
        write_json(self._first.path / acceptance.NAME, self.setting, durable=True)
        return stage

    def _drive(self, stage: Stage) -> bool:
        from trainmark.cli.drive import watched

        run = RunDir(self._first.path.parent / stage.run)
        plan = run.manifest().plan
        if not session.nothing_left(run, plan):
            final = watched(run, plan, self._args, self._switch)
            if final in (None, JobState.CANCELLED):
                return False
        self._done.append((stage, measured(self._first, stage)))
        return True


@contextmanager
def _alone(first: RunDir) -> Iterator[None]:
    """Between two runs nobody has a lease, so there is one more lock. It is not handed on to agents, as flock's is."""
    handle = os.open(first.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"acceptance {first.id} is being worked on by another process") from None
        yield
    finally:
        os.close(handle)
