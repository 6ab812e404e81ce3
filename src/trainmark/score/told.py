"""What an unmodified program's hooks told about their own count: reasons to give no speed, and remarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainmark.spec.event import Event

COUNTED = "counted"
SKIPPED = "skipped"
# Two ways to count samples may differ by so much.
TOLERANCE = 0.01


def doubt(events: Sequence[Event]) -> str:
    """Why these figures give no speed, with both counts; empty when there is no reason."""
    reasons = [_doubt(rank, counted) for rank, counted in sorted(_counted(events).items())]
    found = next((reason for reason in reasons if reason), "")
    return found or _missing_ranks(events) or _no_samples(events)


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


def _missing_ranks(events: Iterable[Event]) -> str:
    worlds, spoken = set(), set()
    for event in events:
        if event.k == "INIT_START" and event.world:
            worlds.add(event.world)
        elif event.k == "STEP_END":
            spoken.add(event.rank)
    world = max(worlds, default=0)
    return f"{len(spoken)} of {world} ranks were measured" if spoken and len(spoken) < world else ""


def _no_samples(events: Iterable[Event]) -> str:
    steps = [event.n for event in events if event.k == "STEP_END"]
    if not steps or any(samples is not None for samples in steps):
        return ""
    return "how many samples a step trains is not known: no batch of a DataLoader was seen; say it with --batch"


def remarks(events: Sequence[Event]) -> list[str]:
    """What a reader should know of how it was counted."""
    found = []
    for counted in _counted(events).values():
        used = counted.get("optimizers", 1)
        if used > 1:
            found.append(
                f"steps are those of {counted.get('optimizer')}, which has most parameters "
                f"({counted.get('parameters'):,}) of {used} optimizers"
            )
        # The rest of one pass and the begin of the next may be in one step: those are no two loaders.
        shares = [str(samples) for batches, samples in counted.get("loaders", []) if 2 * batches >= counted["steps"]]
        if len(shares) > 1 and counted.get("batch") is None:
            found.append(f"samples are those of all loaders that were read together: {' + '.join(shares)}")
    for rank, skipped in sorted(_skipped(events).items()):
        found.append(f"rank {rank}: {skipped} step(s) were skipped by the gradient scaler")
    ends = {event.values.get("ended_after") for event in events if event.k == "FINISHED" and _is_map(event.values)}
    found += [f"ended after {steps} steps as asked" for steps in sorted(end for end in ends if isinstance(end, int))]
    return found


def _counted(events: Iterable[Event]) -> dict[int, dict[str, Any]]:
    """The last count of each rank."""
    notes = (event for event in events if event.k == "NOTE" and event.name == COUNTED)
    return {event.rank: event.value for event in notes if _is_map(event.value)}


def _skipped(events: Iterable[Event]) -> dict[int, int]:
    found: dict[int, int] = {}
    for event in events:
        if event.k == "NOTE" and event.name == SKIPPED and isinstance(event.value, list):
            found[event.rank] = found.get(event.rank, 0) + len(event.value)
    return found


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)
