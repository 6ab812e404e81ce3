"""Bayesian optimisation over morphisms: of the neighbours of good architectures, the one that promises most."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import neighbours
from trainmark.automl.graph.space import Limits
from trainmark.automl.search.features import WIDTH, Numbers, features
from trainmark.automl.search.policy import Near, Option, Proposal, Trial, first, mutation, options_of, parents
from trainmark.automl.search.surrogate import Surrogate

OPTIONS = {
    # So many are drawn at random before the surrogate is asked: it must have something to learn from.
    "initial": Option(8, 0, 100_000),
    # Neighbours looked at for one architecture, and of how many parents.
    "candidates": Option(96, 1, 100_000),
    "parents": Option(12, 1, 10_000),
    # Deviations added to what is expected: the larger, the more is dared.
    "beta": Option(1.0, 0.0, 100.0),
    # How far values of one architecture vary, beside how far architectures do: a ratio of variances.
    "noise": Option(0.1, 1e-6, 100.0),
}
_BATCH = 256
# Of so many times as many good ones are parents chosen.
_CHOICE = 4


class MorphismBO:
    def __init__(
        self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any], near: Near = neighbours
    ) -> None:
        chosen = options_of("morphism-bo", options, OPTIONS)
        self._start, self._limits, self._near = list(start), limits, near
        self._candidates, self._parents, self._beta = chosen["candidates"], chosen["parents"], chosen["beta"]
        self._initial = chosen["initial"]
        self._surrogate = Surrogate(WIDTH, chosen["noise"])
        # Results not yet learnt; rows of what was seen and has no result yet; marks of all that was seen.
        self._results: list[Trial] = []
        self._rows: dict[int, Numbers] = {}
        self._marks: set[int] = set()
        # Those that can be parents, best first; of equal ones the older.
        self._ranked: list[tuple[float, int, Numbers, Trial]] = []
        self._worst = 0.0

    def tell(self, trial: Trial) -> None:
        self._results.append(trial)

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Random, epochs: int = 0, /) -> Proposal:
        begin = first(self._start, history, pending)
        if begin is not None:
            return begin
        if len(history) + len(pending) < self._initial:
            return self._blindly(history, pending, rng)
        self._learn(pending)
        for group in self._groups(history, pending):
            share = -(-self._candidates // len(group))
            drawn = [
                (Proposal(child, parent.number, (move,)), parent.seen + epochs)
                for parent in group
                for move, child in self._near(parent.graph, rng, share, self._limits)
            ]
            best = self._best(drawn)
            if best is not None:
                return best
        return self._blindly(history, pending, rng)

    def _blindly(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Random) -> Proposal:
        among = parents(history, pending)
        found = mutation(self._near, self._limits, rng, lambda: rng.choice(among))
        return found or Proposal(rng.choice(self._start))

    def _learn(self, pending: Sequence[Trial]) -> None:
        """Takes in what is new: trials with a result, and those under way, whose values will come."""
        new = [trial for trial in (*self._results, *pending) if trial.number not in self._rows]
        for begin in range(0, len(new), _BATCH):
            batch = new[begin : begin + _BATCH]
            seen, marks = features([trial.graph for trial in batch])
            self._surrogate.see(seen)
            self._marks.update(marks)
            self._rows.update((trial.number, row) for trial, row in zip(batch, seen, strict=True))
        rows: list[Numbers] = []
        values: list[float] = []
        epochs: list[float] = []
        for trial in self._results:
            row = self._rows.pop(trial.number)
            if trial.value is not None:
                self._worst = min(self._worst, trial.value) if self._ranked else trial.value
                insort(self._ranked, (-trial.value, trial.number, row, trial), key=lambda one: one[:2])
            rows.append(row)
            epochs.append(trial.seen)
            # What fails is worth as little as the worst, so that larger ones of its kind are not tried in turn.
            values.append(self._worst if trial.value is None else trial.value)
        if rows:
            self._surrogate.tell(np.stack(rows), values, epochs)
        self._results.clear()

    def _groups(self, history: Sequence[Trial], pending: Sequence[Trial]) -> Iterator[list[Trial]]:
        """Parents, the most promising first. A lucky value is seen through: what counts is what the surrogate makes of
        it and of all that is like it."""
        if not self._ranked:
            yield [*history, *pending][: self._parents]
            return
        for begin in range(0, len(self._ranked), _CHOICE * self._parents):
            some = self._ranked[begin : begin + _CHOICE * self._parents]
            trials = [trial for *_, trial in some]
            expected = self._expected(np.stack([row for _, _, row, _ in some]), [trial.seen for trial in trials])
            ranked = [trials[at] for at in np.argsort(-expected, kind="stable").tolist()]
            yield from (ranked[at : at + self._parents] for at in range(0, len(ranked), self._parents))

    def _expected(self, rows: Numbers, seen: Sequence[float]) -> Numbers:
        """What networks are worth once their weights have seen so many epochs, in units of the surrogate's scale: a
        child goes on where its parent ended, so that one of a parent that was trained for long is ahead."""
        worth: Numbers = self._surrogate.means(rows) + self._surrogate.usual(seen) / self._surrogate.scale
        return worth

    def _best(self, drawn: list[tuple[Proposal, int]]) -> Proposal | None:
        """Of those that are new, the one whose mean and deviation add up to most."""
        if not drawn:
            return None
        rows, marks = features([one.graph for one, _ in drawn])
        new = [at for at, mark in enumerate(marks) if mark not in self._marks]
        if not new:
            return None
        rows = rows[new]
        promise = self._expected(rows, [drawn[at][1] for at in new]) + self._beta * self._surrogate.deviations(rows)
        return drawn[new[int(np.argmax(promise))]][0]
