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


def has_trained(case: CasePlan, attempt_dir: Path) -> bool:
    """Whether every rank of an attempt that failed had made all its steps before, with losses that are numbers: what
    failed came after training."""
    if not case.probe or case.world is None:
        return False  # ranks of a command say nothing of their own accord
    from trainmark.store import columns, events

    ended = [rank for result in events.results(attempt_dir) for rank in result.get("ranks") or []]
    if any(rank.get("nonfinite") for rank in ended if isinstance(rank, dict)):
        return False
    try:
        ranks = columns.read(attempt_dir, case.world).ranks
    except (OSError, ValueError):
        return False
    told = [rank for rank in ranks if rank.steps is not None and (rank.notes("trained") or rank.mark("TRAIN_END"))]
    return len(told) == case.world


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
    if not case.band:
        return gate.falling(seen, case.band_missing, since)
    return gate.in_band(seen, case.band, since, ended_at=_ended_early(case, found))


def _ended_early(case: CasePlan, found: Columns) -> int | None:
    """The last step of a training by time that was cut off before the steps of its recipe were made."""
    told = [note for rank in found.ranks for note in rank.notes("trained") if isinstance(note, dict)]
    steps = [note.get("steps") for note in told if note.get("capped") is True]
    return min((step for step in steps if isinstance(step, int)), default=None) if case.length else None


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
