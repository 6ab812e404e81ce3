"""A worker's business with the ledger, done by a thread beside training: tell what ended, make and claim what is next.

So a trial is followed by the next at once, however slow the ledger is. The entry that is held ready is claimed already;
should this worker be lost, the controller gives it back like the one in training.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.ledger.ledger import Entry, Ledger
from trainmark.automl.search.generator import Generator, family

_IDLE_SECONDS = 0.5


class Assignment(msgspec.Struct, frozen=True):
    """What to train: layers from number `body` on were added by the search, `parent` is to inherit from."""

    entry: Entry
    round: int
    body: int
    parent: Entry | None


class Outcome(msgspec.Struct, frozen=True):
    """How a trial went: `value` is None where it failed, `fields` go into its entry."""

    value: float | None
    pruned: bool = False
    fields: dict[str, Any] = {}


class Aide:
    """What else the thread is to do; here: nothing."""

    def prepare(self, given: Assignment) -> None:
        """What to train next is known."""

    def save(self, number: int) -> None:
        """The ledger is about to hear how a trial went. What it left must be safe before."""

    def told(self, number: int, entries: list[Entry]) -> None:
        """The ledger knows how a trial went; `entries` are all there are."""


class Desk:
    def __init__(
        self, experiment: Experiment, ledger: Ledger, generator: Generator, owner: str, aide: Aide | None = None
    ) -> None:
        self._experiment, self._ledger, self._generator, self._owner = experiment, ledger, generator, owner
        self._aide = aide or Aide()
        self._tells: list[tuple[int, Outcome]] = []
        self._begun: Entry | None = None
        self._ready: Assignment | None = None
        self._all_done = self._looked_in_vain = False
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None

    @property
    def generate_seconds(self) -> float | None:
        return self._generator.seconds

    def begin(self, entry: Entry) -> None:
        """Training of an entry begins: time to do the rest."""
        self._begun = entry
        self._start()

    def tell(self, number: int, outcome: Outcome) -> None:
        """Will be told as soon as the next training has begun."""
        self._tells.append((number, outcome))

    def next(self, over: Callable[[], bool]) -> Assignment | None:
        """What to train next; None when nothing is left, or it is over."""
        while not over():
            self._join()
            if self._ready is not None:
                ready, self._ready = self._ready, None
                return ready
            if self._all_done and not self._tells:
                return None
            if self._looked_in_vain:
                # Others still train; one of them may be lost and leave its entry behind.
                time.sleep(_IDLE_SECONDS)
            self._start()
        return None

    def close(self) -> None:
        """Tells what is to be told, and gives back what was held ready."""
        self._join()
        self._exchange(claim=False)
        self._ledger.release(self._owner)

    # ---- the thread

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="desk", daemon=True)
            self._thread.start()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failed is not None:
            raise self._failed

    def _work(self) -> None:
        try:
            claimed = self._exchange(claim=self._ready is None)
            if self._ready is None:
                self._ready = self._assignment(claimed) if claimed is not None else self._make()
                self._looked_in_vain = self._ready is None
                if self._ready is not None:
                    self._aide.prepare(self._ready)
        except BaseException as error:
            self._failed = error

    def _exchange(self, *, claim: bool) -> Entry | None:
        """Says what is to be said and claims what waits, all at once: every write is one that all others wait for."""
        # A training may end meanwhile, and its word be added.
        words = self._tells.copy()
        for number, _ in words:
            self._aide.save(number)
        with self._ledger.at_once():
            if self._begun is not None:
                self._ledger.mark_begun(self._begun)
            for number, outcome in words:
                self._ledger.tell(number, outcome.value, pruned=outcome.pruned, **outcome.fields)
            claimed = self._claim() if claim else None
        self._begun = None
        if words:
            entries = self._ledger.entries()
            for number, _ in words:
                self._aide.told(number, entries)
        del self._tells[: len(words)]
        return claimed

    def _claim(self) -> Entry | None:
        """What was left behind, else what was made here."""
        for entry in self._ledger.waiting(self._owner, self._experiment.architectures):
            if self._ledger.claim(entry, self._owner):
                return entry
        return None

    def _make(self) -> Assignment | None:
        """Makes one and claims it; None when there can be no more."""
        most = self._experiment.architectures
        while True:
            entries = self._ledger.entries()
            if len(entries) >= most:
                self._all_done = all(entry.ended for entry in entries[:most])
                return None
            self._generator.make(entries)
            claimed = self._claim()
            if claimed is not None:
                return self._assignment(claimed)

    def _assignment(self, entry: Entry) -> Assignment:
        body = len(self._generator.graph_of(family(self._ledger, entry)).layers)
        parent = None if entry.parent is None else self._ledger.known(entry.parent)
        taken = msgspec.structs.replace(entry, owner=self._owner, state="running")
        return Assignment(taken, self._experiment.round_of(entry.number), body, parent)
