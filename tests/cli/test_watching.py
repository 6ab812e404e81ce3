"""`trainmark top` and `logs -f`: what is waited for, in the reader's language, in a terminal of 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plans import plan
from trainmark.cli import logs, terminal, top
from trainmark.i18n.speaker import say
from trainmark.reasons import reason
from trainmark.report.render.text import narrow
from trainmark.run import control
from trainmark.run.control import RoundStatus, Running, RunStatus
from trainmark.run.progress import Progress
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

QUEUED = reason("slurm-waits-in-queue")


@pytest.mark.parametrize(
    ("round_", "english", "chinese"),
    [
        (
            RoundStatus("x", "images", 2, 1, JobState.RUNNING),
            "waiting for x round 2: starting",
            "等待 x 第 2 轮：启动中",
        ),
        (
            RoundStatus("x", "images", 2, 1, JobState.RUNNING, None, Progress("RUNNING", 1, 3, 9, None, "evaluating")),
            "waiting for x round 2: evaluating",
            "等待 x 第 2 轮：评估中",
        ),
        (
            RoundStatus("x", "images", 2, 1, JobState.PENDING, QUEUED),
            "waiting for x round 2: it waits in the queue",
            "等待 x 第 2 轮：它在队列中等待",
        ),
        (RoundStatus("x", "images", 2, 0, JobState.PENDING), "waiting for the next round to start", "等待下一轮开始"),
    ],
)
def test_what_is_waited_for(monkeypatch: pytest.MonkeyPatch, round_: RoundStatus, english: str, chinese: str) -> None:
    over = RoundStatus("x", "images", 1, 1, JobState.SUCCEEDED, reason("all-ranks-ended"))
    found = RunStatus("r", JobState.RUNNING, None, [over, round_])
    monkeypatch.setattr(control, "status", lambda run: found)
    told = logs.waited_for(RunDir(Path("r")))
    assert (say(told, "en"), say(told, "zh")) == (english, chinese)


def test_top_is_chinese_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = plan([1])
    waits = Running(RunDir(tmp_path / "r"), made, made.cases[0], 1, None, {}, True, QUEUED)
    monkeypatch.setattr(control, "running", lambda runs: [waits])
    assert "waits: it waits in the queue" in top.screen(tmp_path)
    terminal.speak("zh")
    try:
        shown = top.screen(tmp_path, "zh")
    finally:
        terminal.speak("en")
    assert "等待：它在队列中等待" in shown and "waits" not in shown and shown.startswith("运行")


def test_a_table_that_is_too_wide_has_names_above_it() -> None:
    rows = [["run", "case", "round", "step"], ["20261118-094229-noop-0855", "noop:none:cpu:1:1:1", "1/1", "278/360"]]
    assert narrow(rows, 80, 2)[0].split() == rows[0]
    assert narrow(rows, 50, 2) == [
        "run  case",
        "    round  step",
        "20261118-094229-noop-0855  noop:none:cpu:1:1:1",
        "    1/1    278/360",
    ]
