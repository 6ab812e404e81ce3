"""The loop is killed at every kind of moment, over and over: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.plans import plan
from trainmark.launch.protocol import AttemptSpec, Ended, Finding, How, NodeStart, Request, StartedAttempt
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import as_reason
from trainmark.run.judge import Judged
from trainmark.run.loop import Loop
from trainmark.spec.rules import RepeatAuto
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState


class Killed(BaseException):
    """The controller is gone, as by kill −9."""


class Agent:
    """An agent of the fake world: it outlives controllers and obeys only the highest epoch."""

    def __init__(self, token: str, epoch: int, ends: Ended, duration: float, now: float, hosts: set[str]) -> None:
        self.hosts = hosts
        self.token, self.epoch, self.ends, self.due = token, epoch, ends, now + duration
        self.result: Ended | None = None

    def look(self, now: float) -> None:
        if self.result is None and now >= self.due:
            self.result = self.ends


class World:
    """Time, agents, and the moment at which the present controller dies."""

    def __init__(self) -> None:
        self.now = 0.0
        self.agents: dict[str, Agent] = {}
        self.started: list[str] = []
        self.fuse: int | None = None
        self.width = 1
        self.outcomes: list[Ended] = []

    def moment(self) -> None:
        """Called before and after everything a controller does."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise Killed

    def running(self) -> list[Agent]:
        for agent in self.agents.values():
            agent.look(self.now)
        return [agent for agent in self.agents.values() if agent.result is None]


class FakeLauncher:
    def __init__(self, world: World) -> None:
        self.world = world

    def check(self, site: Site, plan: Plan | None) -> list[Finding]:
        return []

    def render(self, spec: AttemptSpec, site: Site) -> Request:
        hosts = [node.host for node in spec.case.nodes]
        return Request(spec.attempt_dir, spec.token, tuple(NodeStart(host, spec.attempt_dir, {}) for host in hosts))

    def submit(self, request: Request) -> StartedAttempt:
        world = self.world
        world.moment()
        hosts = {node.host for node in request.nodes}
        assert len(world.running()) < world.width, "more rounds at once than the plan allows"
        assert not any(hosts & agent.hosts for agent in world.running()), "two rounds would disturb each other"
        assert request.token not in world.agents, "an attempt was started twice"
        ends = world.outcomes.pop() if world.outcomes else Ended(JobState.SUCCEEDED)
        world.agents[request.token] = Agent(request.token, 0, ends, 3.0 + len(world.started) % 2, world.now, hosts)
        world.started.append(request.token)
        world.moment()
        return StartedAttempt(f"fake://{request.token}", request.attempt_dir, request.token)

    def find(self, attempt_dir: Path, token: str) -> StartedAttempt | None:
        return StartedAttempt(f"fake://{token}", attempt_dir, token) if token in self.world.agents else None

    def poll(self, jobs: Sequence[StartedAttempt], seconds: float) -> dict[str, Ended]:
        self.world.moment()
        self.world.now += seconds
        self.world.running()
        return {job.handle: self.world.agents[job.token].result or Ended(JobState.RUNNING) for job in jobs}

    def cancel(self, job: StartedAttempt, epoch: int, reason: str, how: How) -> None:
        agent = self.world.agents[job.token]
        if agent.result is None and epoch >= agent.epoch:
            agent.result = Ended(JobState.CANCELLED, as_reason(reason))

    def adopt(self, job: StartedAttempt, epoch: int) -> None:
        self.world.agents[job.token].epoch = epoch

    def collect(self, job: StartedAttempt) -> None:
        self.world.moment()


class DyingJournal(journal.Journal):
    """A real journal whose writer may die just before or just after a record is on disk."""

    world: World

    def append(self, kind: str, **fields: Any) -> journal.Record:
        self.world.moment()
        record = super().append(kind, **fields)
        self.world.moment()
        return record


class Silent:
    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None: ...
    def tick(self, attempt_dir: Path) -> None: ...
    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None: ...
    def note(self, text: str) -> None: ...


def judge(case: CasePlan, ref: RoundRef, attempt_dir: Path) -> Judged:
    """Rounds differ in speed by a few percent, always in the same way."""
    return Judged(speed=100.0 + 2 * (ref.round % 3))


class Switch:
    reason = "stopped by a test"

    def __init__(self, after: float | None, world: World) -> None:
        self._after, self._world = after, world

    def level(self) -> int:
        return int(self._after is not None and self._world.now >= self._after)


