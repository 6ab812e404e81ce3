"""The plain policy: a random neighbour of a random architecture that was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random as Rng
from typing import Any

from trainmark.automl.graph import Graph
from trainmark.automl.moves import Limits, neighbours
from trainmark.automl.policy import Proposal, Trial
from trainmark.errors import UserError

_TRIES = 32


class Random:
    def __init__(self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any]) -> None:
        self._start, self._limits = list(start), limits
        for name in options:
            raise UserError(f"policy_options.{name}: `random` has no options")

    def tell(self, trial: Trial) -> None:
        """Chance has no memory."""

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Rng) -> Proposal:
        begun = sum(trial.parent is None for trial in (*history, *pending))
        if begun < len(self._start):
            return Proposal(self._start[begun])
        trained = [trial for trial in history if trial.value is not None] or [*history, *pending]
        for _ in range(_TRIES):
            parent = rng.choice(trained)
            found = neighbours(parent.graph, rng, 1, self._limits)
            if found:
                ((move, child),) = found
                return Proposal(child, parent.number, (move,))
        return Proposal(rng.choice(self._start))
