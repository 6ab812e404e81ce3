"""How far training came in a run, and when it reached its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainmark.spec.columns import Event, RankColumns, is_number
from trainmark.spec.workload import Target

NS = 1e-9


class Reach(msgspec.Struct, frozen=True):
    """When one run reached its target: seconds of training and samples, or how far it went without."""

    reached: bool
    seconds: float
    samples: int


def target(declared: Target | None, params: Mapping[str, object]) -> Target | None:
    """The target in force: the parameter `target_METRIC` over the workload's own; 0 means none."""
    if declared is None:
        return None
    chosen = params.get(f"target_{declared.metric}")
    if isinstance(chosen, int | float) and not isinstance(chosen, bool):
        return msgspec.structs.replace(declared, value=float(chosen)) if chosen else None
    return declared


def evaluations(ranks: Sequence[RankColumns]) -> list[Event]:
    """The evaluations of the first rank that has any; in training together, all ranks have the same."""
    for rank in ranks:
        found = [mark for mark in rank.marks if mark.k == "EVALUATE" and isinstance(mark.values, dict)]
        if found:
            return found
    return []


def last_values(found: Sequence[Event]) -> dict[str, float]:
    return {name: float(value) for name, value in found[-1].values.items() if is_number(value)} if found else {}


def reach(ranks: Sequence[RankColumns], aim: Target) -> Reach | None:
    """On the clock of the rank that evaluates, from its start of training. None: it never evaluated."""
    events = evaluations(ranks)
    if not events:
        return None
    own = next(rank for rank in ranks if rank.rank == events[0].rank)
    began = own.mark("TRAIN_START")
    began = own.first if began is None else began
    for event in events:
        value = event.values.get(aim.metric)
        if is_number(value) and (value >= aim.value if aim.direction == "up" else value <= aim.value):
            return Reach(True, (event.t - began) * NS, _samples(ranks, event.step))
    ended = own.mark("TRAIN_END")
    return Reach(False, ((events[-1].t if ended is None else ended) - began) * NS, _samples(ranks, None))


def _samples(ranks: Sequence[RankColumns], step: int | None) -> int:
    """Of all ranks, up to a step."""
    parts = [rank.steps for rank in ranks if rank.steps is not None]
    return sum(int((part.n if step is None else part.n[part.step <= step]).sum()) for part in parts)