OUTCOMES = [
    Ended(JobState.SUCCEEDED),
    Ended(JobState.FAILED, as_reason("rank 0 exited with code 3"), {"kind": "exit"}),
    Ended(JobState.FAILED, as_reason("port taken"), {"kind": "port"}),
    Ended(JobState.LOST, as_reason("agent gone")),
    Ended(JobState.INVALID, as_reason("loss is NaN")),
    Ended(JobState.TIMEOUT, as_reason("hung")),
    Ended(JobState.CANCELLED, as_reason("stopped by a signal")),
]


class Crashes(RuleBasedStateMachine):
    @initialize(
        repeats=st.lists(st.integers(1, 3), min_size=1, max_size=3),
        outcomes=st.lists(st.sampled_from(OUTCOMES)),
        auto=st.none() | st.sampled_from(["1%", "3%", "50%"]),
        width=st.integers(1, 3),
    )
    def begin(self, repeats: list[int], outcomes: list[Ended], auto: str | None, width: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        rule = RepeatAuto(target=auto, pilot=3, min=4, max=6) if auto else None
        self.plan = plan(repeats, auto=rule, width=width)
        self.decisions: dict[int, tuple[int, str]] = {}
        self.world = World()
        self.world.outcomes, self.world.width = outcomes, width
        self.epoch = 0
        self.finished = False

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self._drive(fuse=None)
            state = self._state()
            assert state.next_round() is None and state.finished is not None
            assert state.finished is not JobState.CANCELLED, "nobody asked the last controller to stop"
            assert not self.world.running()
            for index, case in enumerate(self.plan.cases):
                tried = [ref.round for ref, item in state.rounds.items() if ref.case == index and item.attempts]
                wanted = case.repeat if case.auto is None else state.enough[index][0]
                assert sorted(tried) == list(range(1, wanted + 1)), "as many rounds as there should be, and no more"
            shutil.rmtree(self.folder)

    @rule(fuse=st.integers(0, 40))
    def controller_dies(self, fuse: int) -> None:
        with contextlib.suppress(Killed):
            self._drive(fuse)

    @rule(after=st.floats(0, 8))
    def somebody_stops_it(self, after: float) -> None:
        self._drive(fuse=None, stop_after=self.world.now + after)
        assert not self.world.running(), "stopped, but something still runs"

    @rule(seconds=st.floats(0, 5))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds

    @rule()
    def an_agent_is_killed(self) -> None:
        for agent in self.world.running():
            agent.result = Ended(JobState.LOST, as_reason("the agent was gone without a result"))

    @rule()
    def somebody_else_cancels_an_agent(self) -> None:
        for agent in self.world.running():
            agent.result = Ended(JobState.CANCELLED, as_reason("stopped by a signal"))

    @precondition(lambda self: hasattr(self, "folder"))
    @rule(cut=st.integers(1, 30))
    def the_last_line_is_torn(self, cut: int) -> None:
        """Half a record of a dying controller, which nobody had acted on yet."""
        file = self.folder / journal.NAME
        if file.exists():
            with file.open("ab") as out:
                out.write(b'{"k":"ended","epoch":1,"wall":1,"case":0,'[:cut])

    @invariant()
    def nothing_twice(self) -> None:
        if not hasattr(self, "folder"):
            return
        state = self._state()
        for ref, item in state.rounds.items():
            numbers = [attempt.number for attempt in item.attempts]
            assert numbers == list(range(1, len(numbers) + 1)), "attempts are numbered and never overwritten"
            ended = [attempt for attempt in item.attempts if attempt.state is JobState.SUCCEEDED]
            assert len(ended) <= 1, "a round counts once"
            assert len([a for r, a in state.counted(ref.case) if r == ref]) == len(ended)
        for index, decision in state.enough.items():
            assert self.decisions.setdefault(index, decision) == decision, "decided once, for every controller"
        known = {attempt.token for item in state.rounds.values() for attempt in item.attempts}
        assert set(self.world.started) <= known, "something runs that no record tells of"

    def _state(self) -> RunState:
        return RunState.replay(self.plan, journal.read(self.folder).records)

    def _drive(self, fuse: int | None, stop_after: float | None = None) -> None:
        self.epoch += 1
        world = self.world
        world.fuse = None
        writer = DyingJournal(self.folder, self.epoch, contextlib.nullcontext)
        writer.world = world
        state = self._state()
        world.fuse = fuse
        try:
            state.apply(writer.append(journal.OWNER))
            loop = Loop(
                RunDir(self.folder),
                self.plan,
                state,
                FakeLauncher(world),
                writer,
                self.epoch,
                Switch(stop_after, world),
                lambda case: None,
                Silent(),
                lambda: None,
                judge,
                lambda: world.now,
            )
            loop.go()
        finally:
            world.fuse = None
            writer.close()


Crashes.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestCrashes = Crashes.TestCase
