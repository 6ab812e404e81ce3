"""What people who wait are told: what a round does, and how long it may still take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from trainmark.agent.events.reader import EventStream
from trainmark.cli.progress import _fitting
from trainmark.plan.records import Plan, RoundRef
from trainmark.run import busy, progress
from trainmark.run.progress import CountDown, Pace, Progress, Remaining
from trainmark.spec.length import Length
from trainmark.spec.site import Site
from trainmark.testing.launchers import case_plan

CASE = case_plan(("true",), ["here"], "mnist:pytorch:cpu:1:1:1")


def event(kind: str, **fields: object) -> bytes:
    return (json.dumps({"k": kind, "rank": 0, "seq": 1, "t": 1, **fields}, separators=(",", ":")) + "\n").encode()


def test_phases_are_named_as_they_come(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    stream = EventStream(0, str(spool))
    seen = [stream.phase]
    spool.touch()
    for line in (
        event("INIT_START"),
        event("NOTE", name="imported", value="2"),
        event("TRAIN_START"),
        b"".join(event("STEP_END", step=step, n=1) for step in range(1, 5)),
        b"".join(event("STEP_END", step=step, n=1) for step in range(5, 9)),
        event("PHASE_BEGIN", name="evaluate"),
        event("NOTE", name="evaluated_batches", value=3),
        event("PHASE_END", name="evaluate") + event("STEP_END", step=9, n=1),
        event("TRAIN_END"),
        event("NOTE", name="weights", value="x"),
    ):
        with spool.open("ab") as out:
            out.write(line)
        stream.take(10)
        seen.append(stream.phase)
    stream.close()
    assert seen == [
        "starting",
        "importing",
        "loading",
        "warming up",
        "warming up",
        "training",
        "evaluate",
        "evaluate",
        "training",
        "ending",
        "ending",
    ]


def test_a_round_by_time_counts_down_to_its_end(tmp_path: Path) -> None:
    """Steps of 0.2 s: 120 of them make 24 s, of which the first look saw none."""
    pace, length, left = Pace(), Length(), []
    for step in range(5, 121, 5):
        seen = Progress("RUNNING", 4.0 + 0.2 * step, step, 120, None)
        found = pace.seconds_left(tmp_path, seen, length)
        left += [] if found is None else [found]
    assert left == sorted(left, reverse=True) and abs(left[0] - 22) < 1 and left[-1] < 0.5
    fast = Pace()
    fast.seconds_left(tmp_path, Progress("RUNNING", 1.0, 100, 1050, None), length)
    found = fast.seconds_left(tmp_path, Progress("RUNNING", 2.0, 1100, 1050, None), length)
    assert found is not None and 15 < found < 17, "seconds are what is missing, not steps"


def test_time_left_grows_for_a_cause_only() -> None:
    now = 0.0
    shown = CountDown(lambda: now)
    assert shown.of(100.0, "round 1") == 100
    now = 10.0
    assert shown.of(200.0, "round 1") == 90, "an estimate that was made anew is no cause"
    assert shown.of(50.0, "round 1") == 50
    assert shown.of(70.0, "round 2") == 70


def test_each_case_has_its_own_pace() -> None:
    long = msgspec.structs.replace(CASE, case="gpt2:pytorch:cpu:1:1:2", length=Length())
    plan = Plan(1, "s", "closed", Site(hosts=["here"]), 1, 0, (CASE, long), ((RoundRef(0, 1), RoundRef(1, 1)),))
    remaining = Remaining(plan)
    assert remaining.seconds([RoundRef(0, 1)]) is None, "only a try can tell"
    usual = remaining.seconds([RoundRef(1, 1)])
    assert usual is not None and 20 < usual < 45
    remaining.ended(RoundRef(0, 1), 3.0)
    remaining.ended(RoundRef(1, 1), 30.0)
    assert remaining.seconds([RoundRef(0, 2), RoundRef(1, 2), RoundRef(1, 3)]) == 63.0


def test_a_line_fits_a_narrow_terminal() -> None:
    head, text = (
        "[12/18] resnet50:pytorch:cpu:1:2:3@batch=64,dtype=bf16 round 1/3",
        "  training  step 34/120  12 s left",
    )
    line = _fitting(head, text, 77)
    assert len(line) <= 77 and line.endswith(text) and line.startswith("[12/18] resnet50")
    assert _fitting(head, text, None) == head + text
    assert len(_fitting(head, text, 20)) == 20


def test_a_step_count_of_any_name_is_shown() -> None:
    bert = msgspec.structs.replace(CASE, params={"max_steps": 66})
    assert progress._steps(bert) == 66
    assert progress._steps(msgspec.structs.replace(bert, length=Length())) == 120


def test_a_busy_machine_is_named_with_those_who_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process that works, on a machine whose load is made up."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    assert busy.busy_machine() is None
    monkeypatch.setattr("os.getloadavg", lambda: (50.0, 0.0, 0.0))
    monkeypatch.setattr(busy, "_LEAST_SHARE", 0.0)
    monkeypatch.setattr(busy, "_NAMED", 10**6)
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        found = busy.busy_machine()
    finally:
        worker.kill()
        worker.wait()
    assert found is not None and found.code == "machine-busy" and f"(pid {worker.pid})" in found.arguments["processes"]
