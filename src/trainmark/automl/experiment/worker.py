"""A worker: trains what its desk gives it, one after the other, until the experiment is over.

How a network is trained is somebody else's affair (`Trainer`); where steps are, too. Whatever happens to this process,
the ledger and the shelf hold all that is needed to go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from trainmark.automl.ledger.desk import Assignment, Desk, Outcome
from trainmark.automl.search.generator import summary

# An entry that ended so many workers is not tried again: it is the one that crashes them.
MOST_BEGUN = 3


class Trainer(Protocol):
    """Trains one entry."""

    def __call__(self, given: Assignment, /) -> Outcome: ...


Note = Callable[[str, dict[str, Any]], None]


def work(desk: Desk, trainer: Trainer, note: Note, over: Callable[[], bool]) -> None:
    """`over`: whether the time is up."""
    while (given := desk.next(over)) is not None:
        entry = given.entry
        # Told, made and claimed meanwhile.
        desk.begin(entry)
        note("automl_begin", {**summary(entry), "round": given.round, "wall": time.time()})
        if entry.begun >= MOST_BEGUN:
            outcome = Outcome(None, fields={"why": f"it crashed {entry.begun} workers"})
        else:
            outcome = trainer(given)
        desk.tell(entry.number, outcome)
        told = {"number": entry.number, "value": outcome.value, "pruned": outcome.pruned}
        more = {"why": outcome.fields.get("why", ""), "generate_cpu_s": desk.generate_seconds}
        note("automl_end", {**told, **more, "wall": time.time()})
    desk.close()
