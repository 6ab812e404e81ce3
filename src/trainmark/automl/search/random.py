"""The plain policy: a random neighbour of a random architecture that was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random as Rng
from typing import Any

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import Limits, neighbours
from trainmark.automl.search.common import first, mutation, parents
from trainmark.automl.search.policy import Proposal, Trial
from trainmark.errors import UserError


class Random:
    def __init__(self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any]) -> None:
        self._start, self._limits = list(start), limits
        for name in options:
            raise UserError(f"policy_options.{name}: `random` has no options")

    def tell(self, trial: Trial) -> None:
        """Chance has no memory."""

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Rng) -> Proposal:
        begin = first(self._start, history, pending)
        if begin is not None:
            return begin
        among = parents(history, pending)
        found = mutation(neighbours, self._limits, rng, lambda: rng.choice(among))
        return found or Proposal(rng.choice(self._start))
