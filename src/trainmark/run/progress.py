"""How far an attempt is, read from the agents' heartbeats, and how long the rest may take."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trainmark.plan.records import CasePlan, RoundRef
from trainmark.store.files import read_json
from trainmark.store.rundir import STATUS
from trainmark.store.state import RunState


class Progress(msgspec.Struct, frozen=True):
    """One look at a running attempt. Unknown is None."""

    state: str
    uptime: float
    step: int
    steps: int | None
    rate: float | None
    ranks: int
    silent: float | None

    def text(self, unit: str) -> str:
        step = f"step {self.step}" + (f"/{self.steps}" if self.steps else "")
        rate = f"  {self.rate:,.1f} {unit}/s" if self.rate is not None else ""
        left = self.seconds_left()
        return f"{self.state.lower()}  {step}{rate}" + (f"  {duration(left)} left" if left is not None else "")

    def seconds_left(self) -> float | None:
        """From steps done so far; None before there is anything to go by."""
        if not self.steps or not self.step or self.step > self.steps:
            return None
        return self.uptime * (self.steps - self.step) / self.step


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
        ranks=len(ranks),
        silent=max((float(rank["silent"]) for rank in ranks if rank.get("silent") is not None), default=None),
    )


def rounds_left(state: RunState) -> list[RoundRef]:
    return [ref for ref in state.plan.order if not state.is_over(ref)]


def duration(seconds: float) -> str:
    """1:02:03, 2:03 or 3 s."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, seconds_left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"
