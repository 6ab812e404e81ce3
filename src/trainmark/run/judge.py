"""A look at what an attempt measured, as soon as it ended: what the loop has to know of it goes into the journal.

The one place in this room where anything is scored, and only for cases whose rounds depend on it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.plan.records import CasePlan, RoundRef

if TYPE_CHECKING:
    from trainmark.score.power import Enough


class Judged(msgspec.Struct, frozen=True):
    """What the events of an attempt that ended well say. None: not known, or not asked."""

    speed: float | None = None


def judge(case: CasePlan, _ref: RoundRef, attempt_dir: Path) -> Judged:
    """Reads the attempt's events where something depends on them: that costs more than a small round does."""
    if case.auto is None:
        return Judged()
    from trainmark.score.case import score_run
    from trainmark.store import events

    score = score_run(events.read_attempt(attempt_dir).events, case.world)
    speed = score.throughput or 0.0
    return Judged(speed=speed if speed > 0 and not score.reason else None)


def enough(case: CasePlan, speeds: list[float]) -> Enough:
    """How many rounds a case gets in all, from the speeds of its pilot."""
    from trainmark.score.power import stein

    if case.auto is None:
        raise ValueError(f"{case.case}: its number of rounds is given")
    return stein(speeds, case.auto)
