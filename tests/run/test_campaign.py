"""Campaigns whose runs end as soon as they are driven: killed at every moment, stopped, driven by two at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.plans import plan as small_plan
from trainmark.errors import UserError
from trainmark.plan.records import Plan
from trainmark.run import campaign, control, session, stop
from trainmark.run.campaign import Campaign, Shown, Step
from trainmark.run.lease import LostLease
from trainmark.run.stop import StopSwitch, Switch
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import RunDir

LAST = 4


class Counting:
    """Counts up: the next run is the sum of what the earlier ones showed, plus one; some lie beside the campaign."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def next(self, shown: Sequence[Shown]) -> Step | None:
        return None if len(shown) == LAST else Step("count", {"number": 1 + sum(one for _, one in shown)})

    def plan(self, step: Step) -> Plan:
        del step
        return small_plan([1])

    def folder(self, step: Step) -> Path:
        return self._folder if step.arguments["number"] % 2 else self._folder.parent

    def read(self, step: Step, run: RunDir) -> int:
        assert session.state_of(run, run.manifest().plan).finished is JobState.SUCCEEDED
        return int(step.arguments["number"])


class Drives:
    """Ends a run with success, and remembers it."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def __call__(self, _step: Step, run: RunDir, plan: Plan, _switch: Switch) -> JobState:
        self.runs.append(run.id)
        writer = journal.Journal(run.path, 1, contextlib.nullcontext)
        writer.append(journal.OWNER)
        for ref in plan.order:
            writer.append(journal.ATTEMPT, case=ref.case, round=ref.round, attempt=1, token="t")
            writer.append(journal.ENDED, case=ref.case, round=ref.round, attempt=1, state=JobState.SUCCEEDED)
        writer.append(journal.FINISHED, state=JobState.SUCCEEDED)
        writer.close()
        return JobState.SUCCEEDED


@pytest.fixture
def made(tmp_path: Path) -> Campaign:
    return campaign.create(tmp_path / ".counting", "fit", {"last": LAST}, ["trainmark", "count"])


def numbers(shown: list[Shown] | None) -> list[int]:
    return [one for _, one in shown or []]


def test_each_run_follows_from_the_earlier_ones(made: Campaign) -> None:
    drives = Drives()
    assert numbers(made.go(Counting(made.folder), drives)) == [1, 2, 4, 8]
    record = made.record()
    assert record.finished and len(record.members) == len(set(drives.runs)) == LAST
    runs = [made.run(member) for member in record.members]
    assert [campaign.of_run(run) for run in runs] != [None] * LAST
    assert {campaign.of_run(run).folder for run in runs} == {made.folder}  # type: ignore[union-attr]
    assert runs[0].manifest().command == ["trainmark", "count"]
    again = Drives()
    assert numbers(made.go(Counting(made.folder), again)) == [1, 2, 4, 8] and again.runs == []


class Killed(BaseException):
    """Stands for kill -9 between two actions."""


@pytest.mark.parametrize("actions", [1, 2, 3, 5])
def test_killed_after_any_action_it_goes_on_and_does_nothing_twice(
    made: Campaign, monkeypatch: pytest.MonkeyPatch, actions: int
) -> None:
    """Files that are written, before and after; manifests; runs that are driven."""
    drives, left, kills = Drives(), [0], 0

    def guarded(action: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return action(*args, **more)

        return call

    monkeypatch.setattr(campaign, "write_json", guarded(campaign.write_json))
    monkeypatch.setattr(session, "describe", guarded(session.describe))
    while True:
        # One action alone may not be enough to get on: the first of a resumed campaign may be one that it repeats.
        left[0] = actions + kills % 3
        try:
            shown = made.go(Counting(made.folder), guarded(drives))
            break
        except Killed:
            kills += 1
    assert numbers(shown) == [1, 2, 4, 8] and kills > 1
    assert len(drives.runs) == len(set(drives.runs)) == LAST


def test_a_stop_between_two_runs_is_heard(made: Campaign) -> None:
    """By the caller's switch, or from another process; it holds until somebody resumes."""
    switch, drives = StopSwitch(), Drives()

    def driver(step: Step, run: RunDir, plan: Plan, asked: Switch) -> JobState:
        if len(drives.runs) == 1:
            switch.request("enough")
        elif len(drives.runs) == 2:
            stop.request(made.folder, now=False)
        return drives(step, run, plan, asked)

    assert made.go(Counting(made.folder), driver, switch) is None
    assert len(drives.runs) == 2 and not made.record().finished
    assert made.go(Counting(made.folder), driver) is None
    assert len(drives.runs) == 3
    assert numbers(made.go(Counting(made.folder), driver)) == [1, 2, 4, 8] and len(set(drives.runs)) == LAST


def test_a_run_that_was_cancelled_stops_the_campaign(made: Campaign) -> None:
    assert made.go(Counting(made.folder), lambda *_: JobState.CANCELLED) is None
    assert len(made.record().members) == 1
    assert numbers(made.go(Counting(made.folder), Drives())) == [1, 2, 4, 8]


def test_only_one_process_or_thread_works_on_it(made: Campaign) -> None:
    """Another is refused; `stop` waits for the one that works."""
    inside, leave = threading.Event(), threading.Event()

    def driver(step: Step, run: RunDir, plan: Plan, asked: Switch) -> JobState:
        inside.set()
        while not asked.level():
            leave.wait(0.01)
        return JobState.CANCELLED

    thread = threading.Thread(target=made.go, args=(Counting(made.folder), driver))
    thread.start()
    assert inside.wait(10)
    with pytest.raises(UserError, match=r"\.counting is being worked on by another process"):
        made.go(Counting(made.folder), Drives())
    member = made.run(made.record().members[0])
    assert control.stop_run(member, timeout=10), "a run of a campaign stops with all of it"
    thread.join(10)
    assert not thread.is_alive() and not control.stop_campaign(made)


def test_one_that_was_taken_over_writes_nothing_more(made: Campaign) -> None:
    def driver(step: Step, run: RunDir, plan: Plan, asked: Switch) -> JobState:
        (made.folder / "lease.json").unlink()
        return Drives()(step, run, plan, asked)

    with pytest.raises(LostLease):
        made.go(Counting(made.folder), driver)
    assert len(made.record().members) == 1


def test_campaigns_are_found_by_their_folder(made: Campaign, tmp_path: Path) -> None:
    assert campaign.find(tmp_path, ".counting") is not None and campaign.find(tmp_path, "nothing") is None
    newest = campaign.find(tmp_path, None)
    assert newest is not None and newest.folder == made.folder
    session.create(small_plan([1]), tmp_path)
    assert campaign.find(tmp_path, None) is None, "a run is newer"
    (made.folder / campaign.RECORD).write_text("{")
    with pytest.raises(UserError, match="broken"):
        made.record()
