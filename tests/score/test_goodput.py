"""What a job makes of its time, from attempts with known truth."""

from __future__ import annotations

from typing import Any

import pytest

from trainmark.i18n.speaker import say
from trainmark.score.studies.goodput import Forecast, Try, forecast, goodput
from trainmark.spec.columns import Columns
from trainmark.store.columns import _File, _ranks

S = 1_000_000_000
WALL = 1_700_000_000 * S


class Rank:
    """Events of one rank; seconds on its own clock, which begins anywhere."""

    def __init__(self, clock: int, wall: int) -> None:
        self.clock, self.lines, self.seq = clock, [], 0  # type: ignore[var-annotated]
        self.add("INIT_START", 0, wall=WALL + wall * S)

    def add(self, kind: str, at: float, **more: Any) -> Rank:
        line = {"k": kind, "rank": 0, "seq": self.seq, "t": self.clock + int(at * S), **more}
        self.lines.append(line)
        self.seq += 1
        return self

    def columns(self) -> Columns:
        import msgspec

        file = _File()
        file.add(b"\n".join(msgspec.json.encode(line) for line in self.lines))
        return Columns(list(_ranks(file, "n1_noderank0")), [], len(self.lines))


def cut_off() -> tuple[Try, Try]:
    """10 s to start; steps of 1 s; a checkpoint of 0.5 s each 5 steps; killed in step 13; 20 s until it runs again."""
    first = Rank(5 * S, 2).add("NOTE", 4, name="imported").add("NOTE", 6, name="joined").add("INIT_END", 8)
    first.add("TRAIN_START", 8)
    at = 8.0
    for step in range(1, 13):
        at += 3 if step == 1 else 1
        first.add("STEP_END", at, step=step, n=4)
        if step % 5 == 0:
            first.add("PHASE_BEGIN", at, name="checkpoint").add("PHASE_END", at + 0.5, name="checkpoint")
            at += 0.5
    # The last step before the end was over at 2 + 23 s of wall time; the next process begins 20 s later.
    second = Rank(900 * S, 2 + 23 + 20).add("NOTE", 5, name="resumed_from_step", value=10)
    second.add("NOTE", 5, name="checkpoint_load_seconds", value=0.7).add("TRAIN_START", 7)
    for index, step in enumerate(range(11, 21), 1):
        second.add("STEP_END", 7 + index, step=step, n=4)
    wall = WALL / S
    return (
        Try(wall, wall + 30, first.columns(), agent_seconds=28.0, agent_began=wall + 1),
        Try(wall + 31, wall + 63, second.columns(), agent_seconds=31.0, agent_began=wall + 32),
    )


def test_every_part_of_the_time_is_found() -> None:
    found = goodput("mnist:pytorch:cpu:1:1:1", cut_off())
    start = {name: figure.value for name, figure in found.start.items() if figure.value is not None}
    expected = {"queue": 2, "process": 1, "import": 4, "rendezvous": 2, "build": 2, "first_step": 3}
    assert start == pytest.approx(expected, abs=1e-6)
    assert (
        say(found.start["compile"].reason) == "nothing is compiled"
        and say(found.start["image"].reason) == "no container"
    )
    assert found.time_to_first_step.value == pytest.approx(12, abs=1e-6)
    assert (found.checkpoint_save.value, found.checkpoint_load.value) == (pytest.approx(0.5), 0.7)
    assert found.checkpoint_every.value == pytest.approx(5.5) and found.stall_share.value == 0
    (recovery,) = found.recoveries
    assert recovery.lost_steps == 2
    parts = (recovery.until_started, recovery.start, recovery.redone)
    assert parts == pytest.approx((20, 7, 2), abs=1e-6) and recovery.total == pytest.approx(29, abs=1e-6)
    # 20 steps of 1 s, each counted once, in 63 s.
    assert found.effective_ratio.value == pytest.approx(20 / 63)


def test_an_image_is_told_apart_from_the_queue() -> None:
    import msgspec

    first, second = cut_off()
    found = goodput("x", [msgspec.structs.replace(first, container=True, image_seconds=1.5), second])
    assert found.start["image"].value == 1.5 and found.start["queue"].value == pytest.approx(0.5)
    told = goodput("x", [msgspec.structs.replace(first, container=True), second]).start["image"]
    assert told.value is None and say(told.reason) == "within `queue`"


def test_a_forecast_follows_from_the_stated_rate() -> None:
    found = goodput("mnist:pytorch:cpu:1:1:1", cut_off())
    told = forecast(found, failures_per_day=24, hours=10, save_every=100)
    assert isinstance(told, Forecast)
    # Each second of training: 0.5/100 for saving, 1/3600 failures of 27 s and half an interval, and the start.
    assert told.effective_ratio == pytest.approx(1 / (1 + 0.005 + (27 + 50) / 3600 + 12 / 36000))
    assert told.best_save_every == pytest.approx((2 * 0.5 * 3600) ** 0.5)
    assert told.best_effective_ratio >= told.effective_ratio
    nothing = goodput("x", [Try(0, 1, Columns([], [], 0))])
    assert "needs the time to start" in say(forecast(nothing, 1, 1, None))


def test_steps_that_hang_are_stalls() -> None:
    rank = Rank(0, 0).add("TRAIN_START", 1)
    at = 1.0
    for step in range(1, 102):
        at += 11 if step == 50 else 1
        rank.add("STEP_END", at, step=step, n=4)
    found = goodput("x", [Try(WALL / S, WALL / S + 200, rank.columns())])
    assert found.stall_share.value == pytest.approx(10 / 110)
