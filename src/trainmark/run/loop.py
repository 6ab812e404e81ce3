"""The loop itself: round after round, each attempt written down before it starts and after it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.errors import SiteError
from trainmark.launch.protocol import AttemptSpec, Ended, How, StartedAttempt
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason, as_reason, reason
from trainmark.run.judge import Judged, enough, has_trained
from trainmark.spec.states import JobState
from trainmark.store import digests, journal
from trainmark.store.rundir import RunDir
from trainmark.store.state import CANCELLED_KIND, Attempt, RunState

if TYPE_CHECKING:
    from trainmark.launch.protocol import Launcher
    from trainmark.run.observers import Observer
    from trainmark.run.stop import RunSwitch

# How often the loop looks for a stop request and shows progress while an attempt runs.
TICK_SECONDS = 0.5
# A round that the machine spoiled rests before its next attempt where others can go on meanwhile.
REST_SECONDS, MOST_REST_SECONDS = 1.0, 60.0
# An agent keeps its own deadlines; one that is later than this is no longer trusted to.
AGENT_GRACE_SECONDS = 30.0
_HARSHNESS: tuple[How | None, ...] = (None, "stop", "kill", "destroy")


class Following:
    """What the loop knows of an attempt besides what the launcher says."""

    def __init__(self, job: StartedAttempt, case: CasePlan, ref: RoundRef, attempt: int, now: float) -> None:
        self.job, self.case, self.ref, self.attempt = job, case, ref, attempt
        self.hosts = {node.host for node in case.nodes if node.host}
        self._allowed = case.deadlines.total + case.deadlines.stop + AGENT_GRACE_SECONDS
        self._late = now + self._allowed
        self._asked: How | None = None
        self._stop_by = float("inf")
        # What it waits for in a queue; None when it has begun.
        self.waits_for: Reason | str | None = job.waits_for

    def has_news(self, ended: Ended, now: float) -> bool:
        """Whether it waits for something else than before, or has begun. Time in a queue is not the case's, and the
        launcher has a deadline for it."""
        waits_for = ended.reason if ended.state is JobState.PENDING else None
        if waits_for:
            self._late = now + self._allowed
        before, self.waits_for = self.waits_for, waits_for
        return waits_for != before

    @property
    def asked(self) -> bool:
        """Whether this controller wanted its end."""
        return self._asked is not None

    def stuck(self, now: float) -> bool:
        """Whether even the last means did not end it."""
        return self._asked == "destroy" and now > self._stop_by

    def order(self, now: float, level: int) -> How | None:
        """What it must be told now, 0 to 2 saying how much it shall end; None when it was told already, or nothing is
        wanted."""
        wanted = self._wanted(now, level)
        if wanted is None or _HARSHNESS.index(wanted) <= _HARSHNESS.index(self._asked):
            return None
        self._asked, self._stop_by = wanted, now + self.case.deadlines.stop + AGENT_GRACE_SECONDS
        return wanted

    def _wanted(self, now: float, level: int) -> How | None:
        if now > self._stop_by:
            return "destroy"
        hows: dict[int, How | None] = {0: None, 1: "stop", 2: "kill"}
        return hows[2 if now > self._late else level]


class Loop:
    """Drives a run to its end. All it knows is in `state`, and all of `state` is in the journal."""

    def __init__(
        self,
        run: RunDir,
        plan: Plan,
        state: RunState,
        launcher: Launcher,
        writer: journal.Journal,
        epoch: int,
        switch: RunSwitch,
        preflight: Callable[[CasePlan], Reason | None],
        observer: Observer,
        renew: Callable[[], None],
        judge: Callable[[CasePlan, RoundRef, Path], Judged],
        clock: Callable[[], float] = time.monotonic,
        ending: Callable[[], Reason | None] = lambda: None,
        blocks: int | None = None,
    ) -> None:
        """`ending`: why no further round is needed; None while some are. `blocks`: only the first so many blocks."""
        self._run, self._plan, self._state, self._launcher = run, plan, state, launcher
        self._writer, self._epoch, self._switch, self._preflight = writer, epoch, switch, preflight
        self._observer, self._renew, self._judge, self._clock = observer, renew, judge, clock
        self._ending, self._blocks = ending, blocks
        # Attempts under way: one, unless the plan lets rounds of a block run side by side.
        self._going: list[Following] = []
        self._rests: dict[RoundRef, float] = {}
        # When this controller began, when it began each attempt, and how long the longest of each case took.
        self._began = clock()
        self._starts: dict[RoundRef, float] = {}
        self._lasted: dict[int, float] = {}

    def go(self) -> JobState:
        """Until every round is over or somebody asked to stop. Returns the run's state: PENDING where the rest is left
        for another time."""
        self._take_up_open_attempts()
        while True:
            needless = None if self._switch.level() else self._ending()
            if needless:
                self._skip_the_rest(needless)
            else:
                self._start_more()
            if self._going:
                self._look(needless)
            elif self._switch.level() or self._state.next_round() is None:
                break
            elif self._is_beyond():
                return JobState.PENDING
            else:
                # All that is left rests.
                self._launcher.poll([], TICK_SECONDS)
                self._renew()
        if self._switch.level() and self._state.unfinished():
            self._record(journal.STOP, reason=self._switch.reason)
        final = self._state.final()
        self._record(journal.FINISHED, state=final)
        return final

    def _is_beyond(self) -> bool:
        """Whether only blocks are left that are not to be run now."""
        return self._blocks is not None and self._state.blocks_over() >= self._blocks

    def _start_more(self) -> None:
        while len(self._going) < self._plan.width and not self._switch.level() and not self._is_beyond():
            ref = self._next()
            if ref is None:
                return
            case = self._plan.cases[ref.case]
            if self._state.is_undecided(ref):
                if any(one.ref.case == ref.case for one in self._going):
                    return
                self._decide(case, ref.case)
                continue
            if self._is_out_of_time(case, ref):
                continue
            unmet = self._preflight(case) or self._hopeless(case)
            if unmet is not None:
                self._record(journal.SKIPPED, case=ref.case, reason=unmet)
                self._observer.ended(case, ref, Ended(JobState.SKIPPED, unmet))
                continue
            self._attempt(case, ref)

    def _is_out_of_time(self, case: CasePlan, ref: RoundRef) -> bool:
        """A plan with a time for the whole run gives up further rounds of a case that has one, as far as they would not
        end in time; that is written down as if a pilot had decided it."""
        done = len(self._state.counted(ref.case))
        if self._plan.within is None or not done or self._state.next_attempt(ref) > 1:
            return False
        passed = self._clock() - self._began
        if passed + self._lasted.get(ref.case, 0.0) <= self._plan.within:
            return False
        why = reason("out-of-time", rounds=done, wanted=case.repeat, seconds=f"{self._plan.within:g}")
        self._record(journal.ENOUGH, case=ref.case, round=ref.round - 1, reason=why)
        self._observer.note(reason("of-case", case=case.case, why=why))
        return True

    def _next(self) -> RoundRef | None:
        """A round of the first block that is not over, if its hosts are free; among several, the one spoiled least."""
        going = {one.ref for one in self._going}
        free = [ref for ref in self._state.next_rounds() if ref not in going and self._has_room(ref)]
        if self._plan.width == 1:
            return free[0] if free else None
        now = self._clock()
        rested = [ref for ref in free if self._rests.get(ref, 0.0) <= now]
        return min(rested, key=lambda ref: self._state.rounds[ref].spoiled, default=None)

    def _has_room(self, ref: RoundRef) -> bool:
        if self._plan.sharing:
            return True
        busy = {host for one in self._going for host in one.hosts}
        return not any(node.host in busy for node in self._plan.cases[ref.case].nodes)

    def _hopeless(self, case: CasePlan) -> Reason | None:
        """Of a diagnosis: a command that failed once in each of its modes would fail in the other blocks, too."""
        if case.diagnostic is None:
            return None
        modes = [
            [self._state.rounds[ref].last() for ref in self._state.refs(index)]
            for index, other in enumerate(self._plan.cases)
            if other.diagnostic is not None and other.diagnostic.of == case.diagnostic.of
        ]
        tried = [[last for last in lasts if last is not None and last.state.ended] for lasts in modes]
        if all(lasts and all(last.crashed for last in lasts) for lasts in tried):
            return reason("diagnosed-command-fails")
        return None

    def _skip_the_rest(self, why: Reason) -> None:
        for ref in self._state.waiting({one.ref for one in self._going}):
            self._record(journal.SKIPPED, case=ref.case, reason=why)
            self._observer.ended(self._plan.cases[ref.case], ref, Ended(JobState.SKIPPED, why))

    def _attempt(self, case: CasePlan, ref: RoundRef) -> None:
        number, token = self._state.next_attempt(ref), os.urandom(16).hex()
        spec = AttemptSpec(
            run=self._run.id,
            run_dir=self._run.path,
            attempt_dir=self._run.attempt(case, ref, number),
            case=case,
            round=ref.round,
            attempt=number,
            token=token,
            key=os.urandom(16).hex(),
            epoch=self._epoch,
            # Rounds differ in their seed and the same round of another run of this plan does not.
            seed=self._plan.seed + ref.round - 1,
        )
        before = self._state.rounds[ref].last()
        request = self._launcher.render(spec, self._plan.site)
        self._record(journal.ATTEMPT, case=ref.case, round=ref.round, attempt=number, token=token)
        self._observer.started(case, ref, number)
        self._starts[ref] = self._clock()
        try:
            job = self._launcher.submit(request)
        except SiteError as error:
            failure: dict[str, Any] = {"rank": None, "kind": "submit", "last_lines": []}
            ended = Ended(JobState.FAILED, as_reason(str(error)), failure)
            if before is not None and before.state is JobState.LOST:
                # What was lost is often what cannot be reached now: that is the cause, and the rest follows from it.
                ended = Ended(JobState.LOST, reason("lost-and-not-begun", lost=before.reason, why=str(error)), failure)
            self._end(case, ref, number, ended)
            return
        self._record(journal.SUBMITTED, case=ref.case, round=ref.round, attempt=number, handle=job.handle)
        self._going.append(Following(job, case, ref, number, self._clock()))
        if job.waits_for:
            self._tell_of_queue(self._going[-1])

    def _take_up_open_attempts(self) -> None:
        """What an earlier controller had begun: follow it if its agent lives, else write down how it ended."""
        for ref, attempt in self._state.open_attempts():
            self._take_up(self._plan.cases[ref.case], ref, attempt)

    def _take_up(self, case: CasePlan, ref: RoundRef, attempt: Attempt) -> None:
        job = self._launcher.find(self._run.attempt(case, ref, attempt.number), attempt.token)
        if job is None:
            self._end(case, ref, attempt.number, Ended(JobState.LOST, reason("agent-never-began")))
            return
        self._observer.note(reason("following-attempt", attempt=attempt.number, case=case.case, round=ref.round))
        self._launcher.adopt(job, self._epoch)
        self._going.append(Following(job, case, ref, attempt.number, self._clock()))

    def _look(self, needless: Reason | None) -> None:
        """Waits a moment for all attempts under way; writes down those that ended, passes on requests to stop, and
        guards last deadlines."""
        states = self._launcher.poll([one.job for one in self._going], TICK_SECONDS)
        for one in list(self._going):
            ended = states[one.job.handle]
            if ended.state.ended:
                self._launcher.collect(one.job)
            else:
                ended = self._guard(one, ended, needless)
            if ended.state.ended:
                self._going.remove(one)
                self._end(one.case, one.ref, one.attempt, ended)
                self._obey(one, ended)
        if self._going:
            self._renew()
            self._observer.tick(self._going[-1].job.attempt_dir)

    def _guard(self, one: Following, ended: Ended, needless: Reason | None) -> Ended:
        now = self._clock()
        if one.has_news(ended, now):
            self._tell_of_queue(one)
        if one.stuck(now):
            return Ended(JobState.LOST, reason("agent-stuck"))
        # One that still waits in a queue is not waited for when it is no longer needed.
        order = one.order(now, self._switch.level() or int(bool(needless) and ended.state is JobState.PENDING))
        if order is not None:
            why = self._switch.reason or needless or reason("past-all-deadlines")
            self._launcher.cancel(one.job, self._epoch, why, order)
        return ended

    def _tell_of_queue(self, one: Following) -> None:
        """Writes down what an attempt waits for, or that it has begun."""
        waits_for = as_reason(one.waits_for)
        where = {"case": one.ref.case, "round": one.ref.round, "attempt": one.attempt}
        if waits_for is None:
            self._record(journal.BEGAN, **where)
        else:
            self._record(journal.WAITING, **where, reason=waits_for)
            self._observer.note(reason("waiting", why=waits_for))
        self._observer.waiting(one.ref, waits_for)

    def _obey(self, one: Following, ended: Ended) -> None:
        """Whoever cancelled the job of a run meant the run. Of several jobs side by side, the others go on."""
        cancelled = ended.state is JobState.CANCELLED and (ended.failure or {}).get("kind") == CANCELLED_KIND
        if cancelled and not one.asked and self._plan.width == 1:
            self._observer.note(reason("run-cancelled-outside", why=ended.reason))
            self._switch.end(reason("cancelled-outside", why=ended.reason))

    def _decide(self, case: CasePlan, index: int) -> None:
        """A pilot is over: how many rounds its case gets is written down once, and holds for every controller."""
        found = enough(case, self._state.pilot_speeds(index))
        self._record(journal.ENOUGH, case=index, round=found.rounds, reason=found.reason)
        self._observer.note(reason("of-case", case=case.case, why=found.reason))

    def _end(self, case: CasePlan, ref: RoundRef, attempt: int, ended: Ended) -> None:
        folder = self._run.attempt(case, ref, attempt)
        trained = ended.state in (JobState.FAILED, JobState.TIMEOUT) and has_trained(case, folder)
        if trained:
            ended = Ended(ended.state, reason("failed-after-training", why=ended.reason), ended.failure)
        judged = self._judge(case, ref, folder) if trained or ended.state is JobState.SUCCEEDED else Judged()
        if judged.fault:
            ended, trained = Ended(JobState.INVALID, judged.fault), False
        self._record(
            journal.ENDED,
            case=ref.case,
            round=ref.round,
            attempt=attempt,
            state=ended.state,
            reason=ended.reason,
            failure=ended.failure,
            speed=judged.speed,
            band=judged.band,
            digest=digests.attempt_digest(self._run.attempt(case, ref, attempt)),
            trained=trained,
        )
        self._observer.ended(case, ref, ended)
        if ref in self._starts:
            lasted = self._clock() - self._starts.pop(ref)
            self._lasted[ref.case] = max(lasted, self._lasted.get(ref.case, 0.0))
        rest = min(MOST_REST_SECONDS, REST_SECONDS * 2.0 ** min(self._state.rounds[ref].spoiled, 10))
        self._rests[ref] = self._clock() + rest

    def _record(self, kind: str, **fields: object) -> None:
        self._state.apply(self._writer.append(kind, **fields))
