from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.score.case import measure, score_run
from trainmark.score.interval import log_t
from trainmark.spec.event import Event

S = 1_000_000_000


def rank_events(
    rank: int, steps: int, seconds: float, samples: int = 8, clock: int = 0, timing: str = "host", first: float = 0.0
) -> list[Event]:
    """A rank with steady steps; `clock` is where its own clock happens to stand, `first` what warm-up adds."""
    events = [
        Event("INIT_START", rank, 0, clock, timing=timing),
        Event("TRAIN_START", rank, 1, clock),
    ]
    now = clock + int(first * S)
    for step in range(1, steps + 1):
        now += int(seconds * S)
        events.append(Event("STEP_END", rank, step + 1, now, step=step, n=samples, data=int(0.1 * seconds * S)))
    return events


def test_known_speed_is_found() -> None:
    score = score_run(rank_events(0, 100, 0.2))
    assert score.throughput == pytest.approx(8 / 0.2, rel=1e-9)
    assert (score.steps, score.samples, score.reason) == (100, 800, "")
    assert score.data_wait == pytest.approx(0.1)


def test_slow_start_does_not_count() -> None:
    assert score_run(rank_events(0, 100, 0.2, first=30.0)).throughput == pytest.approx(40, rel=1e-9)


@given(st.integers(-(10**15), 10**15))
def test_clocks_of_ranks_are_never_compared(skew: int) -> None:
    events = rank_events(0, 80, 0.2) + rank_events(1, 80, 0.25, clock=10**16 + skew)
    # Both ranks' samples, the slower rank's time.
    assert score_run(events).throughput == pytest.approx(16 / 0.25, rel=1e-6)


def test_only_steps_that_all_ranks_finished_count() -> None:
    score = score_run(rank_events(0, 100, 0.2) + rank_events(1, 60, 0.2))
    assert score.window is not None and score.window.last == 60
    assert score.throughput == pytest.approx(80, rel=1e-9)
    assert score.samples == 160 * 8


def test_evaluation_is_out_of_throughput_and_in_sustained() -> None:
    events = rank_events(0, 100, 0.2)
    late = [
        Event(e.k, 0, e.seq + 1000, e.t + 5 * S, step=e.step, n=e.n)
        for e in events
        if e.k == "STEP_END" and (e.step or 0) > 50
    ]
    kept = [e for e in events if (e.step or 0) <= 50]
    pause_at = kept[-1].t
    pause = [
        Event("PHASE_BEGIN", 0, 900, pause_at, name="evaluate"),
        Event("PHASE_END", 0, 901, pause_at + 5 * S, name="evaluate"),
    ]
    score = score_run(kept + pause + late)
    assert score.throughput == pytest.approx(40, rel=1e-9)
    assert score.sustained == pytest.approx(40 * 89 * 0.2 / (89 * 0.2 + 5), rel=1e-2)


def test_too_short_is_said() -> None:
    assert "at least 30 steps and 10 s" in score_run(rank_events(0, 20, 0.2)).reason
    assert "at least 30 steps and 10 s" in score_run(rank_events(0, 100, 0.01)).reason


@pytest.mark.parametrize(("steps", "reason"), [(0, "no steps"), (1, "1 step")])
def test_no_window_means_no_speed(steps: int, reason: str) -> None:
    score = score_run(rank_events(0, steps, 0.2))
    assert score.throughput is None and reason in score.reason
    found = measure([score], "images", 1)["throughput"]
    assert found.value is None and reason in found.reason and found.n == 0


def test_queued_steps_are_timed_at_block_edges_only() -> None:
    events = rank_events(0, 100, 0.001, timing="host-enqueue")  # the host runs ahead of the device
    blocks = [Event("BLOCK", 0, 1000 + step, step * S // 5, step=step) for step in range(10, 101, 10)]
    assert score_run(events + blocks).throughput == pytest.approx(40, rel=1e-9)
    assert score_run(events).throughput is None


def test_one_run_has_no_interval_and_says_why() -> None:
    found = measure([score_run(rank_events(0, 100, 0.2))], "images", 7)["throughput"]
    assert (found.n, found.ci_low, found.ci_high, found.unit, found.seed) == (1, None, None, "images/s", 7)
    assert "at least 2 runs" in found.reason


def test_interval_of_three_runs_by_hand() -> None:
    runs = [score_run(rank_events(0, 100, seconds)) for seconds in (0.2, 0.21, 0.19)]
    found = measure(runs, "images", 1)["throughput"]
    logs = [math.log(8 / s) for s in (0.2, 0.21, 0.19)]
    mean = sum(logs) / 3
    half = 4.302652729911275 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    assert found.value == pytest.approx(math.exp(mean), rel=1e-9)
    assert found.ci_low == pytest.approx(math.exp(mean - half), rel=1e-6)
    assert found.ci_high == pytest.approx(math.exp(mean + half), rel=1e-6)


def test_interval_covers_what_it_claims() -> None:
    import random

    draw = random.Random(5)
    hits = 0
    for _ in range(2000):
        interval = log_t([100 * math.exp(draw.gauss(0, 0.02)) for _ in range(3)])
        assert interval is not None
        hits += interval[1] <= 100 <= interval[2]
    assert 0.935 <= hits / 2000 <= 0.965


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"n": -8}, "cannot be true"),
        ({"n": 0}, "cannot be true"),
        ({"n": 10**30}, "cannot be true"),
        ({"step": 40}, "cannot be true"),
        ({"t": 1}, "cannot be true"),
    ],
)
def test_impossible_records_give_no_headline(change: dict[str, int], complaint: str) -> None:
    events = rank_events(0, 100, 0.2)
    events[70] = msgspec.structs.replace(events[70], **change)
    score = score_run(events, world=1)
    assert complaint in score.reason
    assert measure([score], "images", 1)["throughput"].value is None


def test_what_is_said_twice_or_by_nobody_does_not_count() -> None:
    events = rank_events(0, 100, 0.2)
    foreign = [msgspec.structs.replace(event, rank=7) for event in events]
    negative = [msgspec.structs.replace(event, rank=-1) for event in events]
    score = score_run([*events, *events, *foreign, *negative], world=1)
    assert (score.throughput, score.steps, score.samples) == (pytest.approx(40, rel=1e-9), 100, 800)
