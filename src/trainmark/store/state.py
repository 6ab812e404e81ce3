"""Where a run stands: a pure function of its plan and its journal, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import msgspec

from trainmark.errors import BAD_INPUT
from trainmark.plan.records import Plan, RoundRef
from trainmark.reasons import Reason, as_reason, reason
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.journal import Record

# Ends that say nothing about the case: the round gets another attempt, and after `resume` a few more.
RETRIED = (JobState.LOST, JobState.PREEMPTED, JobState.CANCELLED)
RETRIED_KINDS = ("port", "agent", "disk", "submit")
# The kind of a failure that is somebody's will: whoever owns the machines has cancelled the job.
CANCELLED_KIND = "cancelled"


class Attempt(msgspec.Struct):
    """One try at a round; numbered from 1, never overwritten."""

    number: int
    token: str
    handle: str | None = None
    state: JobState = JobState.PENDING
    reason: Reason | None = None
    failure: dict[str, Any] | None = None
    # What it measured, where the number of rounds depends on it.
    speed: float | None = None
    # How its loss lies to the reference band.
    band: Reason | str = ""
    # Of its nodes' results.
    digest: str | None = None
    # It failed when its training was over: it has a measurement, and its state says what became of the rest.
    trained: bool = False

    @property
    def retried(self) -> bool:
        kind = (self.failure or {}).get("kind")
        return self.state in RETRIED or (self.state is JobState.FAILED and kind in RETRIED_KINDS)

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled it through the site's scheduler: only `resume` tries it again."""
        return self.state is JobState.CANCELLED and (self.failure or {}).get("kind") == CANCELLED_KIND

    @property
    def crashed(self) -> bool:
        """Whether it ended by a fault of its own, which for most rounds is a result. Bad input is none: it would be as
        bad the next time."""
        refused = (self.failure or {}).get("exit") == BAD_INPUT
        return self.state in (JobState.FAILED, JobState.TIMEOUT) and not self.retried and not refused


class Round(msgspec.Struct):
    """One round: its attempts, and how many of them the machine spoiled since the present controller began."""

    ref: RoundRef
    attempts: list[Attempt] = []
    skipped: Reason | None = None
    spoiled: int = 0
    # Of these, how many were its own crashes.
    crashed: int = 0
    # Whether somebody cancelled its job since the present controller began.
    cancelled: bool = False

    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None


