"""What the hooks in an unmodified program report about their own count: reasons to give no speed, and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.reasons import Reason, reason
from trainmark.spec.columns import RankColumns

COUNTED = "counted"
SKIPPED = "skipped"
# Two ways to count samples may differ by so much.
TOLERANCE = 0.01
NO_SAMPLES = reason("samples-unknown")


def doubt(ranks: Sequence[RankColumns]) -> Reason | None:
    """Why these figures give no speed, with both counts; None when there is no reason."""
    doubts = [_doubt(rank, counted) for rank, counted in _counted(ranks).items()]
    found = next((one for one in doubts if one), None)
    return found or _missing_ranks(ranks) or _no_samples(ranks)


def _doubt(rank: int, counted: Mapping[str, Any]) -> Reason | None:
    steps, batch, loaders = counted.get("steps", 0), counted.get("batch"), counted.get("loaders", [])
    if not loaders:
        return None
    batches, samples = sum(loader[0] for loader in loaders), sum(loader[1] for loader in loaders)
    if batch is None:
        updates = counted.get("updates", steps)
        if _agree(updates, steps):
            return None
        return reason(
            "optimizer-and-loaders-differ", rank=rank, updates=updates, batches=batches, steps=steps, samples=samples
        )
    expected = steps * batch
    if any(_agree(expected, given) for given in (samples, *(loader[1] for loader in loaders))):
        return None
    return reason(
        "batch-and-loaders-differ",
        rank=rank,
        steps=steps,
        batch=batch,
        expected=expected,
        samples=samples,
        batches=batches,
        percent=100 * TOLERANCE,
    )


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= TOLERANCE * max(one, other)


def _missing_ranks(ranks: Sequence[RankColumns]) -> Reason | None:
    """Of a program whose ranks were not planned, only they know how many there are."""
    worlds = [mark.world for rank in ranks for mark in rank.marks if mark.k == "INIT_START" and mark.world]
    spoken, world = sum(rank.steps is not None for rank in ranks), max(worlds, default=0)
    return reason("ranks-not-measured", count=spoken, world=world) if 0 < spoken < world else None


def _no_samples(ranks: Sequence[RankColumns]) -> Reason | None:
    made = [rank.steps for rank in ranks if rank.steps is not None]
    return NO_SAMPLES if made and not any(int(steps.n.max()) for steps in made) else None


def remarks(ranks: Sequence[RankColumns]) -> list[Reason]:
    """What a reader should know of how it was counted."""
    found = []
    for counted in _counted(ranks).values():
        used = counted.get("optimizers", 1)
        if used > 1:
            name, parameters = counted.get("optimizer"), counted.get("parameters")
            found.append(reason("largest-optimizer", optimizer=name, parameters=parameters, count=used))
        if counted.get("trainings", 1) > 1:
            found.append(reason("several-trainings", count=counted["trainings"]))
        # The rest of one pass and the begin of the next may be in one step: those are no two loaders.
        shares = [str(samples) for batches, samples in counted.get("loaders", []) if 2 * batches >= counted["steps"]]
        if len(shares) > 1 and counted.get("batch") is None:
            found.append(reason("several-loaders", samples=" + ".join(shares)))
    for rank in ranks:
        skipped = sum(len(value) for value in rank.notes(SKIPPED) if isinstance(value, list))
        if skipped:
            found.append(reason("steps-skipped", rank=rank.rank, steps=skipped))
    finished = (mark for rank in ranks for mark in rank.marks if mark.k == "FINISHED")
    ends = {mark.values.get("ended_after") for mark in finished if isinstance(mark.values, dict)}
    return found + [
        reason("ended-after-steps", steps=end) for end in sorted(end for end in ends if isinstance(end, int))
    ]


def _counted(ranks: Sequence[RankColumns]) -> dict[int, dict[str, Any]]:
    """The last count of each rank that reported one."""
    found = {rank.rank: rank.notes(COUNTED) for rank in ranks}
    return {rank: values[-1] for rank, values in found.items() if values and isinstance(values[-1], dict)}
