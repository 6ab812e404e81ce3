"""Policies that mutate: a random child of any architecture, or of the best among the youngest."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import neighbours
from trainmark.automl.graph.space import Limits
from trainmark.automl.search.policy import Near, Option, Proposal, Trial, first, mutation, options_of, parents


class RandomWalk:
    """A random neighbour of a random architecture that was trained."""

    def __init__(
        self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any], near: Near = neighbours
    ) -> None:
        self._start, self._limits, self._near = list(start), limits, near
        options_of("random", options, {})

    def tell(self, trial: Trial) -> None:
        """Results do not matter."""

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Random, _epochs: int = 0, /) -> Proposal:
        begin = first(self._start, history, pending)
        if begin is not None:
            return begin
        among = parents(history, pending)
        found = mutation(self._near, self._limits, rng, lambda: rng.choice(among))
        return found or Proposal(rng.choice(self._start))


OPTIONS = {"population": Option(32, 2, 100_000), "sample": Option(8, 1, 100_000)}


class Evolution:
    """Regularised evolution: the best of a few drawn from the youngest gets a child; the oldest leave, however good."""

    def __init__(
        self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any], near: Near = neighbours
    ) -> None:
        chosen = options_of("evolution", options, OPTIONS)
        self._start, self._limits, self._near = list(start), limits, near
        self._sample = chosen["sample"]
        self._alive: deque[tuple[float, Trial]] = deque(maxlen=chosen["population"])

    def tell(self, trial: Trial) -> None:
        if trial.value is not None:
            self._alive.append((trial.value, trial))

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Random, _epochs: int = 0, /) -> Proposal:
        begin = first(self._start, history, pending)
        if begin is not None:
            return begin
        alive = self._alive or [(0.0, trial) for trial in (*history, *pending)]

        def fittest() -> Trial:
            drawn = rng.sample(alive, min(self._sample, len(alive)))
            return max(drawn, key=lambda one: one[0])[1]

        found = mutation(self._near, self._limits, rng, fittest)
        return found or Proposal(rng.choice(self._start))
