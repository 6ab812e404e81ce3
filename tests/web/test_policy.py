"""The embedded queue's decisions, by example and by thousands of random jobs."""

from __future__ import annotations

import heapq
import random

import pytest

from trainmark.web.queue.policy import AGE_SECONDS, GRACE_SECONDS, Going, Waiting, decide

SLOTS = {"here": frozenset(range(4))}


def _job(name: str, count: int = 1, **more: object) -> Waiting:
    return Waiting(name, {"here": count}, **{"priority": 100, "queued": 0.0, "limit": 100.0, **more})  # type: ignore[arg-type]


def _going(name: str, numbers: set[int], **more: object) -> Going:
    return Going(name, {"here": frozenset(numbers)}, **{"ends": 100.0, **more})  # type: ignore[arg-type]


def test_slots_are_given_once_and_reasons_say_what_is_waited_for() -> None:
    found = decide([_job("a", 2), _job("b", 3, queued=1.0)], [_going("c", {1})], SLOTS, 5.0)
    assert found.start == {"a": {"here": frozenset({0, 2})}}
    assert found.reasons["b"].code == "waits-for-slots-next"
    assert found.reasons["b"].arguments == {"count": 3, "hosts": "here"}


def test_priority_grows_with_waiting() -> None:
    young, old = _job("young", 4, priority=110, queued=1000.0), _job("old", 4, priority=100, queued=0.0)
    assert list(decide([young, old], [], SLOTS, 1000.0).start) == ["old"]
    assert list(decide([young, _job("new", 4, queued=999.0)], [], SLOTS, 1000.0).start) == ["young"]


def test_a_small_job_passes_a_large_one_only_if_it_is_over_in_time() -> None:
    large, going = _job("large", 4), _going("going", {0}, ends=1000.0)
    short, long = _job("short", 1, queued=1.0, limit=100.0), _job("long", 1, queued=2.0, limit=5000.0)
    found = decide([large, short, long], [going], SLOTS, 10.0)
    assert set(found.start) == {"short"}
    assert set(found.reasons) == {"large", "long"}


def test_preemptible_jobs_make_way_when_that_helps() -> None:
    cheap = [_going("p", {0, 1}, preemptible=True, priority=5), _going("q", {2, 3}, preemptible=True, priority=50)]
    assert decide([_job("a", 2)], cheap, SLOTS, 0.0).preempt == ["p"]
    assert decide([_job("a", 2, preemptible=True)], cheap, SLOTS, 0.0).preempt == []
    held = [_going("p", {0}, preemptible=True), _going("f", {1, 2, 3})]
    assert decide([_job("a", 2)], held, SLOTS, 0.0).preempt == []  # it would not be enough
    leaving = [_going("p", {0, 1}, preemptible=True, leaving=True), _going("q", {2, 3}, preemptible=True)]
    assert decide([_job("a", 2)], leaving, SLOTS, 0.0).preempt == []  # it is enough without another


def test_hosts_do_not_wait_for_each_other() -> None:
    slots = {"n1": frozenset({0}), "n2": frozenset({0})}
    waiting = [Waiting("a", {"n1": 1}, 100, 0.0, 10.0), Waiting("b", {"n2": 1}, 100, 1.0, 10.0)]
    assert set(decide(waiting, [Going("x", {"n1": frozenset({0})}, 99.0)], slots, 5.0).start) == {"b"}


def simulate(count: int, seed: int) -> None:
    """Random jobs on one machine of eight slots: no slot is given twice, and no job that is not preemptible waits
    longer than what may go before it takes, one after another."""
    chance = random.Random(seed)
    slots = {"here": frozenset(range(8))}
    coming = []
    at = 0.0
    for number in range(count):
        at += chance.expovariate(1 / 40.0)
        job = Waiting(
            f"{number:05}",
            {"here": chance.choice((1, 1, 1, 2, 4, 8))},
            chance.choice((0, 100, 100, 200)),
            at,
            chance.uniform(10, 400),
            preemptible=chance.random() < 0.2,
        )
        coming.append(job)
    jobs = {job.id: job for job in coming}
    waiting: dict[str, Waiting] = {}
    going: dict[str, Going] = {}
    ends: list[tuple[float, str]] = []
    started: dict[str, float] = {}
    now, index = 0.0, 0
    while index < count or waiting or going:
        times = [coming[index].queued] if index < count else []
        times += [ends[0][0]] if ends else []
        now = max(now, min(times)) if times else now + 1.0
        while index < count and coming[index].queued <= now:
            waiting[coming[index].id] = coming[index]
            index += 1
        while ends and ends[0][0] <= now:
            ended, name = heapq.heappop(ends)
            if name in going and going[name].ends >= ended:
                del going[name]
        found = decide(waiting.values(), list(going.values()), slots, now)
        for name in found.preempt:
            assert going[name].preemptible
            del going[name]
            waiting[name] = jobs[name]
            heapq.heappush(ends, (now, ""))  # its slots are free, so it is decided again
        for name, given in found.start.items():
            taken = [number for one in going.values() for number in one.slots["here"]]
            assert not set(taken) & given["here"] and len(given["here"]) == jobs[name].needs["here"]
            job = waiting.pop(name)
            started[name] = now
            going[name] = Going(name, given, now + job.limit, job.preemptible, job.priority)
            heapq.heappush(ends, (now + job.limit * chance.uniform(0.1, 1.0), name))
        assert not (waiting and not going and not found.start and not found.preempt), "nothing runs and nothing starts"
    assert set(started) == set(jobs)
    firm = [job for job in coming if not job.preemptible]
    for job in firm:
        # Those that may go before it: of higher rank when both wait, or running when it came.
        latest = job.queued + (200 - job.priority) * AGE_SECONDS
        ahead = sum(
            one.limit + GRACE_SECONDS
            for one in firm
            if one.id != job.id and started[one.id] + one.limit >= job.queued and one.queued <= latest
        )
        assert started[job.id] - job.queued <= ahead + GRACE_SECONDS, job


@pytest.mark.parametrize("seed", range(2))
def test_random_jobs(seed: int) -> None:
    simulate(400, seed)


@pytest.mark.web
def test_ten_thousand_random_jobs() -> None:
    simulate(10_000, 7)
