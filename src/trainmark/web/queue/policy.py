"""Which jobs start now, which make way, and why the others wait. A pure function of what is there.

Order: jobs that are not preemptible first, then by priority, which grows while a job waits, then by age. The first that
does not fit keeps its hosts: another may pass it only if it will be over, by its own time limit, before the first could
start at all. So the wait of a job that is not preemptible is bounded: no job that was queued later than
`(highest − own priority) × AGE_SECONDS` after it goes before it, and each that does is bounded by its time limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trainmark.reasons import Reason, reason

# Seconds of waiting that are worth one step of priority.
AGE_SECONDS = 60.0
# What ending a job may take beyond its time limit.
GRACE_SECONDS = 60.0

# Host → its slots, or those of them that something holds.
Slots = dict[str, frozenset[int]]


class Waiting(msgspec.Struct, frozen=True):
    """`needs`: host → how many of its slots."""

    id: str
    needs: Mapping[str, int]
    priority: int
    queued: float
    limit: float
    preemptible: bool = False


class Going(msgspec.Struct, frozen=True):
    """`ends`: when its time limit is over; `leaving`: it was told to make way or to stop already."""

    id: str
    slots: Mapping[str, frozenset[int]]
    ends: float
    preemptible: bool = False
    priority: int = 0
    leaving: bool = False


class Decision(msgspec.Struct, frozen=True):
    start: dict[str, Slots]
    preempt: list[str]
    reasons: dict[str, Reason]


def rank(job: Waiting, now: float) -> tuple[bool, float, float, str]:
    """The smallest goes first."""
    return job.preemptible, -(job.priority + (now - job.queued) / AGE_SECONDS), job.queued, job.id


def decide(
    waiting: Iterable[Waiting], going: Sequence[Going], slots: Mapping[str, frozenset[int]], now: float
) -> Decision:
    free = {host: set(all_of) for host, all_of in slots.items()}
    for one in going:
        for host, taken in one.slots.items():
            free.get(host, set()).difference_update(taken)
    decision = Decision({}, [], {})
    # Host → when the first job that waits for it could start at the latest.
    kept: dict[str, float] = {}
    behind = 0
    for job in sorted(waiting, key=lambda one: rank(one, now)):
        fits = all(len(free.get(host, ())) >= count for host, count in job.needs.items())
        passes = all(now + job.limit + GRACE_SECONDS <= kept[host] for host in job.needs if host in kept)
        if fits and passes:
            given = {host: frozenset(sorted(free[host])[:count]) for host, count in job.needs.items()}
            for host, numbers in given.items():
                free[host] -= numbers
            decision.start[job.id] = given
            continue
        decision.reasons[job.id] = _why(job, fits, behind)
        behind += 1
        latest = max((one.ends for one in going if any(host in one.slots for host in job.needs)), default=now)
        if not any(host in kept for host in job.needs):
            asked, enough = _make_way(job, free, going)
            if enough:
                # It starts as soon as they are gone: nobody takes what is free for it in the meantime.
                decision.preempt.extend(asked)
                latest = now
        for host in job.needs:
            kept[host] = min(kept.get(host, latest), latest)
    return decision


def _why(job: Waiting, fits: bool, before: int) -> Reason:
    if fits:
        return reason("waits-behind", before=before) if before else reason("waits-next")
    wanted = {"count": sum(job.needs.values()), "hosts": ", ".join(sorted(job.needs))}
    return reason("waits-for-slots", before=before, **wanted) if before else reason("waits-for-slots-next", **wanted)


def _make_way(job: Waiting, free: Mapping[str, set[int]], going: Sequence[Going]) -> tuple[list[str], bool]:
    """The preemptible jobs, of the lowest priority first, whose slots are enough, and whether they are."""
    if job.preemptible:
        return [], False
    coming = {host: set(free.get(host, ())) for host in job.needs}
    asked: list[str] = []
    for one in sorted(going, key=lambda one: (not one.leaving, one.priority, one.id)):
        if all(len(coming[host]) >= count for host, count in job.needs.items()):
            break
        if not (one.leaving or one.preemptible) or not any(host in coming for host in one.slots):
            continue
        for host, taken in one.slots.items():
            if host in coming:
                coming[host] |= taken
        if not one.leaving:
            asked.append(one.id)
    return asked, all(len(coming[host]) >= count for host, count in job.needs.items())
