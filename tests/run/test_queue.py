"""What a scheduler does to a run: it waits, others cancel it, and a lost node is not there for the next try."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.run.test_crashes import FakeLauncher, World, judge, plan
from trainmark.errors import SiteError
from trainmark.i18n.speaker import say
from trainmark.launch.protocol import Ended, Request, StartedAttempt
from trainmark.plan.records import Plan, RoundRef
from trainmark.reasons import Reason, as_reason, reason
from trainmark.run.loop import Loop
from trainmark.run.observers import Observer
from trainmark.run.stop import RunSwitch, StopSwitch
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState

CANCELLED = Ended(
    JobState.CANCELLED, as_reason("cancelled by root"), {"rank": None, "kind": "cancelled", "last_lines": []}
)


class Queue(FakeLauncher):
    """Has a job wait before it runs, and refuses jobs from some attempt on."""

    def __init__(self, world: World, waits: Sequence[str] = (), refuse_from: int = 99) -> None:
        super().__init__(world)
        self._waits, self._refuse_from = list(waits), refuse_from

    def submit(self, request: Request) -> StartedAttempt:
        if len(self.world.started) + 1 >= self._refuse_from:
            raise SiteError("node2 cannot be reached: it does not answer")
        job = super().submit(request)
        first = reason("text", text=self._waits[0]) if self._waits else None
        return StartedAttempt(job.handle, job.attempt_dir, job.token, first)

    def poll(self, jobs: Sequence[StartedAttempt], seconds: float) -> dict[str, Ended]:
        if self._waits:
            why = reason("text", text=self._waits.pop(0))
            return {job.handle: Ended(JobState.PENDING, why) for job in jobs}
        return super().poll(jobs, seconds)


class Watching(Observer):
    def __init__(self, folder: Path, planned: Plan) -> None:
        self._folder, self._plan = folder, planned
        self.seen: list[tuple[str, str]] = []

    def waiting(self, ref: RoundRef, waits_for: Reason | None) -> None:
        """What anybody who looks at the run's folder is told at this moment."""
        state, why = RunState.replay(self._plan, journal.read(self._folder).records).outcome(ref)
        assert why == waits_for
        self.seen.append((str(state), say(why)))


def drive(folder: Path, planned: Plan, launcher: FakeLauncher, epoch: int = 1) -> tuple[RunState, Any]:
    writer = journal.Journal(folder, epoch, contextlib.nullcontext)
    state = RunState.replay(planned, journal.read(folder).records)
    state.apply(writer.append(journal.OWNER))
    switch, watching = RunSwitch(folder, StopSwitch()), Watching(folder, planned)
    loop = Loop(
        RunDir(folder), planned, state, launcher, writer, epoch, switch, lambda case: None, watching,
        lambda: None, judge, lambda: launcher.world.now,
    )  # fmt: skip
    loop.go()
    writer.close()
    return RunState.replay(planned, journal.read(folder).records), watching


def test_what_others_cancel_is_not_tried_again_until_resume(tmp_path: Path) -> None:
    world = World()
    world.outcomes = [CANCELLED]
    planned = plan([2, 1], auto=None, width=1)
    state, _ = drive(tmp_path, planned, Queue(world))
    assert (state.finished, len(world.started)) == (JobState.CANCELLED, 1), "neither this round nor another"
    assert say(state.stop_reason) == "its job was cancelled: cancelled by root"
    state, _ = drive(tmp_path, planned, Queue(world), epoch=2)
    assert (state.finished, len(world.started)) == (JobState.SUCCEEDED, 4)


def test_of_jobs_side_by_side_only_the_cancelled_one_ends(tmp_path: Path) -> None:
    world = World()
    world.width, world.outcomes = 2, [CANCELLED]
    planned = plan([1, 1, 1], auto=None, width=2)
    state, _ = drive(tmp_path, planned, Queue(world))
    assert len(world.started) == 3, "it was not submitted again, and the others were not stopped"
    assert sorted(str(state.outcome(ref)[0]) for ref in state.rounds) == ["CANCELLED", "SUCCEEDED", "SUCCEEDED"]
    state, _ = drive(tmp_path, planned, Queue(world), epoch=2)
    assert (state.finished, len(world.started)) == (JobState.SUCCEEDED, 4)


def test_a_job_that_waits_is_pending_with_its_reason(tmp_path: Path) -> None:
    planned = plan([1], auto=None, width=1)
    state, watching = drive(tmp_path, planned, Queue(World(), waits=["in the queue", "Priority", "Priority"]))
    assert state.finished is JobState.SUCCEEDED
    assert watching.seen == [("PENDING", "in the queue"), ("PENDING", "Priority"), ("RUNNING", "")]


def test_a_host_that_is_gone_does_not_hide_that_it_was_lost(tmp_path: Path) -> None:
    world = World()
    world.outcomes = [Ended(JobState.LOST, as_reason("node2: no contact for 120 s"))]
    planned = plan([1], auto=None, width=1)
    assert planned.retries > 0
    state, _ = drive(tmp_path, planned, Queue(world, refuse_from=2))
    why = "node2: no contact for 120 s; then it could not be tried again: node2 cannot be reached: it does not answer"
    found, said = state.case_outcome(0)
    assert found is JobState.LOST and say(said).startswith(why), say(said)
