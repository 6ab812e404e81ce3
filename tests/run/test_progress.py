"""What people who wait are told: what a round does, and how long it may still take."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.plans import plan as small_plan
from trainmark.agent.events.reader import EventStream
from trainmark.cli.progress import _Counted, _fitting, choose
from trainmark.launch.protocol import Ended
from trainmark.plan.records import Plan, RoundRef
from trainmark.reasons import reason
from trainmark.run import busy, progress
from trainmark.run.progress import CountDown, Pace, Progress, Remaining
from trainmark.spec.length import Length
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import RunDir
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


def test_a_round_that_takes_long_does_not_make_the_rest_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases without a known length, as those of the suite `smoke`: the rest goes by the rounds that are over."""
    now = 0.0
    monkeypatch.setattr("trainmark.cli.progress.time.monotonic", lambda: now)
    plan = small_plan([1, 1, 1, 1])
    counted = _Counted(RunDir(tmp_path), plan)
    shown = []
    for index, seconds in enumerate([20, 60]):
        counted.begin(plan.cases[index], RoundRef(index, 1), 1)
        for _ in range(seconds // 10):
            shown.append(counted._whole_left(None, RoundRef(index, 1)))
            now += 10.0
        counted.finish(RoundRef(index, 1), Ended(JobState.SUCCEEDED, reason("stopped")))
    assert shown == [None, None, 60, 50, 40, 40, 40, 40], "two more of 20 s each, whatever this one takes"
    counted.begin(plan.cases[2], RoundRef(2, 1), 1)
    assert counted._whole_left(None, RoundRef(2, 1)) == 80, "another round ended: that is a cause"


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
    monkeypatch.setattr(busy, "BUSY", 0.5)
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


def test_steps_beyond_the_recipe_have_no_number_of_all(tmp_path: Path) -> None:
    """A round by time goes on after the steps that the band judges: `1535/1050` would be nonsense."""
    case = msgspec.structs.replace(CASE, params={"steps": 1050}, length=Length())
    node = tmp_path / "here_noderank0"
    node.mkdir()

    def shown(step: int, language: str) -> str:
        status = {"state": "RUNNING", "uptime": 9.0, "rate": 7.0, "ranks": [{"step": step, "phase": "training"}]}
        (node / "status.json").write_text(json.dumps(status))
        seen = progress.look(tmp_path, case)
        assert seen is not None
        return seen.text("images", language)

    assert shown(400, "en") == "training  step 400/1050  7.0 images/s"
    assert shown(1535, "en") == "training  step 1535  7.0 images/s"
    assert shown(1535, "zh") == "训练中  第 1535 步  7.0 images/s"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_progress_in_the_readers_language(tmp_path: Path, language: str) -> None:
    run, out = RunDir(tmp_path), io.StringIO()
    plan = small_plan([2])
    writer = journal.Journal(tmp_path, 1, contextlib.nullcontext)
    writer.append(journal.ATTEMPT, case=0, round=1, attempt=1, token="t")
    writer.append(journal.ENDED, case=0, round=1, attempt=1, state=JobState.SUCCEEDED)
    writer.close()
    shown = choose(out, run, plan, quiet=False, language=language)
    shown.started(plan.cases[0], RoundRef(0, 2), 2)
    shown.ended(plan.cases[0], RoundRef(0, 2), Ended(JobState.SUCCEEDED, reason("stopped")))
    text = out.getvalue()
    words = {"en": ["2 round(s)", "round 2/2 attempt 2"], "zh": ["2 轮", "第 2/2 轮 第 2 次尝试", "第 2 轮：SUCCEEDED"]}
    assert all(word in text for word in words[language]), text
    assert "[2/2]" in text, "the round that is over is counted when a run goes on"


def test_wide_characters_fit_the_line() -> None:
    line = _fitting("[1/2] mnist:pytorch:cpu:1:1:2 第 1/2 轮", "  训练中  第 1535 步", 40)
    assert line.endswith("第 1535 步") and "…" in line
    assert sum(2 if ord(char) > 0x2E80 else 1 for char in line) <= 40
