"""One attempt under way: how long it may still take, and when it has to be asked, or made, to end."""

from __future__ import annotations

from trainmark.launch.protocol import Ended, How, StartedAttempt
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason
from trainmark.spec.states import JobState

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
        self._waits_for: Reason | str | None = None

    def waits(self, ended: Ended, now: float) -> Reason | str | None:
        """News of what it waits for, if it has not begun: time in a queue is not the case's, and the launcher has a
        deadline for it."""
        if ended.state is not JobState.PENDING:
            return None
        self._late = now + self._allowed
        news = ended.reason if ended.reason != self._waits_for else None
        self._waits_for = ended.reason
        return news

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
