"""What a long job makes of its time: how long it takes to start, to save, to recover, and what is left for training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.figures.phases import CHECKPOINT, pauses
from trainmark.score.records import Figure, Goodput, Recovery, known
from trainmark.score.stats.confidence import median
from trainmark.spec.columns import Columns, RankColumns, is_number

NS = 1e-9
DAY = 86400.0
# A step that takes so many times the usual one stalled.
STALL = 2.0
NO_STEPS = reason("no-steps")
NO_RESULT = reason("agent-left-no-result")
START = ("queue", "image", "process", "import", "rendezvous", "build", "compile", "first_step")


class Try(msgspec.Struct, frozen=True, eq=False):
    """One attempt at a round. Wall times of the controller; seconds that the agents took, by their own clock."""

    began: float
    ended: float | None
    columns: Columns
    agent_seconds: float | None = None
    # Wall time of its host when the agent of the first rank began.
    agent_began: float | None = None
    container: bool = False
    compiled: bool = False
    # Seconds in which the controller saw to it that all hosts had the image.
    image_seconds: float | None = None


class Forecast(msgspec.Struct, frozen=True):
    """A long job at a stated failure rate: the share of its time that is training, and the best interval to save at."""

    failures_per_day: float
    hours: float
    save_every: float
    effective_ratio: float
    best_save_every: float
    best_effective_ratio: float


def goodput(case: str, tries: Sequence[Try]) -> Goodput:
    """`tries` in order; the last one is the one that counts."""
    spoken = [(one, rank) for one in tries if (rank := _speaker(one.columns)) is not None]
    if not spoken:
        return _blank(case, len(tries))
    times = [time for _, rank in spoken for time in _step_times(rank)]
    usual = median(times) if times else None
    first, rank = spoken[0]
    start = _start(first, rank, usual)
    saves = [(since, until) for _, rank in spoken for name, since, until in pauses(rank) if name == CHECKPOINT]
    loads = [value for _, rank in spoken for value in rank.notes("checkpoint_load_seconds") if is_number(value)]
    every = [
        (b - a) * NS
        for _, rank in spoken
        for a, b in pairwise([since for name, since, _ in pauses(rank) if name == CHECKPOINT])
    ]
    recoveries = [found for (_, a), (_, b) in pairwise(spoken) if (found := _recovery(a, b)) is not None]
    return Goodput(
        case=case,
        attempts=len(tries),
        start=start,
        time_to_first_step=_first_step(first, rank),
        checkpoint_save=known(_mean([(b - a) * NS for a, b in saves]), reason("no-checkpoint-saved")),
        checkpoint_load=known(_mean([float(value) for value in loads]), reason("no-checkpoint-loaded")),
        checkpoint_every=known(_mean(every), reason("few-checkpoints")),
        stall_share=_stalls(times, usual),
        recoveries=recoveries,
        effective_ratio=_ratio(tries, [rank for _, rank in spoken], usual),
        step_time=known(usual, NO_STEPS),
    )


def _blank(case: str, attempts: int) -> Goodput:
    nothing = Figure(None, reason("no-rank-told"))
    start = dict.fromkeys(START, nothing)
    return Goodput(case, attempts, start, nothing, nothing, nothing, nothing, nothing, [], nothing, nothing)


def forecast(found: Goodput, failures_per_day: float, hours: float, save_every: float | None) -> Forecast | Reason:
    """A reason says what is missing.

    For each second of training: saving costs save ÷ interval, and each failure costs the recovery and, on average, half
    an interval that is trained again.
    """
    save, every = found.checkpoint_save.value, save_every or found.checkpoint_every.value
    start = found.time_to_first_step.value
    if save is None or every is None or start is None:
        return reason("forecast-needs-checkpoints")
    # Without a failure seen, a restart takes as long as a start, and a load as long as a save.
    restart = [one.total - one.redone for one in found.recoveries]
    recover = _mean(restart) or start + save
    rate = failures_per_day / DAY
    stalled = found.stall_share.value or 0.0

    def share(interval: float) -> float:
        cost = 1 + save / interval + rate * (recover + interval / 2) + start / (3600 * hours)
        return (1 - stalled) / cost

    best = (2 * save / rate) ** 0.5 if rate > 0 else 3600 * hours
    return Forecast(failures_per_day, hours, every, share(every), best, share(best))


def _speaker(found: Columns) -> RankColumns | None:
    return next((rank for rank in found.ranks if rank.mark("INIT_START") is not None), None)


def _wall(rank: RankColumns, at: int) -> float:
    """A moment of the rank's clock as wall time of its host."""
    begun = next(mark for mark in rank.marks if mark.k == "INIT_START")
    return ((begun.wall or 0) + at - begun.t) * NS


