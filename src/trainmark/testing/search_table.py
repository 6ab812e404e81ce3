"""How well a policy searches, on a table of architectures that were all trained once (`tools/architecture_table.py`).

Moves that lead out of the table are not offered, to any policy. Regret is how far the best accuracy found so far is
from the best in the table.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any
from unittest.mock import patch

from trainmark.automl.graph import Graph
from trainmark.automl.moves import Limits, Move, apply
from trainmark.automl.policy import POLICIES, Policy, Trial
from trainmark.automl.starts import small_cnn

FILE = Path(__file__).with_name("architectures.json")
EVALUATIONS = 60
FROM = 10  # regret counts from this evaluation on
SEEDS = 20


class Table:
    def __init__(self, path: Path = FILE) -> None:
        table = json.loads(path.read_text())
        start, entries = table["start"], table["entries"]
        self.graphs = [small_cnn(tuple(start["shape"]), start["classes"], start["blocks"], start["width"])]
        for entry in entries[1:]:
            parent, move = entry["made"]
            self.graphs.append(apply(self.graphs[parent], Move(*move)))
        self.accuracies = [mean(entry["accuracy"]) for entry in entries]
        self.spread: dict[str, float] = table["spread"]
        self._moves = [[(Move(*move), end) for *move, end in entry["moves"]] for entry in entries]
        self.numbers = {graph.layers: number for number, graph in enumerate(self.graphs)}

    def near(self, graph: Graph, rng: random.Random, n: int, _limits: Limits) -> list[tuple[Move, Graph]]:
        """In place of `moves.neighbours`: only what is in the table."""
        there = self._moves[self.numbers[graph.layers]]
        return [(move, self.graphs[end]) for move, end in rng.sample(there, min(n, len(there)))]

    def regrets(self, policy: str, seed: int, evaluations: int = EVALUATIONS, options: Any = None) -> list[float]:
        """After each evaluation. No architecture is evaluated twice: a policy that names one again is asked again."""
        module, _, name = POLICIES[policy].partition(":")
        home = importlib.import_module(module)
        with patch.object(home, "neighbours", self.near):
            return self._search(getattr(home, name)([self.graphs[0]], Limits(), options or {}), seed, evaluations)

    def _search(self, searcher: Policy, seed: int, evaluations: int) -> list[float]:
        rng = random.Random(seed)
        history: list[Trial] = []
        known: set[int] = set()
        best, found = max(self.accuracies), []
        while len(history) < evaluations:
            proposal = searcher.ask(history, [], rng)
            number = self.numbers[proposal.graph.layers]
            if number in known:
                continue
            known.add(number)
            value = self.accuracies[number]
            trial = Trial(len(history), proposal.graph, str(number), value, proposal.parent, proposal.moves)
            history.append(trial)
            searcher.tell(trial)
            found.append(best - max(trial.value for trial in history if trial.value is not None))
        return found

    def mean_regrets(self, policy: str, seeds: int = SEEDS, options: Any = None) -> list[float]:
        """By seed, the mean over the evaluations that count."""
        return [mean(self.regrets(policy, seed, options=options)[FROM - 1 :]) for seed in range(seeds)]


def paired(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """The mean of first − second, and its 95 % interval by Student's t."""
    from scipy.stats import t as student

    differences = [a - b for a, b in zip(first, second, strict=True)]
    middle, n = mean(differences), len(differences)
    half = float(student.ppf(0.975, n - 1)) * stdev(differences) / n**0.5
    return middle, middle - half, middle + half
