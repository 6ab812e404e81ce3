"""Deadlines: which one has passed, and when the steps of stopping the ranks are due. No process is touched here."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from trainmark.agent.reasons import Reason, reason


class RankProgress(NamedTuple):
    """What is known of one running rank; `quiet` is seconds since its last event (or since its start)."""

    rank: int
    events: int
    started: bool
    step: int
    quiet: float


class Overdue(NamedTuple):
    """A deadline that has passed: its kind, the rank that caused it, and why."""

    kind: str
    rank: int | None
    reason: Reason


def overdue(
    uptime: float, deadlines: Mapping[str, float], probe: bool, running: Sequence[RankProgress]
) -> Overdue | None:
    """The deadline that has passed, or None. `uptime` is seconds since the ranks were started."""
    hang = _start(uptime, deadlines["start"], running) or _step(deadlines["step"], running) if probe else None
    if hang is None and uptime > deadlines["total"]:
        hang = Overdue("total", None, reason("round-too-long", seconds=deadlines["total"]))
    return hang


def _start(uptime: float, limit: float, running: Sequence[RankProgress]) -> Overdue | None:
    """Ranks wait for each other before training: the one with the least progress is named."""
    late = [seen for seen in running if not seen.started]
    if not late or uptime <= limit:
        return None
    culprit = min(late, key=lambda seen: (seen.events, -seen.quiet, seen.rank))
    code = "rank-not-training" if culprit.events else "rank-not-training-silent"
    return Overdue("hang-start", culprit.rank, reason(code, rank=culprit.rank, seconds=limit))


def _step(limit: float, running: Sequence[RankProgress]) -> Overdue | None:
    """One hung rank silences all that wait for it: of the silent ones, the one with the fewest steps is named."""
    training = [seen for seen in running if seen.started]
    if not any(seen.quiet > limit for seen in training):
        return None
    silent = [seen for seen in training if seen.quiet > limit / 2]
    culprit = min(silent, key=lambda seen: (seen.step, -seen.quiet, seen.rank))
    why = reason("rank-hung-in-first-step", rank=culprit.rank, seconds=limit)
    if culprit.step:
        why = reason("rank-hung", rank=culprit.rank, seconds=limit, step=culprit.step)
    return Overdue("hang-step", culprit.rank, why)


class Stopping:
    """Stopping in steps: time to end alone, SIGTERM, time to obey, SIGKILL. Says when which step is due."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._ask_at: float | None = None
        self._kill_at: float | None = None
        self.asked = False  # SIGTERM was sent: what ends from now on ended because of it

    @property
    def begun(self) -> bool:
        return self._ask_at is not None

    def begin(self, now: float, delay: float = 0.0) -> None:
        """SIGTERM is due after `delay`, unless an earlier call made it due sooner."""
        if self._ask_at is None or now + delay < self._ask_at:
            self._ask_at = now + delay
            self._kill_at = self._ask_at + self._patience

    def hurry(self, now: float) -> None:
        """SIGKILL is due now."""
        self.begin(now)
        self._kill_at = now

    def due(self, now: float) -> str | None:
        """'kill', 'ask' (once) or None."""
        if self._kill_at is not None and now >= self._kill_at:
            return "kill"
        if self._ask_at is not None and now >= self._ask_at and not self.asked:
            self.asked = True
            return "ask"
        return None

    def next(self) -> float | None:
        """When the next step is due."""
        return self._kill_at if self.asked else self._ask_at