class RunState:
    """All rounds of a run. Records are applied in order; the loop asks for the next thing to do."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rounds = {ref: Round(ref, []) for ref in plan.order}
        self._of_case: dict[int, list[RoundRef]] = {}
        for ref in self.rounds:
            self._of_case.setdefault(ref.case, []).append(ref)
        self.finished: JobState | None = None
        self.stop_reason: Reason | None = None
        # Cases whose pilot has decided: how many rounds there are in all, and why.
        self.enough: dict[int, tuple[int, Reason | None]] = {}
        # All blocks before this one are over, and stay so until another controller begins.
        self._block = 0

    @classmethod
    def replay(cls, plan: Plan, records: Iterable[Record]) -> RunState:
        state = cls(plan)
        for record in records:
            state.apply(record)
        return state

    def apply(self, record: Record) -> None:
        if record.k == journal.OWNER:
            # A new controller goes on: what stopped the last one no longer holds.
            self.finished, self.stop_reason, self._block = None, None, 0
            # Data that was missing may be there now, a full disk may have room.
            for item in self.rounds.values():
                item.skipped, item.spoiled, item.crashed, item.cancelled = None, 0, 0, False
        elif record.k == journal.STOP:
            self.stop_reason = as_reason(record.reason) or reason("stopped")
        elif record.k == journal.FINISHED:
            self.finished = record.state or JobState.FAILED
        elif record.k == journal.SKIPPED:
            for ref in self.rounds:
                if ref.case == record.case and not self.is_over(ref):
                    self.rounds[ref].skipped = as_reason(record.reason) or reason("skipped")
        elif record.k == journal.ENOUGH and record.case is not None and record.round is not None:
            self.enough[record.case] = record.round, as_reason(record.reason)
        else:
            self._apply_attempt(record)

    def _apply_attempt(self, record: Record) -> None:
        ref = RoundRef(record.case if record.case is not None else -1, record.round or 0)
        if ref not in self.rounds:
            return
        attempts = self.rounds[ref].attempts
        if record.k == journal.ATTEMPT:
            self.rounds[ref].skipped = None
            attempts.append(Attempt(record.attempt or len(attempts) + 1, record.token or ""))
            return
        for attempt in attempts:
            if attempt.number == record.attempt:
                if record.k == journal.SUBMITTED:
                    attempt.handle, attempt.state = record.handle, JobState.RUNNING
                elif record.k == journal.WAITING:
                    attempt.state, attempt.reason = JobState.PENDING, as_reason(record.reason)
                elif record.k == journal.BEGAN:
                    attempt.state, attempt.reason = JobState.RUNNING, None
                elif record.k == journal.ENDED:
                    attempt.state = record.state or JobState.LOST
                    attempt.reason = as_reason(record.reason)
                    attempt.failure, attempt.speed, attempt.band = record.failure, record.speed, record.band or ""
                    attempt.digest = record.digest
                    attempt.trained = record.trained
                    crashed = self._restarts(ref) > 0 and attempt.crashed
                    self.rounds[ref].spoiled += self._retried(attempt) or crashed
                    self.rounds[ref].crashed += crashed
                    self.rounds[ref].cancelled |= attempt.cancelled

    def refs(self, case: int) -> list[RoundRef]:
        """The rounds of a case, in the plan's order."""
        return self._of_case.get(case, [])

    def open_attempts(self) -> list[tuple[RoundRef, Attempt]]:
        """The attempts a controller had begun and not seen the end of."""
        lasts = [(ref, item.last()) for ref, item in self.rounds.items()]
        return [(ref, last) for ref, last in lasts if last is not None and not last.state.ended]

    def in_queue(self) -> bool:
        """Whether whatever was begun and has not ended waits for a scheduler."""
        begun = [attempt for _, attempt in self.open_attempts()]
        return bool(begun) and all(one.state is JobState.PENDING and one.reason is not None for one in begun)

    def next_rounds(self) -> list[RoundRef]:
        """The rounds of the first block that is not over, in the plan's order; none when all are over."""
        while self._block < len(self.plan.blocks):
            left = [ref for ref in self.plan.blocks[self._block] if not self.is_over(ref)]
            if left:
                return left
            self._block += 1
        return []

    def blocks_over(self) -> int:
        """How many blocks, from the first on, need nothing more."""
        self.next_rounds()
        return self._block

    def next_round(self) -> RoundRef | None:
        """The next round to try, in the plan's order; None when all are over."""
        return next(iter(self.next_rounds()), None)

    def waiting(self, busy: Set[RoundRef]) -> list[RoundRef]:
        """Rounds that are neither over nor among those that run, in the plan's order."""
        return [ref for ref in self.plan.order if ref not in busy and not self.is_over(ref)]

    def next_attempt(self, ref: RoundRef) -> int:
        last = self.rounds[ref].last()
        return last.number + 1 if last else 1

    def is_over(self, ref: RoundRef) -> bool:
        """Whether a round needs no further attempt."""
        item = self.rounds[ref]
        if item.skipped is not None or self.is_spare(ref):
            return True
        last = item.last()
        if last is None or not last.state.ended:
            return False
        if item.cancelled:
            return True
        if last.crashed and self._restarts(ref):
            return item.crashed > self._restarts(ref)
        return not self._retried(last) or item.spoiled - item.crashed > self.plan.retries

    def _restarts(self, ref: RoundRef) -> int:
        return self.plan.cases[ref.case].restarts

    def _retried(self, attempt: Attempt) -> bool:
        killed = attempt.state is JobState.FAILED and (attempt.failure or {}).get("kind") == "signal"
        return attempt.retried or (self.plan.recover and killed)

    def is_spare(self, ref: RoundRef) -> bool:
        """Whether a round was planned in case it would be needed, and is not."""
        return ref.case in self.enough and ref.round > self.enough[ref.case][0]

    def is_undecided(self, ref: RoundRef) -> bool:
        """Whether it is up to the pilot, which is over, if this round is needed."""
        auto = self.plan.cases[ref.case].auto
        return auto is not None and ref.round > auto.pilot and ref.case not in self.enough

    def pilot_speeds(self, case: int) -> list[float]:
        """Speeds of the pilot's rounds that have one."""
        auto = self.plan.cases[case].auto
        counted = [attempt.speed for ref, attempt in self.counted(case) if auto is None or ref.round <= auto.pilot]
        return [speed for speed in counted if speed is not None]

    def unfinished(self) -> bool:
        """Whether anything was not done to its end, be it that somebody cancelled it."""
        lasts = [item.last() for item in self.rounds.values()]
        return self.next_round() is not None or any(last and last.state is JobState.CANCELLED for last in lasts)

    def outcome(self, ref: RoundRef) -> tuple[JobState, Reason | None]:
        """State and reason of a round as a user sees it."""
        item = self.rounds[ref]
        if self.is_spare(ref):
            return JobState.SKIPPED, self.enough[ref.case][1]
        if item.skipped is not None:
            return JobState.SKIPPED, item.skipped
        last = item.last()
        return (last.state, last.reason) if last else (JobState.PENDING, None)

    def case_outcome(self, case: int) -> tuple[JobState, Reason | None]:
        """The worst of a case's rounds: one bad round makes a case that cannot be trusted whole."""
        outcomes = [self.outcome(ref) for ref in self.refs(case) if not self.is_spare(ref)]
        state, why = min(outcomes, key=lambda outcome: _SEVERITY.index(outcome[0]))
        if state is JobState.SUCCEEDED and case in self.enough:
            why = self.enough[case][1]
        return state, why

    def counted(self, case: int) -> list[tuple[RoundRef, Attempt]]:
        """The attempts that count for a case: at most one per round, the succeeded one, or one that failed when its
        training was over."""
        found = []
        for ref in sorted(self.refs(case)):
            last = self.rounds[ref].last()
            if last is not None and (last.state is JobState.SUCCEEDED or last.trained):
                found.append((ref, last))
        return found

    def final(self) -> JobState:
        """The state of the run when nothing is left to do."""
        states = {self.case_outcome(index)[0] for index in range(len(self.plan.cases))}
        if self.stop_reason is not None and self.unfinished():
            return JobState.CANCELLED
        if states <= {JobState.SUCCEEDED}:
            return JobState.SUCCEEDED
        return JobState.SKIPPED if states <= {JobState.SUCCEEDED, JobState.SKIPPED} else JobState.FAILED


_SEVERITY = (
    JobState.INVALID,
    JobState.FAILED,
    JobState.TIMEOUT,
    JobState.LOST,
    JobState.PREEMPTED,
    JobState.CANCELLED,
    JobState.RUNNING,
    JobState.PENDING,
    JobState.SKIPPED,
    JobState.SUCCEEDED,
)
