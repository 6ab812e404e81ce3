"""How far an attempt is, read from the agents' heartbeats, and how long the rest may take."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.store.files import read_json
from trainmark.store.rundir import STATUS


class Progress(msgspec.Struct, frozen=True):
    """One look at a running attempt. Unknown is None."""

    state: str
    uptime: float
    step: int
    steps: int | None
    rate: float | None

    def text(self, unit: str) -> str:
        step = f"step {self.step}" + (f"/{self.steps}" if self.steps else "")
        rate = f"  {self.rate:,.1f} {unit}/s" if self.rate is not None else ""
        return f"{self.state.lower()}  {step}{rate}"


class Pace:
    """How fast steps go by, from the first look at an attempt on: starting up does not count."""

    def __init__(self) -> None:
        self._first: tuple[Path, float, int] | None = None

    def seconds_left(self, attempt_dir: Path, seen: Progress) -> float | None:
        """None before there is anything to go by."""
        if self._first is None or self._first[0] != attempt_dir:
            if seen.step > 0:
                self._first = attempt_dir, seen.uptime, seen.step
            return None
        done = seen.step - self._first[2]
        if not seen.steps or done <= 0:
            return None
        return (seen.uptime - self._first[1]) / done * max(0, seen.steps - seen.step)


def look(attempt_dir: Path, case: CasePlan) -> Progress | None:
    """The heartbeats of all nodes as one line; None before the first."""
    found = [read_json(file) for file in attempt_dir.glob(f"*/{STATUS}")]
    nodes = [status for status in found if isinstance(status, dict)]
    if not nodes:
        return None
    ranks = [rank for node in nodes for rank in node.get("ranks", [])]
    rates = [node.get("rate") for node in nodes]
    steps = case.params.get("steps")
    return Progress(
        state=min(str(node.get("state", "")) for node in nodes),
        uptime=max(float(node.get("uptime", 0.0)) for node in nodes),
        step=min((int(rank.get("step") or 0) for rank in ranks), default=0),
        steps=steps if isinstance(steps, int) and steps > 0 else None,
        rate=None if None in rates else sum(float(rate) for rate in rates if rate is not None),
    )


def run_left(plan: Plan, ended: set[RoundRef], seconds: float) -> float | None:
    """How long the rest of a run may take, in seconds, after so many: as long for each round as so far. Rounds that run
    side by side are counted by whole blocks. Never more than the plan allows."""
    if plan.width > 1:
        done = sum(ended.issuperset(block) for block in plan.blocks)
        total = len(plan.blocks)
    else:
        done, total = len(ended), len(plan.order)
    left = seconds / done * (total - done) if done else None
    if plan.blocks_within is None:
        return left
    allowed = max(0.0, plan.blocks_within - seconds)
    return allowed if left is None else min(left, allowed)


def duration(seconds: float) -> str:
    """1:02:03, 2:03 or 3 s."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, seconds_left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"
