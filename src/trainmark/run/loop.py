"""The loop itself: one round at a time, each attempt written down before it starts and after it ends."""

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
_HARSHNESS: tuple[How | None, ...] = (None, "stop", "kill", "destroy")


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
    ) -> None:
        self._run, self._plan, self._state, self._launcher = run, plan, state, launcher
        self._writer, self._epoch, self._switch, self._preflight = writer, epoch, switch, preflight
        self._view, self._renew, self._judge, self._clock = view, renew, judge, clock

    def go(self) -> JobState:
        """Until every round is over or somebody asked to stop. Returns the run's state."""
        self._settle_open_attempt()
        while not self._switch.level():
            ref = self._state.next_round()
            if ref is None:
                break
            case = self._plan.cases[ref.case]
            if self._state.is_undecided(ref):
                self._decide(case, ref.case)
                continue
            unmet = self._preflight(case)
            if unmet is not None:
                self._record(journal.SKIPPED, case=ref.case, reason=unmet)
                self._view.ended(case, ref, Ended(JobState.SKIPPED, unmet))
                continue
            self._attempt(case, ref)
        if self._switch.level() and self._state.unfinished():
            self._record(journal.STOP, reason=self._switch.reason)
        final = self._state.final()
        self._record(journal.FINISHED, state=final)
        return final

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
        self._end(case, ref, number, self._follow(job, case))

    def _settle_open_attempt(self) -> None:
        """What an earlier controller had begun: follow it if its agent lives, else write down how it ended."""
        found = self._state.open_attempt()
        if found is None:
            return
        ref, attempt = found
        case = self._plan.cases[ref.case]
        job = self._launcher.find(self._run.attempt(case, ref, attempt.number), attempt.token)
        if job is None:
            self._end(case, ref, attempt.number, Ended(JobState.LOST, "the controller ended before the agent began"))
            return
        self._view.note(
            f"following attempt {attempt.number} of {case.case} round {ref.round}, begun by an earlier controller"
        )
        self._launcher.adopt(job, self._epoch)
        self._end(case, ref, attempt.number, self._follow(job, case))

    def _follow(self, job: Job, case: CasePlan) -> Ended:
        """Waits for the end of an attempt, passing on stop requests and guarding its last deadline."""
        allowed = case.deadlines.total + case.deadlines.stop + AGENT_GRACE_SECONDS
        late = self._clock() + allowed
        asked: How | None = None
        waits_for = ""
        stop_by = float("inf")
        while True:
            ended = self._launcher.poll([job], TICK_SECONDS)[job.handle]
            if ended.state.ended:
                self._launcher.collect(job)
                return ended
            self._renew()
            self._view.tick(job.attempt_dir)
            now = self._clock()
            if ended.state is JobState.PENDING:
                # Time in a queue is not the case's; the launcher has a deadline for it.
                late = now + allowed
                if ended.reason != waits_for:
                    waits_for = ended.reason
                    self._view.note(f"waiting: {waits_for}")
            if asked == "destroy" and now > stop_by:
                return Ended(JobState.LOST, "the agent could not be ended; it is stuck in the kernel")
            wanted = self._wanted(now > late, now > stop_by)
            if wanted is not None and _HARSHNESS.index(wanted) > _HARSHNESS.index(asked):
                reason = self._switch.reason or "the agent is past all its deadlines"
                self._launcher.cancel(job, self._epoch, reason, wanted)
                asked, stop_by = wanted, now + case.deadlines.stop + AGENT_GRACE_SECONDS

    def _wanted(self, late: bool, stuck: bool) -> How | None:
        if stuck:
            return "destroy"
        level = 2 if late else self._switch.level()
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

    def _record(self, kind: str, **fields: object) -> None:
        self._state.apply(self._writer.append(kind, **fields))
