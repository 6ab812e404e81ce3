"""How far an attempt is, read from the agents' heartbeats, and how long the rest may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.i18n.speaker import say
from trainmark.i18n.texts import Text, joined, label, named
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.run import estimate
from trainmark.spec.length import Length
from trainmark.spec.shape import STEPS
from trainmark.store.files import read_json
from trainmark.store.rundir import STATUS

# As the programs measure: more than what is asked for, after a few steps of warm-up.
_MARGIN, _WARM_UP_STEPS = 1.15, 5


# Phases that programs declare, as what a rank is doing.
_DOING = {"evaluate": "evaluating", "checkpoint": "saving", "agree": "training"}


class Progress(msgspec.Struct, frozen=True):
    """One look at a running attempt. Unknown is None."""

    state: str
    uptime: float
    step: int
    # How many there will be, as far as that is known: a round by time goes on after the last of its recipe.
    steps: int | None
    rate: float | None
    # What its ranks do: importing, loading, warming up, training, evaluating (or another declared phase), ending.
    phase: str = ""

    def text(self, unit: str, language: str = "en") -> str:
        return say(self.told(unit), language)

    def told(self, unit: str) -> Text:
        step: Text = None
        if self.step:
            step = label("progress.step-of", self.step, self.steps) if self.steps else label("progress.step", self.step)
        rate = f"{self.rate:,.1f} {unit}/s" if self.rate else None
        return joined(self.doing(), step, rate, joint="  ")

    def doing(self) -> Text:
        """The phase it is in, where it tells one."""
        return named("progress", self.phase) if self.phase else named("state", self.state)


class Pace:
    """How fast steps go by, from the first look at an attempt on: starting up does not count."""

    def __init__(self) -> None:
        self._first: tuple[Path, float, int] | None = None

    def seconds_left(self, attempt_dir: Path, seen: Progress, length: Length | None = None) -> float | None:
        """None before there is anything to go by."""
        if self._first is None or self._first[0] != attempt_dir:
            if seen.step > 0:
                self._first = attempt_dir, seen.uptime, seen.step
            return None
        _, since, first = self._first
        if seen.step <= first:
            return None
        pace = (seen.uptime - since) / (seen.step - first)
        if length is not None:
            return _left_by_time(length, seen, pace, since - pace * first)
        return None if not seen.steps else pace * max(0, seen.steps - seen.step)


def _left_by_time(length: Length, seen: Progress, pace: float, began: float) -> float:
    """Of a round that ends with enough steps and seconds, or when its time is up. `began`: when the first step did."""
    steps = _WARM_UP_STEPS + _MARGIN * length.steps
    if length.whole:
        steps = max(steps, seen.steps or 0)
    seconds = began + _WARM_UP_STEPS * pace + _MARGIN * length.seconds
    left = max(pace * (steps - seen.step), seconds - seen.uptime)
    return max(0.0, min(left, max(length.most, seconds) - seen.uptime))


class CountDown:
    """Seconds left as they are shown: they get fewer, and more only when something happened that explains it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: tuple[object, float, float] | None = None

    def of(self, estimate: float, cause: object) -> float:
        """`cause` changes with whatever may make it longer: another round, another attempt."""
        now = self._clock()
        if self._shown is not None and self._shown[0] == cause:
            estimate = min(estimate, max(0.0, self._shown[2] - (now - self._shown[1])))
        self._shown = cause, now, estimate
        return estimate


class Remaining:
    """What is left of a run: the round under way, and each case's rounds to come at that case's own pace; of cases that
    nothing is known of, at the mean of the others."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._took: dict[int, list[float]] = {}

    def ended(self, ref: RoundRef, seconds: float) -> None:
        self._took.setdefault(ref.case, []).append(seconds)

    def of_case(self, index: int) -> float | None:
        """Seconds of a round; None while nothing says."""
        if index in self._took:
            return _mean(self._took[index])
        usual = estimate.by_time(self._plan.cases[index])
        return _mean([_mean(took) for took in self._took.values()]) if usual is None and self._took else usual

    def seconds(self, to_come: Sequence[RoundRef]) -> float | None:
        """None when a case's rounds are anybody's guess, and none is over."""
        each = [self.of_case(ref.case) for ref in to_come]
        known = [one for one in each if one is not None]
        return sum(known) if len(known) == len(each) else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def look(attempt_dir: Path, case: CasePlan) -> Progress | None:
    """The heartbeats of all nodes as one line; None before the first."""
    found = [read_json(file) for file in attempt_dir.glob(f"*/{STATUS}")]
    nodes = [status for status in found if isinstance(status, dict)]
    if not nodes:
        return None
    ranks = [rank for node in nodes for rank in node.get("ranks", [])]
    rates = [node.get("rate") for node in nodes]
    # The one that is furthest behind is the one that is waited for.
    last: dict[str, Any] = min(ranks, key=lambda rank: int(rank.get("step") or 0), default={})
    step, known = int(last.get("step") or 0), _steps(case)
    return Progress(
        state=min(str(node.get("state", "")) for node in nodes),
        uptime=max(float(node.get("uptime", 0.0)) for node in nodes),
        step=step,
        steps=known if known is None or step <= known else None,
        rate=None if None in rates else sum(float(rate) for rate in rates if rate is not None),
        phase=_DOING.get(phase := str(last.get("phase") or ""), phase),
    )


def _steps(case: CasePlan) -> int | None:
    """How many there will be: of a round by time at least those of its recipe and those that are measured."""
    given = next((value for name in STEPS if type(value := case.params.get(name)) is int and value > 0), None)
    if case.length is None or given is None:
        return given
    least = round(_WARM_UP_STEPS + _MARGIN * case.length.steps)
    return max(given, least) if case.length.whole else None


def run_left(
    plan: Plan, ended: set[RoundRef], seconds: float, before: frozenset[RoundRef] = frozenset()
) -> float | None:
    """How long the rest of a run may take, in seconds, after so many: as long for each round as so far, without those
    that were over `before`. Rounds that run side by side are counted by whole blocks. Never more than the plan allows,
    but for the blocks that run in any case. None before the first is over."""
    sizes = [1 if plan.width > 1 else len(block) for block in plan.blocks]
    done, earlier = (
        sum(over.issuperset(block) for block in plan.blocks) if plan.width > 1 else len(over)
        for over in (ended, before)
    )
    if done <= earlier:
        return None
    pace = seconds / (done - earlier)
    left = pace * (sum(sizes) - done)
    if plan.blocks_within is None:
        return left
    needed = pace * (sum(sizes[: plan.least_blocks]) - done)
    return min(left, max(0.0, plan.blocks_within - seconds, needed))


def duration(seconds: float) -> str:
    """1:02:03, 2:03 or 3 s."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, seconds_left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"
