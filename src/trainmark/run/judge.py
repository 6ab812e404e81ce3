"""A look at what an attempt measured, as soon as it ended: what the loop has to know of it goes into the journal.

The one place in this room where anything is scored, and only for cases that have something to be judged by.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason

if TYPE_CHECKING:
    from trainmark.score.figures.gate import Judgement
    from trainmark.score.stats.power import Enough
    from trainmark.spec.columns import Columns


class Judged(msgspec.Struct, frozen=True):
    """What the events of an attempt that ended well say. None or empty: not known, or not asked."""

    speed: float | None = None
    # Why the attempt is INVALID, and how its loss lies to the reference band.
    fault: Reason | None = None
    band: Reason | None = None


def judge(case: CasePlan, _ref: RoundRef, attempt_dir: Path) -> Judged:
    """Reads the attempt's events where something depends on them: that costs more than a small round does."""
    gated = bool(case.band) or case.loss_falls
    if case.auto is None and not gated:
        return Judged()
    from trainmark.score.figures.attempt import Question, score_run
    from trainmark.store import columns

    found = columns.read(attempt_dir, case.world)
    speed = None
    if case.auto is not None:
        score = score_run(found, (), Question(world=case.world, window=case.window))
        speed = None if score.reason else score.value("throughput") or None
    gate = _gate(case, found, attempt_dir) if gated else None
    return Judged(speed, gate.fault, gate.band) if gate else Judged(speed)


def _gate(case: CasePlan, found: Columns, attempt_dir: Path) -> Judgement:
    from trainmark.score.figures import gate
    from trainmark.score.figures.steps import losses

    seen = losses(found.ranks)
    notes = (step for rank in found.ranks for step in rank.notes("resumed_from_step"))
    since = max((step for step in notes if isinstance(step, int)), default=0)
    if since:
        seen = _before(since, case.world, attempt_dir) | seen
    return gate.in_band(seen, case.band, since) if case.band else gate.falling(seen, case.band_missing, since)


def _before(since: int, world: int | None, attempt_dir: Path) -> dict[int, float]:
    """The losses of the steps that this attempt did not make: it went on from a checkpoint of an earlier one."""
    from trainmark.score.figures.steps import losses
    from trainmark.store import columns
    from trainmark.store.rundir import earlier_attempts

    found: dict[int, float] = {}
    for folder in earlier_attempts(attempt_dir):
        seen = losses(columns.read(folder, world).ranks)
        found |= {step: loss for step, loss in seen.items() if step <= since}
    return found


def enough(case: CasePlan, speeds: list[float]) -> Enough:
    """How many rounds a case gets in all, from the speeds of its pilot."""
    from trainmark.score.stats.power import stein

    if case.auto is None:
        raise ValueError(f"{case.case}: its number of rounds is given")
    return stein(speeds, case.auto)
