"""The plain policy: a random neighbour of a random architecture that was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random as Rng
from typing import Any

from trainmark.automl.graph import Graph
from trainmark.automl.moves import Limits, neighbours
from trainmark.automl.policies.common import Near, first, mutation, options_of
from trainmark.automl.policy import Proposal, Trial


class Random:
    def __init__(
        self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any], near: Near = neighbours
    ) -> None:
        options_of("random", options, {})
        self._start, self._limits, self._near = list(start), limits, near
        self._trained: list[Trial] = []

    def tell(self, trial: Trial) -> None:
        if trial.value is not None:
            self._trained.append(trial)

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Rng) -> Proposal:
        begin = first(self._start, history, pending)
        if begin is not None:
            return begin
        among = self._trained or [*history, *pending]
        found = mutation(self._near, self._limits, rng, lambda: rng.choice(among))
        return found or Proposal(rng.choice(self._start))
