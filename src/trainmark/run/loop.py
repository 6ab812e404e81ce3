"""The loop itself: rounds in order, each attempt written down before it starts and after it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainmark.errors import SiteError
from trainmark.launch import AttemptSpec, Ended, How, Job
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.run.judge import Judged, enough
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState

if TYPE_CHECKING:
    from trainmark.launch.launcher import Launcher
    from trainmark.run.words import Judge, Switch, View, Writer

# How often the loop looks for a stop request and shows progress while an attempt runs.
TICK_SECONDS = 0.5
# An agent keeps its own deadlines; one that is later than this is no longer trusted to.
AGENT_GRACE_SECONDS = 30.0
# A round that the machine spoiled rests before its next attempt when there are others to go on with.
REST_SECONDS, MOST_REST_SECONDS = 1.0, 60.0
_HARSHNESS: tuple[How | None, ...] = (None, "stop", "kill", "destroy")


class _Live:
    """An attempt that is followed, and what was asked of it."""

    def __init__(self, case: CasePlan, ref: RoundRef, number: int, job: Job, now: float) -> None:
        self.case, self.ref, self.number, self.job = case, ref, number, job
        self.allowed = case.deadlines.total + case.deadlines.stop + AGENT_GRACE_SECONDS
        self.late = now + self.allowed
        self.asked: How | None = None
        self.stop_by = float("inf")
        # Why it does not run yet; empty once it does.
        self.waits_for = ""


class Loop:
    """Drives a run to its end. All it knows is in `state`, and all of `state` is in the journal."""

    def __init__(
        self,
        run: RunDir,
        plan: Plan,
        state: RunState,
        launcher: Launcher,
        writer: Writer,
        epoch: int,
        switch: Switch,
        preflight: Callable[[CasePlan], str | None],
        view: View,
        renew: Callable[[], None],
        judge: Judge,
        clock: Callable[[], float] = time.monotonic,
        ending: Callable[[], str] = str,
    ) -> None:
        """`ending`: why no further round is needed; empty while rounds are."""
        self._run, self._plan, self._state, self._launcher = run, plan, state, launcher
        self._writer, self._epoch, self._switch, self._preflight = writer, epoch, switch, preflight
        self._view, self._renew, self._judge, self._clock = view, renew, judge, clock
        self._ending = ending
        self._live: list[_Live] = []
        self._rests: dict[RoundRef, float] = {}

    def go(self) -> JobState:
        """Until every round is over or somebody asked to stop. Returns the run's state."""
        self._settle_open_attempts()
        while True:
            stopping = bool(self._switch.level())
            enough = "" if stopping else self._ending()
            if enough:
                self._skip_the_rest(enough)
            elif not stopping:
                self._fill()
            if self._live:
                self._follow(enough)
            elif stopping or self._state.next_round() is None:
                break
            else:
                # All that is left rests.
                self._launcher.poll([], TICK_SECONDS)
                self._renew()
        if self._switch.level() and self._state.unfinished():
            self._record(journal.STOP, reason=self._switch.reason)
        final = self._state.final()
        self._record(journal.FINISHED, state=final)
        return final

    def _fill(self) -> None:
        """Begins rounds while there are some to begin and places to run them."""
        while len(self._live) < self._plan.concurrent and not self._switch.level():
            ref = self._next()
            if ref is None:
                return
            case = self._plan.cases[ref.case]
            if self._state.is_undecided(ref):
                if any(live.ref.case == ref.case for live in self._live):
                    return
                self._decide(case, ref.case)
                continue
            unmet = self._preflight(case)
            if unmet is not None:
                self._record(journal.SKIPPED, case=ref.case, reason=unmet)
                self._view.ended(case, ref, Ended(JobState.SKIPPED, unmet))
                continue
            self._attempt(case, ref)

    def _next(self) -> RoundRef | None:
        """The next round to begin. Where several run at once, one that was spoiled lets others go first, and rests."""
        busy = {live.ref for live in self._live}
        if self._plan.concurrent == 1:
            return None if busy else self._state.next_round()
        now = self._clock()
        waiting = [ref for ref in self._state.waiting(busy) if self._rests.get(ref, 0.0) <= now]
        return min(waiting, key=lambda ref: self._state.rounds[ref].spoiled, default=None)

    def _skip_the_rest(self, reason: str) -> None:
        for ref in self._state.waiting({live.ref for live in self._live}):
            self._record(journal.SKIPPED, case=ref.case, reason=reason)
            self._view.ended(self._plan.cases[ref.case], ref, Ended(JobState.SKIPPED, reason))

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
            epoch=self._epoch,
            # Rounds differ in their seed and the same round of another run of this plan does not.
            seed=self._plan.seed + ref.round - 1,
        )
        request = self._launcher.render(spec, self._plan.site)
        self._record(journal.ATTEMPT, case=ref.case, round=ref.round, attempt=number, token=token)
        self._view.started(case, ref, number)
        try:
            job = self._launcher.submit(request)
        except SiteError as error:
            failure: dict[str, Any] = {"rank": None, "kind": "submit", "last_lines": []}
            self._end(case, ref, number, Ended(JobState.FAILED, str(error), failure))
            return
        self._record(journal.SUBMITTED, case=ref.case, round=ref.round, attempt=number, handle=job.handle)
        self._live.append(_Live(case, ref, number, job, self._clock()))

    def _settle_open_attempts(self) -> None:
        """What an earlier controller had begun: follow it if its agent lives, else write down how it ended."""
        for ref, attempt in self._state.open_attempts():
            case = self._plan.cases[ref.case]
            job = self._launcher.find(self._run.attempt(case, ref, attempt.number), attempt.token)
            if job is None:
                lost = Ended(JobState.LOST, "the controller ended before the agent began")
                self._end(case, ref, attempt.number, lost)
                continue
            self._view.note(
                f"following attempt {attempt.number} of {case.case} round {ref.round}, begun by an earlier controller"
            )
            self._launcher.adopt(job, self._epoch)
            self._live.append(_Live(case, ref, attempt.number, job, self._clock()))

    def _follow(self, enough: str) -> None:
        """One look at all attempts: those that ended are written down, others are held to requests and deadlines."""
        states = self._launcher.poll([live.job for live in self._live], TICK_SECONDS)
        self._renew()
        for live in list(self._live):
            found = states[live.job.handle]
            if found.state.ended:
                self._launcher.collect(live.job)
            else:
                self._view.tick(live.job.attempt_dir)
                found = self._hold(live, found, enough)
            if found.state.ended:
                self._live.remove(live)
                self._end(live.case, live.ref, live.number, found)

    def _hold(self, live: _Live, found: Ended, enough: str) -> Ended:
        """Passes stop requests on to an attempt and guards its last deadline."""
        now = self._clock()
        if found.state is JobState.PENDING:
            # Time in a queue is not the case's; the launcher has a deadline for it.
            live.late = now + live.allowed
            if found.reason != live.waits_for:
                live.waits_for = found.reason
                self._view.note(f"waiting: {live.waits_for}")
        if live.asked == "destroy" and now > live.stop_by:
            return Ended(JobState.LOST, "the agent could not be ended; it is stuck in the kernel")
        wanted = self._wanted(now > live.late, now > live.stop_by, bool(enough) and found.state is JobState.PENDING)
        if wanted is not None and _HARSHNESS.index(wanted) > _HARSHNESS.index(live.asked):
            reason = self._switch.reason or enough or "the agent is past all its deadlines"
            self._launcher.cancel(live.job, self._epoch, reason, wanted)
            live.asked, live.stop_by = wanted, now + live.case.deadlines.stop + AGENT_GRACE_SECONDS
        return found

    def _wanted(self, late: bool, stuck: bool, needless: bool) -> How | None:
        if stuck:
            return "destroy"
        level = 2 if late else self._switch.level() or int(needless)
        hows: dict[int, How | None] = {0: None, 1: "stop", 2: "kill"}
        return hows[level]

    def _decide(self, case: CasePlan, index: int) -> None:
        """A pilot is over: how many rounds its case gets is written down once, and holds for every controller."""
        found = enough(case, self._state.pilot_speeds(index))
        self._record(journal.ENOUGH, case=index, round=found.rounds, reason=found.reason)
        self._view.note(f"{case.case}: {found.reason}")

    def _end(self, case: CasePlan, ref: RoundRef, attempt: int, ended: Ended) -> None:
        well = ended.state is JobState.SUCCEEDED
        judged = self._judge(case, ref, self._run.attempt(case, ref, attempt)) if well else Judged()
        if judged.fault:
            ended = Ended(JobState.INVALID, judged.fault)
        self._record(
            journal.ENDED,
            case=ref.case,
            round=ref.round,
            attempt=attempt,
            state=ended.state,
            reason=ended.reason,
            failure=ended.failure,
            speed=judged.speed,
            band=judged.band or None,
        )
        self._view.ended(case, ref, ended)
        rest = min(MOST_REST_SECONDS, REST_SECONDS * 2.0 ** min(self._state.rounds[ref].spoiled, 10))
        self._rests[ref] = self._clock() + rest

    def _record(self, kind: str, **fields: object) -> None:
        self._state.apply(self._writer.append(kind, **fields))
