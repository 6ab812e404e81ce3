"""Observers of a run: the base class whose methods the loop calls, and several observers as one."""

from __future__ import annotations

from pathlib import Path

from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason


class Observer:
    """What the loop calls while it works, in its own thread. Subclasses override what they need."""

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        """An attempt is about to be submitted."""

    def tick(self, attempt_dir: Path) -> None:
        """An attempt is under way; called about twice a second."""

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        """An attempt ended, or a case was skipped."""

    def waiting(self, ref: RoundRef, waits_for: Reason | None) -> None:
        """An attempt waits in a queue, and for what; None: it has begun."""

    def note(self, note: Reason) -> None:
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

    def waiting(self, ref: RoundRef, waits_for: Reason | None) -> None:
        for observer in self._observers:
            observer.waiting(ref, waits_for)

    def note(self, note: Reason) -> None:
        for observer in self._observers:
            observer.note(note)

    def close(self) -> None:
        for observer in self._observers:
            observer.close()
