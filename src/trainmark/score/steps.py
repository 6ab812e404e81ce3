"""What one attempt's events say: steps, samples and durations of each rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from trainmark.spec.event import Event

NS = 1e-9
# In one step of one rank; more is a broken record.
MOST_SAMPLES = 10**12


class RankSteps(msgspec.Struct):
    """One rank's training, on its own monotonic clock (never compared with another rank's)."""

    rank: int
    start: int | None = None
    step: list[int] = []
    t: list[int] = []
    n: list[int] = []
    data: list[int] = []
    # Time inside declared phases (evaluation, checkpoint) that ended before each step's end and after the last.
    paused: list[int] = []
    timing: str = "host"
    block_steps: list[int] = []
    block_t: list[int] = []
    seq: int = -1
    # Records that cannot be true: time or steps running backwards, samples below one.
    odd: int = 0

    def samples(self) -> int:
        return sum(self.n)


def by_rank(events: Iterable[Event], world: int | None = None) -> list[RankSteps]:
    """Steps of every rank, in rank order. A record seen twice, or of a rank that does not exist, is left out."""
    ranks: dict[int, RankSteps] = {}
    phase: dict[int, int] = {}
    pause: dict[int, int] = {}
    for event in events:
        if event.rank < 0 or (world is not None and event.rank >= world):
            continue
        own = ranks.setdefault(event.rank, RankSteps(event.rank, None, [], [], [], [], [], "host", [], []))
        if event.seq <= own.seq:
            continue
        own.seq = event.seq
        if event.k == "STEP_END":
            _add_step(own, event, pause.pop(event.rank, 0))
        elif event.k == "INIT_START":
            own.timing = event.timing or "host"
        elif event.k == "TRAIN_START":
            own.start = event.t
            pause.pop(event.rank, None)
        elif event.k == "PHASE_BEGIN":
            phase[event.rank] = event.t
        elif event.k == "PHASE_END" and event.rank in phase:
            pause[event.rank] = pause.get(event.rank, 0) + event.t - phase.pop(event.rank)
        elif event.k == "BLOCK":
            own.block_steps.append(event.step or 0)
            own.block_t.append(event.t)
    return [ranks[rank] for rank in sorted(ranks)]


def _add_step(own: RankSteps, event: Event, paused: int) -> None:
    # Of a program that was not written for trainmark it may not be known how many samples a step has.
    step, samples = event.step or 0, event.n or 0
    backwards = bool(own.step) and (step <= own.step[-1] or event.t < own.t[-1])
    if step < 1 or not (event.n is None or 1 <= samples <= MOST_SAMPLES) or backwards:
        own.odd += 1
        return
    own.step.append(step)
    own.t.append(event.t)
    own.n.append(samples)
    own.data.append(event.data or 0)
    own.paused.append(paused)


def common_steps(ranks: Sequence[RankSteps]) -> tuple[int, int] | None:
    """First and last step that every rank finished; None when there is none."""
    if not ranks or any(not rank.step for rank in ranks):
        return None
    first = max(rank.step[0] for rank in ranks)
    last = min(rank.step[-1] for rank in ranks)
    return (first, last) if first <= last else None
