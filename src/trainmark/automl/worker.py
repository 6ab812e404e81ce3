"""A worker: claims an entry, has it trained, tells how it went, and takes the next, until the experiment is over.

How a network is trained is somebody else's affair (`Trainer`); where steps are, too. Whatever happens to this process,
the ledger and the shelf hold all that is needed to go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from trainmark.automl.config import Experiment
from trainmark.automl.generator import Generator, family, summary
from trainmark.automl.ledger import Entry, Ledger

# An entry that ended so many workers is not tried again: it is the one that crashes them.
MOST_BEGUN = 3
# How often a worker looks whether there is something to do.
_IDLE_SECONDS = 0.5


class Outcome(msgspec.Struct, frozen=True):
    """How a trial went: `value` is None where it failed, `fields` go into its entry."""

    value: float | None
    pruned: bool = False
    # It was cut off and shall go on elsewhere, or later.
    unfinished: bool = False
    fields: dict[str, Any] = {}


class Trainer(Protocol):
    """Trains one entry. `body`: layers from this number on were added by the search. `parent`: to inherit from."""

    def __call__(self, entry: Entry, round_number: int, body: int, parent: Entry | None) -> Outcome: ...


Note = Callable[[str, dict[str, Any]], None]


class Worker:
    def __init__(
        self,
        experiment: Experiment,
        ledger: Ledger,
        generator: Generator,
        owner: str,
        trainer: Trainer,
        note: Note,
        over: Callable[[], bool],
    ) -> None:
        """`over`: whether the time is up."""
        self._experiment, self._ledger, self._generator, self._owner = experiment, ledger, generator, owner
        self._trainer, self._note, self._over = trainer, note, over

    def run(self) -> None:
        while not self._over():
            entry = self._next()
            if entry is None:
                return
            self._one(entry)

    def _one(self, entry: Entry) -> None:
        # The next is made while this one trains.
        self._generator.begin()
        entries = self._ledger.entries()
        round_number = self._experiment.round_of(entry.number)
        self._note("automl_begin", {**summary(entry), "round": round_number, "wall": time.time()})
        if entry.begun > MOST_BEGUN:
            outcome = Outcome(None, fields={"why": f"it crashed {MOST_BEGUN} workers"})
        else:
            root = family(entries, entry)
            body = len(self._generator.graph_of(root).layers)
            parent = None if entry.parent is None else entries[entry.parent]
            outcome = self._trainer(entry, round_number, body, parent)
        if outcome.unfinished:
            return
        counted = self._ledger.tell(entry.number, outcome.value, pruned=outcome.pruned, **outcome.fields)
        made = self._generator.seconds
        told = {"number": entry.number, "value": outcome.value, "pruned": outcome.pruned, "counted": counted}
        why = outcome.fields.get("why", "")
        self._note(
            "automl_end",
            {**told, "why": why, "wall": time.time(), "generate_cpu_s": made[-1] if made else None},
        )

    def _next(self) -> Entry | None:
        """Claims what should be trained next; None when nothing is left for this worker."""
        while not self._over():
            self._generator.wait()
            entries = self._ledger.entries()
            claimed = self._claim(entries)
            if claimed is not None:
                return claimed
            if len(entries) >= self._experiment.architectures:
                if all(entry.ended for entry in entries[: self._experiment.architectures]):
                    return None
                # Others still train; one of them may be lost and leave its entry behind.
                time.sleep(_IDLE_SECONDS)
            else:
                self._generator.begin()
        return None

    def _claim(self, entries: list[Entry]) -> Entry | None:
        """What was left behind first, then what was made here."""
        most = self._experiment.architectures
        mine = [entry for entry in entries[:most] if entry.state == "waiting" and entry.owner in ("", self._owner)]
        for entry in sorted(mine, key=lambda one: (one.owner, one.number)):
            if self._ledger.claim(entry, self._owner):
                return msgspec.structs.replace(entry, owner=self._owner, begun=entry.begun + 1, state="running")
        return None
