"""Observers of a run: the base class whose methods the loop calls, the run's log, and several observers as one."""

from __future__ import annotations

import time
from pathlib import Path

from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.report.i18n.speaker import say
from trainmark.spec.states import JobState


class Observer:
    """What the loop calls while it works, in its own thread. Subclasses override what they need."""

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        """An attempt is about to be submitted."""

    def tick(self, attempt_dir: Path) -> None:
        """An attempt is under way; called about twice a second."""

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        """An attempt ended, or a case was skipped."""

    def note(self, text: str) -> None:
        """Something worth a line in the log."""

    def close(self) -> None:
        """The loop has ended, in whatever way."""


class Observers(Observer):
    """Several observers, called in order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        for observer in self._observers:
            observer.started(case, ref, attempt)

    def tick(self, attempt_dir: Path) -> None:
        for observer in self._observers:
            observer.tick(attempt_dir)

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        for observer in self._observers:
            observer.ended(case, ref, ended)

    def note(self, text: str) -> None:
        for observer in self._observers:
            observer.note(text)

    def close(self) -> None:
        for observer in self._observers:
            observer.close()


class RunLog(Observer):
    """`run.log`: a line for everything that happened, with its time. Progress is in the heartbeats instead."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self.note(f"{case.case} round {ref.round} attempt {attempt}: started")

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self.note(outcome_line(case, ref, ended))

    def note(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


def outcome_line(case: CasePlan, ref: RoundRef, ended: Ended) -> str:
    """How a round ended, in one line."""

    head = case.case if ended.state is JobState.SKIPPED else f"{case.case} round {ref.round}"
    return f"{head}: {ended.state}" + (f": {say(ended.reason)}" if ended.reason else "")
