"""What an unmodified program's hooks told about their own count: reasons to give no speed, and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.spec.columns import RankColumns

COUNTED = "counted"
SKIPPED = "skipped"
# Two ways to count samples may differ by so much.
TOLERANCE = 0.01
NO_SAMPLES = "how many samples a step trains is not known: no batch of a DataLoader was seen; say it with --batch"


def doubt(ranks: Sequence[RankColumns]) -> str:
    """Why these figures give no speed, with both counts; empty when there is no reason."""
    reasons = [_doubt(rank, counted) for rank, counted in _counted(ranks).items()]
    found = next((reason for reason in reasons if reason), "")
    return found or _missing_ranks(ranks) or _no_samples(ranks)


def _doubt(rank: int, counted: Mapping[str, Any]) -> str:
    steps, batch, loaders = counted.get("steps", 0), counted.get("batch"), counted.get("loaders", [])
    if not loaders:
        return ""
    batches, samples = sum(loader[0] for loader in loaders), sum(loader[1] for loader in loaders)
    if batch is None:
        updates = counted.get("updates", steps)
        if _agree(updates, steps):
            return ""
        return (
            f"rank {rank}: the optimizer stepped {updates} times, the loader's {batches} batches make {steps} steps "
            f"({samples} samples): what a step is cannot be told, so no speed is given"
        )
    said = steps * batch
    if any(_agree(said, given) for given in (samples, *(loader[1] for loader in loaders))):
        return ""
    return (
        f"rank {rank}: {steps} steps of batch {batch} make {said} samples, its loaders gave {samples} "
        f"in {batches} batches: more than {TOLERANCE:.0%} apart, so no speed is given; check --batch"
    )


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= TOLERANCE * max(one, other)


def _missing_ranks(ranks: Sequence[RankColumns]) -> str:
    """Of a program whose ranks nobody planned, they alone know how many there are."""
    worlds = [mark.world for rank in ranks for mark in rank.marks if mark.k == "INIT_START" and mark.world]
    spoken, world = sum(rank.steps is not None for rank in ranks), max(worlds, default=0)
    return f"{spoken} of {world} ranks were measured" if 0 < spoken < world else ""


def _no_samples(ranks: Sequence[RankColumns]) -> str:
    made = [rank.steps for rank in ranks if rank.steps is not None]
    return NO_SAMPLES if made and not any(int(steps.n.max()) for steps in made) else ""


def remarks(ranks: Sequence[RankColumns]) -> list[str]:
    """What a reader should know of how it was counted."""
    found = []
    for counted in _counted(ranks).values():
        used = counted.get("optimizers", 1)
        if used > 1:
            found.append(
                f"steps are those of {counted.get('optimizer')}, which has most parameters "
                f"({counted.get('parameters'):,}) of {used} optimizers"
            )
        if counted.get("trainings", 1) > 1:
            found.append(f"{counted['trainings']} trainings took turns; the steps of all of them count")
        # The rest of one pass and the begin of the next may be in one step: those are no two loaders.
        shares = [str(samples) for batches, samples in counted.get("loaders", []) if 2 * batches >= counted["steps"]]
        if len(shares) > 1 and counted.get("batch") is None:
            found.append(f"samples are those of all loaders that were read together: {' + '.join(shares)}")
    for rank in ranks:
        skipped = sum(len(value) for value in rank.notes(SKIPPED) if isinstance(value, list))
        if skipped:
            found.append(f"rank {rank.rank}: {skipped} step(s) were skipped by the gradient scaler")
    finished = (mark for rank in ranks for mark in rank.marks if mark.k == "FINISHED")
    ends = {mark.values.get("ended_after") for mark in finished if isinstance(mark.values, dict)}
    found += [f"ended after {steps} steps as asked" for steps in sorted(end for end in ends if isinstance(end, int))]
    return found


def _counted(ranks: Sequence[RankColumns]) -> dict[int, dict[str, Any]]:
    """The last count of each rank that told one."""
    found = {rank.rank: rank.notes(COUNTED) for rank in ranks}
    return {rank: values[-1] for rank, values in found.items() if values and isinstance(values[-1], dict)}
