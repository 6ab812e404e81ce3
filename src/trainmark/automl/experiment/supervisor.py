"""The controller's part: watches the loop, gives back what lost workers had, and knows when the experiment is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Set

from trainmark.automl.experiment.clock import Clock
from trainmark.automl.experiment.config import Experiment
from trainmark.automl.ledger.ledger import Entry, Ledger
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason, reason
from trainmark.run.observers import Observer
from trainmark.spec.states import JobState

# How often the ledger is read, and how often progress is reported.
LOOK_SECONDS, _REPORT_SECONDS = 2.0, 20.0


class Supervisor(Observer):
    """Observes the loop: the loop knows who is lost, the ledger who had what."""

    def __init__(
        self,
        experiment: Experiment,
        clock: Clock,
        ledger: Ledger,
        slots: int,
        working: Set[int],
        note: Callable[[Reason], None],
    ) -> None:
        """`working`: the slots whose workers an earlier controller began and that may still train."""
        self._experiment, self._clock, self._ledger, self._note = experiment, clock, ledger, note
        self._looked, self._reported, self._done = 0.0, time.monotonic(), False
        for slot in range(slots):
            if slot not in working:
                self._ledger.release(f"slot{slot}")

    def ended(self, case: CasePlan, _ref: RoundRef, ended: Ended) -> None:
        """Whatever the worker had is free again: another goes on with it from its last epoch."""
        if ended.state is not JobState.SKIPPED:
            self._ledger.release(f"slot{case.params['slot']}")

    def ending(self) -> Reason | None:
        """Why no further worker is needed; None while some are."""
        if self._clock.over():
            return reason("automl-duration-over", duration=self._experiment.max_duration)
        if not self._done and time.monotonic() - self._looked > LOOK_SECONDS:
            entries = self._ledger.entries()
            self._report(entries)
            most = self._experiment.architectures
            self._done = len(entries) >= most and all(entry.ended for entry in entries[:most])
            self._looked = time.monotonic()
        return reason("automl-all-trials-done", count=self._experiment.max_trials) if self._done else None

    def _report(self, entries: list[Entry]) -> None:
        """How far it is, now and then; from the ledger, since reading all events would cost more every time."""
        if time.monotonic() - self._reported < _REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        values = [entry.value for entry in entries if entry.value is not None]
        ended = sum(entry.ended for entry in entries)
        until = self._clock.until() or time.time() + self._experiment.seconds
        minutes = max(0.0, until - time.time()) / 60
        if values and self._experiment.metric == "loss":
            error = 100 * (1 - max(values))
            self._note(reason("automl-progress-error", trials=ended, percent=error, minutes=minutes))
        elif values:
            self._note(reason("automl-progress-best", trials=ended, percent=100 * max(values), minutes=minutes))
        else:
            self._note(reason("automl-progress", trials=ended, minutes=minutes))
