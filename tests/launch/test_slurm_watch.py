"""Asking Slurm: how often, for how many, and what is believed when its answers disagree."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.launch.slurm import queue as slurm_watch
from trainmark.launch.slurm.queue import QueueWatch


class Slurm:
    """`squeue` and `sacct` on the PATH that print a file and keep a list of their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 1000.0
        for name in ("squeue", "sacct"):
            script = folder / name
            script.write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.calls\ncat {folder}/{name}.out || exit 1\n')
            script.chmod(0o755)

    def monotonic(self) -> float:
        return self.now

    def says(self, name: str, text: str | None) -> None:
        file = self.folder / f"{name}.out"
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)

    def calls(self, name: str) -> list[str]:
        file = self.folder / f"{name}.calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    made = Slurm(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm_watch, "time", made)
    return made


def serve(watch: QueueWatch, slurm: Slurm, until: Callable[[], object], seconds: float = 0.0) -> None:
    """Lets `seconds` of the watch's own time pass, then waits for the answers it asked for."""
    slurm.now += seconds
    deadline = time.monotonic() + 20
    watch.step()
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)
        watch.step()
    assert until()


def test_one_question_for_all_jobs_and_ever_fewer(slurm: Slurm) -> None:
    slurm.says("squeue", "".join(f"{number}|RUNNING|None|N/A|n1\n" for number in range(1, 1001)))
    watch = QueueWatch(None)
    for number in range(1, 1001):
        watch.want(str(number))
    serve(watch, slurm, lambda: watch.job("1000"))
    assert len(slurm.calls("squeue")) == 1 and "1,2,3," in slurm.calls("squeue")[0]
    for _ in range(600):  # ten minutes in which nothing happens
        slurm.now += 1.0
        watch.step()
        if watch._calls:
            serve(watch, slurm, lambda: not watch._calls)
    assert 10 <= len(slurm.calls("squeue")) <= 18
    assert slurm.calls("sacct") == [], "accounting is asked only how something ended"


def test_what_was_known_stays_while_slurmctld_is_away(slurm: Slurm) -> None:
    slurm.says("squeue", "7|RUNNING|None|N/A|n1\n")
    watch = QueueWatch(None)
    watch.want("7")
    serve(watch, slurm, lambda: watch.job("7"))
    slurm.says("squeue", None)
    serve(watch, slurm, lambda: len(slurm.calls("squeue")) == 2 and not watch._calls, 2.0)
    found = watch.job("7")
    assert found is not None and found.state == "RUNNING" and watch.end("7") is None


def test_accounting_lags_behind(slurm: Slurm) -> None:
    """squeue has forgotten the job, accounting has it running: nothing is decided until it says more."""
    slurm.says("squeue", "")
    slurm.says("sacct", "7|RUNNING|0:0|a|Unknown|n1|None\n")
    watch = QueueWatch(None)
    watch.want("7")
    serve(watch, slurm, lambda: slurm.calls("sacct") and not watch._calls)
    assert watch.end("7") is None
    slurm.says("sacct", "7|CANCELLED by 1000|0:0|a|b|n1|None\n")
    serve(watch, slurm, lambda: watch.end("7"), 2.0)
    found = watch.end("7")
    assert found is not None and (found.state, found.by) == ("CANCELLED", "1000")


def test_without_accounting_the_queue_is_believed_after_a_while(slurm: Slurm) -> None:
    slurm.says("squeue", "7|TIMEOUT|TimeLimit|N/A|n1\n")
    slurm.says("sacct", None)
    watch = QueueWatch(None)
    watch.want("7")
    serve(watch, slurm, lambda: watch.job("7") and slurm.calls("sacct") and not watch._calls)
    assert watch.end("7") is None
    slurm.now += 11.0
    found = watch.end("7")
    assert found is not None and found.state == "TIMEOUT"
    slurm.says("squeue", "")
    serve(watch, slurm, lambda: watch.job("7") is None, 4.0)
    slurm.now += 31.0
    gone = watch.end("7")
    assert gone is not None and gone.state == "UNKNOWN"
