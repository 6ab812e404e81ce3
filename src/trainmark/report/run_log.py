"""`run.log`, and how a round ended in one line: what a run's observers are told, in English."""

from __future__ import annotations

import time
from pathlib import Path

from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason
from trainmark.report.i18n.speaker import say
from trainmark.run.observers import Observer
from trainmark.spec.states import JobState
from trainmark.store.rundir import RUN_LOG, RunDir


class RunLog(Observer):
    """A line for everything that happened, with its time. Progress is in the heartbeats instead."""

    def __init__(self, run: RunDir) -> None:
        self._file: Path = run.path / RUN_LOG

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self._write(f"{case.case} round {ref.round} attempt {attempt}: started")

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._write(outcome_line(case, ref, ended))

    def note(self, note: Reason) -> None:
        self._write(say(note))

    def _write(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def outcome_line(case: CasePlan, ref: RoundRef, ended: Ended) -> str:
    """How a round ended, in one line."""
    head = case.case if ended.state is JobState.SKIPPED else f"{case.case} round {ref.round}"
    return f"{head}: {ended.state}" + (f": {say(ended.reason)}" if ended.reason else "")
