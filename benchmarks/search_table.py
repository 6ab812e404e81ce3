"""How well a policy searches, on a table of architectures that were all trained once (`tools/architecture_table.py`).

Moves that lead out of the table are not offered, to any policy. Regret is how far the best accuracy found so far is
from the best in the table.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import apply
from trainmark.automl.graph.space import Limits, Move
from trainmark.automl.graph.start_networks import small_cnn
from trainmark.automl.search.policy import Policy, Trial, make

FILE = Path(__file__).with_name("architectures.json")
EVALUATIONS = 60
FROM = 10  # regret counts from this evaluation on
SEEDS = 20
_TRIES = 16


class Table:
    def __init__(self, path: Path = FILE) -> None:
        table = json.loads(path.read_text())
        start, entries = table["start"], table["entries"]
        self.graphs = [small_cnn(tuple(start["shape"]), start["classes"], start["blocks"], start["width"])]
        for entry in entries[1:]:
            parent, move = entry["made"]
            self.graphs.append(apply(self.graphs[parent], Move(*move)))
        self._single = [entry["accuracy"] for entry in entries]
        self.accuracies: list[float] = [mean(entry["accuracy"]) for entry in entries]
        self.spread: dict[str, float] = table["spread"]
        self._moves = [[(Move(*move), end) for *move, end in entry["moves"]] for entry in entries]
        self.numbers = {graph.layers: number for number, graph in enumerate(self.graphs)}

    def near(self, graph: Graph, rng: random.Random, n: int, _limits: Limits) -> list[tuple[Move, Graph]]:
        """In place of `moves.neighbours`: only what is in the table."""
        there = self._moves[self.numbers[graph.layers]]
        return [(move, self.graphs[end]) for move, end in rng.sample(there, min(n, len(there)))]

    def search(self, policy: str, seed: int, noisy: bool = False, options: Any = None) -> list[int]:
        """The entries that a policy has evaluated, in turn. As in an experiment, one that names what is known is asked
        again, some times. `noisy`: it is told one training's accuracy, drawn by the seed, instead of their mean."""
        return self._search(make(policy, [self.graphs[0]], Limits(), options or {}, self.near), seed, noisy)

    def _search(self, searcher: Policy, seed: int, noisy: bool) -> list[int]:
        rng = random.Random(seed)
        luck = random.Random(f"luck {seed}")
        told = [luck.choice(values) for values in self._single] if noisy else self.accuracies
        history: list[Trial] = []
        visited: list[int] = []
        while len(history) < EVALUATIONS:
            for _ in range(_TRIES):
                proposal = searcher.ask(history, [], rng)
                number = self.numbers[proposal.graph.layers]
                if number not in visited:
                    break
            visited.append(number)
            trial = Trial(len(history), proposal.graph, str(number), told[number], proposal.parent, proposal.moves)
            history.append(trial)
            searcher.tell(trial)
        return visited

    def regret(self, visited: Sequence[int]) -> float:
        """How far the best so far is from the best there is: the mean over the evaluations that count."""
        best, reached = max(self.accuracies), 0.0
        found: list[float] = []
        for number in visited:
            reached = max(reached, self.accuracies[number])
            found.append(best - reached)
        return mean(found[FROM - 1 :])


def paired(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """The mean of first − second, and its 95 % interval by Student's t."""
    from scipy.stats import t as student

    differences = [a - b for a, b in zip(first, second, strict=True)]
    middle, n = mean(differences), len(differences)
    half = float(student.ppf(0.975, n - 1)) * stdev(differences) / n**0.5
    return middle, middle - half, middle + half
