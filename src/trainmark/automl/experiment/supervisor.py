"""The controller's part: watches the loop, gives back what lost workers had, and knows when the experiment is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Set

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.ledger.ledger import Entry, Ledger
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.run.observers import Observer
from trainmark.spec.states import JobState

# Reading the whole ledger is not done at every look, and not all that is seen is told.
_LOOK_SECONDS, _TELL_SECONDS = 2.0, 20.0


class Foreman(Observer):
    """Observes the loop: the loop knows who is lost, the ledger who had what."""

    def __init__(
        self,
        experiment: Experiment,
        ledger: Ledger,
        until: float,
        slots: int,
        working: Set[int],
        say: Callable[[str], None],
    ) -> None:
        """`working`: the places whose workers may still be at it, begun by an earlier controller."""
        self._experiment, self._ledger, self._until, self._say = experiment, ledger, until, say
        self._looked, self._told, self._done = 0.0, time.monotonic(), False
        for slot in range(slots):
            if slot not in working:
                self._ledger.release(f"slot{slot}")

    def ended(self, case: CasePlan, _ref: RoundRef, ended: Ended) -> None:
        """Whatever the worker had is free again: another goes on with it from its last epoch."""
        if ended.state is not JobState.SKIPPED:
            self._ledger.release(f"slot{case.params['slot']}")

    def ending(self) -> str:
        """Why no further worker is needed; empty while some are."""
        if time.time() >= self._until:
            return f"the experiment's time of {self._experiment.max_duration} is up"
        if not self._done and time.monotonic() - self._looked > _LOOK_SECONDS:
            entries = self._ledger.entries()
            self._tell(entries)
            most = self._experiment.architectures
            self._done = len(entries) >= most and all(entry.ended for entry in entries[:most])
            self._looked = time.monotonic()
        return f"all {self._experiment.max_trials} trials are done" if self._done else ""

    def _tell(self, entries: list[Entry]) -> None:
        """How far it is, now and then; from the ledger, since reading all events would cost more every time."""
        if time.monotonic() - self._told < _TELL_SECONDS:
            return
        self._told = time.monotonic()
        values = [entry.value for entry in entries if entry.value is not None]
        best = f", best accuracy {100 * max(values):.2f} %" if values else ""
        ended = sum(entry.ended for entry in entries)
        left = max(0.0, self._until - time.time())
        self._say(f"{ended} trials done{best}; {left / 60:.1f} min left at most")