def _start(one: Try, rank: RankColumns, usual: float | None) -> dict[str, Figure]:
    begin, ready, trained = (rank.mark(kind) for kind in ("INIT_START", "INIT_END", "TRAIN_START"))
    imported, joined = (_note_time(rank, name) for name in ("imported", "joined"))
    not_told = reason("end-not-told")
    whole = one.ended - one.began if one.ended is not None else None
    queue = whole - one.agent_seconds if whole is not None and one.agent_seconds is not None else None
    if queue is not None and one.image_seconds is not None:
        queue -= one.image_seconds
    first = _first(rank)
    slow = first - usual if first is not None and usual is not None and one.compiled else None
    began = _wall(rank, begin) - one.agent_began if begin is not None and one.agent_began is not None else None
    return {
        "queue": known(queue and max(0.0, queue), reason("attempt-without-end")),
        "image": known(one.image_seconds, reason("within-queue") if one.container else reason("no-container")),
        "process": known(began and max(0.0, began), NO_RESULT),
        "import": _between(begin, imported, not_told),
        "rendezvous": _between(imported, joined, not_told),
        "build": _between(joined if joined is not None else begin, ready if ready is not None else trained, not_told),
        "compile": known(slow and max(0.0, slow), NO_STEPS if one.compiled else reason("nothing-compiled")),
        "first_step": known(usual if one.compiled and first is not None else first, NO_STEPS),
    }


def _note_time(rank: RankColumns, name: str) -> int | None:
    return next((mark.t for mark in rank.marks if mark.k == "NOTE" and mark.name == name), None)


def _between(since: int | None, until: int | None, otherwise: Reason) -> Figure:
    return known((until - since) * NS if since is not None and until is not None else None, otherwise)


def _first(rank: RankColumns) -> float | None:
    started = rank.mark("TRAIN_START")
    return (int(rank.steps.t[0]) - started) * NS if rank.steps is not None and started is not None else None


def _first_step(one: Try, rank: RankColumns) -> Figure:
    """From the start of the agent: what was before is the queue's."""
    if rank.steps is None or one.agent_began is None:
        return Figure(None, NO_STEPS if rank.steps is None else NO_RESULT)
    return Figure(_wall(rank, int(rank.steps.t[0])) - one.agent_began)


def _step_times(rank: RankColumns) -> list[float]:
    """Seconds of each step but the first, declared phases left out."""
    if rank.steps is None:
        return []
    times = rank.steps.t.tolist()
    breaks = [(since, until) for _, since, until in pauses(rank)]
    found = []
    for a, b in pairwise(times):
        paused = sum(min(until, b) - max(since, a) for since, until in breaks if since < b and until > a)
        found.append((b - a - paused) * NS)
    return found


def _stalls(times: Sequence[float], usual: float | None) -> Figure:
    if usual is None or not times:
        return Figure(None, NO_STEPS)
    if not sum(times) > 0:
        return Figure(None, reason("steps-took-no-time"))
    return Figure(sum(time - usual for time in times if time > STALL * usual) / sum(times))


def _recovery(before: RankColumns, after: RankColumns) -> Recovery | None:
    """None where the next attempt did not get as far, or began anew."""
    if before.steps is None or after.steps is None:
        return None
    reached, left = int(before.steps.step[-1]), int(before.steps.t[-1])
    again = [at for step, at in zip(after.steps.step.tolist(), after.steps.t.tolist(), strict=True) if step >= reached]
    begin, trained = after.mark("INIT_START"), after.mark("TRAIN_START")
    if not again or begin is None or trained is None:
        return None
    stopped = _wall(before, left)
    return Recovery(
        total=_wall(after, again[0]) - stopped,
        until_started=_wall(after, begin) - stopped,
        start=(trained - begin) * NS,
        redone=(again[0] - trained) * NS,
        lost_steps=reached - (int(after.steps.step[0]) - 1),
    )


def _ratio(tries: Sequence[Try], ranks: Sequence[RankColumns], usual: float | None) -> Figure:
    """Each step counts once, however often it was done, and lasts as long as steps usually do."""
    end = tries[-1].ended
    if usual is None or end is None:
        return Figure(None, NO_STEPS if usual is None else reason("last-attempt-without-end"))
    steps = {step for rank in ranks if rank.steps is not None for step in rank.steps.step.tolist()}
    return Figure(min(1.0, len(steps) * usual / (end - tries[0].began)))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
