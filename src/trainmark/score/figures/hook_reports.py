"""What the hooks in an unmodified program report about their own count: reasons to give no speed, and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.reasons import Reason, reason
from trainmark.spec.columns import RankColumns

COUNTED = "counted"
SKIPPED = "skipped"
BESIDE = "beside"
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
    if counted.get("others"):
        return reason("other-processes-of-rank", rank=rank, count=counted["others"])
    if counted.get("uneven"):
        return reason("optimizers-uneven", rank=rank, updates=_each(counted))
    if not loaders:
        return None
    batches, samples = sum(loader[0] for loader in loaders), sum(loader[1] for loader in loaders)
    if batch is None:
        updates, unsure = counted.get("updates", steps), counted.get("unsure", 0)
        if samples and not _agree(samples, samples + unsure):
            return reason("batches-unsure", rank=rank, unsure=unsure, samples=samples)
        if _agree(updates, steps):
            return None
        return reason(
            "optimizer-and-loaders-differ", rank=rank, updates=updates, batches=batches, steps=steps, samples=samples
        )
    expected = steps * batch
    if any(_agree(expected, given) for given in (samples, *(loader[1] for loader in loaders))):
        return None
    if counted.get("unsure"):  # then the user's word is all there is
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
        if used > 1 and "each" in counted:
            found.append(reason("several-optimizers", count=used, updates=_each(counted)))
        elif used > 1:  # as older hooks counted
            name, parameters = counted.get("optimizer"), counted.get("parameters")
            found.append(reason("largest-optimizer", optimizer=name, parameters=parameters, count=used))
        if counted.get("trainings", 1) > 1:
            found.append(reason("several-trainings", count=counted["trainings"]))
        # The rest of one pass and the begin of the next may be in one step: those are no two loaders.
        shares = [str(samples) for batches, samples in counted.get("loaders", []) if 2 * batches >= counted["steps"]]
        if len(shares) > 1 and counted.get("batch") is None:
            found.append(reason("several-loaders", samples=" + ".join(shares)))
        by_loader, by_rows = counted.get("first_sizes") or (0, 0)
        if by_loader and counted.get("batch") is None:
            found.append(reason("sampler-and-rows-differ", samples=by_loader, rows=by_rows))
        if 2 * counted.get("quiet_steps", 0) > counted.get("steps", 0):
            found.append(reason("quiet-in-steps"))
    beside = sum(bool(rank.notes(BESIDE)) for rank in ranks)
    if beside:
        found.append(reason("processes-beside", count=beside + 1))
    for rank in ranks:
        skipped = sum(len(value) for value in rank.notes(SKIPPED) if isinstance(value, list))
        if skipped:
            found.append(reason("steps-skipped", rank=rank.rank, steps=skipped))
    finished = (mark for rank in ranks for mark in rank.marks if mark.k == "FINISHED")
    ends = {mark.values.get("ended_after") for mark in finished if isinstance(mark.values, dict)}
    return found + [
        reason("ended-after-steps", steps=end) for end in sorted(end for end in ends if isinstance(end, int))
    ]


def _each(counted: Mapping[str, Any]) -> str:
    """The updates of the largest optimizers."""
    rows = [row for row in counted.get("each", []) if isinstance(row, list) and len(row) == 3]
    return ", ".join(f"{name} ({size:,}): {updates:,}" for name, size, updates in rows)


def _counted(ranks: Sequence[RankColumns]) -> dict[int, dict[str, Any]]:
    """The last count of each rank that reported one."""
    found = {rank.rank: rank.notes(COUNTED) for rank in ranks}
    return {rank: values[-1] for rank, values in found.items() if values and isinstance(values[-1], dict)}
