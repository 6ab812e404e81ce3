"""The time that a run may take: no block is begun that would not end in time, once the least number of them is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason, reason
from trainmark.run import session
from trainmark.run.campaign import Companion
from trainmark.run.observers import Observer
from trainmark.store import journal
from trainmark.store.journal import Record
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState

# Why the rounds that are left were not run.
TIME_IS_UP = "time-is-up"


def seconds_worked(records: Sequence[Record]) -> float:
    """How long controllers worked on a run, without the pauses between them."""
    ends: dict[int, tuple[int, int]] = {}
    for record in records:
        first, last = ends.get(record.epoch, (record.wall, record.wall))
        ends[record.epoch] = min(first, record.wall), max(last, record.wall)
    return sum(last - first for first, last in ends.values()) / 1e9


class Budget(Companion):
    """Watches which blocks are over, and how long one takes."""

    def __init__(self, plan: Plan, state: RunState, worked: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan, self._clock = plan, clock
        self._began = clock() - worked
        self._begun = {ref for ref, one in state.rounds.items() if one.attempts}
        self._over = {ref for ref in self._begun if state.is_over(ref)}
        # Where the first block that is not over is, which only moves on.
        self._at = 0

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        del case, attempt
        self._begun.add(ref)
        self._over.discard(ref)

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        del case, ended
        self._over.add(ref)

    def ending(self) -> Reason | None:
        limit, blocks = self._plan.blocks_within, self._plan.blocks
        while self._at < len(blocks) and self._over.issuperset(blocks[self._at]):
            self._at += 1
        if limit is None or self._at < self._plan.least_blocks or self._at >= len(blocks):
            return None
        if not self._begun.isdisjoint(blocks[self._at]):
            return None  # a block that was begun is finished: half of one compares nobody
        spent = self._clock() - self._began
        if spent + (spent / self._at if self._at else 0.0) <= limit:
            return None
        return reason("time-is-up", minutes=limit / 60)


@contextmanager
def companion(run: RunDir, plan: Plan, observer: Observer) -> Iterator[Companion]:
    del observer
    worked = seconds_worked(journal.read(run.path).records)
    yield Budget(plan, session.state_of(run, plan), worked)
