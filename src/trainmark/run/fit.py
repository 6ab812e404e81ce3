"""`batch: max`: the largest batch that fits, found by trying. Each try is a run of its own, in its own processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from trainmark.errors import SiteError
from trainmark.plan.records import Plan
from trainmark.report.i18n.speaker import say
from trainmark.run import session
from trainmark.run.observers import RunLog
from trainmark.run.stop import StopSwitch
from trainmark.spec.states import JobState
from trainmark.store.rundir import RUN_LOG

# Beyond so many steps of the search nothing was going to run out.
MOST_MULTIPLES = 4096


class Stopped(Exception):
    """Somebody stopped a try."""


class Tried(msgspec.Struct, frozen=True):
    """How a batch fared. `oom` says why it did not fit."""

    fits: bool
    oom: str = ""


Try = Callable[[int], Tried]


def largest(tried: Try, step: int, most: int | None) -> tuple[int, int | None]:
    """The largest multiple of `step` that fits, and the smallest that was seen not to; 0 when none fits.

    Doubles until something breaks, then halves the gap: 12 tries for the largest of 64 multiples, not 64.
    """
    limit = MOST_MULTIPLES if most is None else min(MOST_MULTIPLES, most // step)
    good, bad, next_one = 0, None, 1
    while bad is None and good < limit:
        if tried(next_one * step).fits:
            good, next_one = next_one, min(2 * next_one, limit)
        else:
            bad = next_one
    while bad is not None and bad - good > 1:
        middle = (good + bad) // 2
        if tried(middle * step).fits:
            good = middle
        else:
            bad = middle
    return good * step, None if bad is None else bad * step


def attempt(plan: Plan, runs: Path, switch: StopSwitch) -> Tried:
    """Runs a plan of one case with one round. Only memory that ran out counts as `does not fit`."""
    run = session.create(plan, runs)
    final = session.drive(run, plan, RunLog(run.path / RUN_LOG), switch)
    if final is JobState.SUCCEEDED:
        return Tried(True)
    if final is JobState.CANCELLED:
        raise Stopped
    state = session.state_of(run, plan)
    outcome, reason = state.case_outcome(0)
    last = state.rounds[plan.order[0]].last()
    if last is not None and (last.failure or {}).get("kind") == "oom":
        return Tried(False, say(reason))
    lines = ((last.failure if last else None) or {}).get("last_lines") or [""]
    said = f": {lines[-1]}" if lines[-1] else ""
    raise SiteError(
        f"{plan.cases[0].case}: {outcome} while looking for the largest batch: {say(reason)}{said} ({run.path})"
    )
