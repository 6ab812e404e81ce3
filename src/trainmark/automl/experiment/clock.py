"""The time of an experiment: it begins with the first training step of any worker, so that waiting in a queue, starting
and importing count against nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.ledger.ledger import Ledger

# How often the ledger is asked whether another worker has begun.
_LOOK_SECONDS = 2.0
# No pause between two trials is longer, unless a worker has nothing to do.
_PAUSE_SECONDS = 60.0


class Clock:
    """`params`: those of the worker's case. Runs of older versions have a fixed end there."""

    def __init__(self, experiment: Experiment, ledger: Ledger, params: Mapping[str, Any]) -> None:
        self._experiment, self._ledger = experiment, ledger
        self._until = float(params.get("until") or 0.0) or None
        self._looked = 0.0
        # When this worker's last epoch ended.
        self._worked: float | None = None

    def begin(self, owner: str) -> None:
        """A worker's first training step."""
        if self._until is None:
            self._until = self._ledger.start_clock(owner, time.time()) + self._experiment.seconds

    def until(self) -> float | None:
        """When the experiment is over; None while nobody trains."""
        if self._until is None and time.monotonic() - self._looked > _LOOK_SECONDS:
            began = self._ledger.began()
            self._until = None if began is None else began + self._experiment.seconds
            self._looked = time.monotonic()
        return self._until

    def worked(self, end: float) -> None:
        """This worker ended an epoch."""
        self._worked = end

    def over(self) -> bool:
        """Whether no further epoch is begun. A worker whose last one ended just before the end begins another: what is
        judged is the time from the first epoch to the last, and it must not fall short by a pause between trials."""
        until, now = self.until(), time.time()
        if until is None or now < until:
            return False
        return self._worked is None or self._worked >= until or now >= until + _PAUSE_SECONDS

    def late(self) -> bool:
        """Whether an epoch that is under way is left unfinished."""
        until = self.until()
        return until is not None and time.time() >= until + self._experiment.overtime
