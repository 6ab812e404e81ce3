"""Deadlines and hangs: a pure decision on what is known of the ranks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence


class Seen:
    """What the watch knows of one running rank; `quiet` is seconds since its last event (or since its start)."""

    __slots__ = ("events", "quiet", "rank", "started", "step")

    def __init__(self, rank: int, events: int, started: bool, step: int, quiet: float) -> None:
        self.rank = rank
        self.events = events
        self.started = started
        self.step = step
        self.quiet = quiet


class Hang:
    """A deadline that has passed: which kind, whose, and in words."""

    __slots__ = ("kind", "rank", "reason")

    def __init__(self, kind: str, rank: int | None, reason: str) -> None:
        self.kind = kind
        self.rank = rank
        self.reason = reason


def overdue(uptime: float, deadlines: Mapping[str, float], probe: bool, running: Sequence[Seen]) -> Hang | None:
    """The deadline that has passed, or None. `uptime` is seconds since the ranks were started."""
    hang = _start(uptime, deadlines["start"], running) or _step(deadlines["step"], running) if probe else None
    if hang is None and uptime > deadlines["total"]:
        hang = Hang("total", None, "the round did not end within %s s" % _figure(deadlines["total"]))
    return hang


def _start(uptime: float, limit: float, running: Sequence[Seen]) -> Hang | None:
    """Ranks wait for each other before training: the one that got least far is named."""
    late = [seen for seen in running if not seen.started]
    if not late or uptime <= limit:
        return None
    culprit = min(late, key=lambda seen: (seen.events, -seen.quiet, seen.rank))
    reason = "rank %d did not reach its first step within %s s" % (culprit.rank, _figure(limit))
    if culprit.events == 0:
        reason += " (it never spoke to the probe)"
    return Hang("hang-start", culprit.rank, reason)


def _step(limit: float, running: Sequence[Seen]) -> Hang | None:
    """One hung rank silences all that wait for it: of the silent ones, the one with the fewest steps is named."""
    training = [seen for seen in running if seen.started]
    if not any(seen.quiet > limit for seen in training):
        return None
    silent = [seen for seen in training if seen.quiet > limit / 2]
    culprit = min(silent, key=lambda seen: (seen.step, -seen.quiet, seen.rank))
    where = "after step %d" % culprit.step if culprit.step else "before its first step ended"
    reason = "rank %d was silent for more than %s s %s" % (culprit.rank, _figure(limit), where)
    return Hang("hang-step", culprit.rank, reason)


def _figure(seconds: float) -> str:
    return "%g" % seconds
