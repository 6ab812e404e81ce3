"""Regularised evolution: the best of a few drawn from the youngest gets a child; who is old dies, however good."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random as Rng
from typing import Any

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import Limits, neighbours
from trainmark.automl.search.common import Option, first, mutation, options_of
from trainmark.automl.search.policy import Proposal, Trial

OPTIONS = {"population": Option(32, 2, 100_000), "sample": Option(8, 1, 100_000)}


class Evolution:
    def __init__(self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any]) -> None:
        chosen = options_of("evolution", options, OPTIONS)
        self._start, self._limits = list(start), limits
        self._sample = chosen["sample"]
        self._alive: deque[tuple[float, Trial]] = deque(maxlen=chosen["population"])

    def tell(self, trial: Trial) -> None:
        if trial.value is not None:
            self._alive.append((trial.value, trial))

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Rng) -> Proposal:
        begin = first(self._start, history, pending)
        if begin is not None:
            return begin
        alive = self._alive or [(0.0, trial) for trial in (*history, *pending)]

        def fittest() -> Trial:
            drawn = rng.sample(alive, min(self._sample, len(alive)))
            return max(drawn, key=lambda one: one[0])[1]

        found = mutation(neighbours, self._limits, rng, fittest)
        return found or Proposal(rng.choice(self._start))
