"""A worker: trains one architecture after the other until the experiment is over.

`TrialClient` speaks with the ledger in a thread of its own while the worker trains: it tells the result of the trial
before and claims the next one, so that a trial follows the other at once however slow the ledger is. When the worker is
lost, the controller gives back both claims, and the ledger and the trial files hold all that is needed to go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.ledger.ledger import Entry, Ledger
from trainmark.automl.search.generator import Generator, start_model_of, summary
from trainmark.automl.search.hpo import Tried
from trainmark.reasons import Reason, reason

# An entry during whose training so many workers crashed is not tried again.
MOST_BEGUN = 3
_IDLE_SECONDS = 0.5

Note = Callable[[str, dict[str, Any]], None]


class Assignment(msgspec.Struct, frozen=True):
    """What to train: layers from number `body` on were added by the search, `parent` is to inherit from, `searched` are
    trainings of similar networks, trial by trial."""

    entry: Entry
    round: int
    body: int
    parent: Entry | None
    searched: list[list[Tried]] = []


class Outcome(msgspec.Struct, frozen=True):
    """How a trial went: `value` is None where it failed, `fields` go into its entry."""

    value: float | None
    pruned: bool = False
    why: Reason | None = None
    fields: dict[str, Any] = {}
    # Of the network: parameters, operations for an image forward, and the best hyper-parameters; for the report alone.
    network: dict[str, Any] = {}


class Trainer(Protocol):
    """Trains one entry."""

    def __call__(self, given: Assignment, /) -> Outcome: ...


class Hooks:
    """What else is done in the client's thread; here nothing."""

    def prepare(self, given: Assignment) -> None:
        """What to train next is known."""

    def save(self, number: int) -> None:
        """The result of a trial is about to be written: what the trial left must be saved before."""

    def saved(self, number: int, entries: list[Entry]) -> None:
        """The result of a trial was written; `entries` are all there are."""


def work(client: TrialClient, trainer: Trainer, note: Note, over: Callable[[], bool]) -> None:
    """`over`: whether the time is up."""
    while (given := client.next(over)) is not None:
        entry = given.entry
        client.begin(entry)
        note("automl_begin", {**summary(entry), "round": given.round, "wall": time.time()})
        if entry.begun >= MOST_BEGUN:
            outcome = Outcome(None, why=reason("automl-crashed-workers", count=entry.begun))
        else:
            outcome = trainer(given)
        client.tell(entry, outcome)
        result = {"number": entry.number, "value": outcome.value, "pruned": outcome.pruned}
        more = {"why": msgspec.to_builtins(outcome.why), "generate_cpu_s": client.generate_seconds, **outcome.network}
        note("automl_end", {**result, **more, "wall": time.time()})
    client.close()


class TrialClient:
    def __init__(
        self, experiment: Experiment, ledger: Ledger, generator: Generator, owner: str, hooks: Hooks | None = None
    ) -> None:
        self._experiment, self._ledger, self._generator, self._owner = experiment, ledger, generator, owner
        self._hooks = hooks or Hooks()
        self._results: list[tuple[Entry, Outcome]] = []
        self._begun: Entry | None = None
        self._ready: Assignment | None = None
        self._all_done = self._found_none = False
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None

    @property
    def generate_seconds(self) -> float | None:
        return self._generator.seconds

    def begin(self, entry: Entry) -> None:
        """Training of an entry begins: time to do the rest."""
        self._begun = entry
        self._start()

    def tell(self, entry: Entry, outcome: Outcome) -> None:
        """The ledger gets the result as soon as the next training has begun."""
        self._results.append((entry, outcome))

    def next(self, over: Callable[[], bool]) -> Assignment | None:
        """What to train next; None when nothing is left, or it is over."""
        while not over():
            self._join()
            if self._ready is not None:
                ready, self._ready = self._ready, None
                return ready
            if self._all_done and not self._results:
                return None
            if self._found_none:
                # Others still train; one of them may be lost and its entry given back.
                time.sleep(_IDLE_SECONDS)
            self._start()
        return None

    def close(self) -> None:
        """Tells the last results, and gives back what was held ready."""
        self._join()
        self._tell_results()
        self._ledger.release(self._owner)

    # ---- the thread

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._exchange, name="ledger", daemon=True)
            self._thread.start()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failed is not None:
            raise self._failed

    def _exchange(self) -> None:
        try:
            self._tell_results()
            if self._ready is None:
                claimed = self._claim()
                self._found_none = claimed is None
                if claimed is not None:
                    self._ready = self._assignment(claimed)
                    self._hooks.prepare(self._ready)
        except BaseException as error:
            self._failed = error

    def _tell_results(self) -> None:
        # A training may end meanwhile, and its result be added.
        results = self._results.copy()
        if self._begun is not None:
            self._ledger.mark_begun(self._begun)
            self._begun = None
        for entry, outcome in results:
            self._hooks.save(entry.number)
            self._ledger.tell(entry, outcome.value, pruned=outcome.pruned, why=outcome.why, **outcome.fields)
        if results:
            entries = self._ledger.entries()
            for entry, _ in results:
                self._hooks.saved(entry.number, entries)
        del self._results[: len(results)]

    def _claim(self) -> Entry | None:
        """An entry that was given back, else a new one; None when there is neither."""
        entries = self._ledger.entries()
        for entry in entries:
            if entry.state == "waiting":
                claimed = self._ledger.claim(entry, self._owner)
                if claimed is not None:
                    return claimed
        made = self._generator.make(entries)
        self._all_done = made is None and all(entry.ended for entry in self._ledger.entries())
        return made

    def _assignment(self, entry: Entry) -> Assignment:
        body = len(self._generator.graph_of(start_model_of(self._ledger, entry)).layers)
        parent = None if entry.parent is None else self._ledger.known(entry.parent)
        round_number, hpo = self._experiment.round_of(entry.number), self._experiment.hpo
        searches = hpo.searches and hpo.space and round_number >= hpo.from_round
        searched = self._generator.searched_nearby(entry, self._ledger.entries()) if searches else []
        return Assignment(entry, round_number, body, parent, searched)
