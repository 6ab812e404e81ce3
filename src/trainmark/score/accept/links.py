"""Which links are slow: bandwidths of many pairs of nodes, with node and link effects fitted jointly.

A slow node makes all its links slow and must not be reported as so many slow links. So every bandwidth is explained by
its block, and by as few losses of nodes and of single links as will do: least squares, effects added one by one, the
one that explains most first. Each is then tested in the whole model against the margin, Holm over all there could be.
What is left unexplained is noise: it says how slow a link must have been to be found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.accept.nodes import NodeWord
from trainmark.score.accept.noise import NORMAL_POWER, Rule, distance, rejected, share
from trainmark.score.stats import student
from trainmark.score.stats.confidence import t_limit

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats, Ints

# The largest of many links always looks slow: it is worth a word only if it alone would be this unlikely.
DOUBT = 0.05
# Differences below this are rounding.
_NOTHING = 1e-9


class PairSpeed(msgspec.Struct, frozen=True):
    """A pair of nodes in a block, and its bandwidth."""

    a: str
    b: str
    block: int
    bandwidth: float


class Effect(msgspec.Struct, frozen=True):
    """A node or a link that loses bandwidth. The loss is a share; `nodes` has one name or two."""

    kind: Literal["node", "link"]
    nodes: tuple[str, ...]
    word: NodeWord
    loss: float
    ci_low: float
    ci_high: float
    p: float
    reason: Reason

    @property
    def name(self) -> str:
        return "–".join(self.nodes)


class LinksResult(msgspec.Struct, frozen=True):
    """All of the tournament: what loses bandwidth, and what each link gave."""

    effects: list[Effect]
    # Geometric mean over the blocks, by `a–b`.
    bandwidth: dict[str, float]
    untested: list[Reason] = []
    reason: Reason | None = None
    # The smallest loss of a single link that would have been found with a chance of noise.POWER.
    findable: float | None = None
    # How many links there are between the nodes; 0: not known, in records of older versions.
    possible: int = 0


def tournament(nodes: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Rounds of disjoint pairs in which everybody meets everybody once (the circle method)."""
    players: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        meeting = zip(players[:half], reversed(players[half:]), strict=True)
        rounds.append([(a, b) for a, b in meeting if a is not None and b is not None])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def judge(trials: Sequence[PairSpeed], rule: Rule) -> LinksResult:
    """Deterministic: the same trials give the same verdict, in whatever order they came."""
    trials = sorted(trials, key=lambda one: (one.block, one.a, one.b))
    pairs = sorted({(one.a, one.b) for one in trials})
    logs: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for one in trials:
        logs[one.a, one.b].append(math.log(one.bandwidth))
    bandwidth = {f"{a}–{b}": math.exp(sum(logs[a, b]) / len(logs[a, b])) for a, b in pairs}
    if len(pairs) < 3:
        return LinksResult([], bandwidth, reason=reason("few-links"))
    fit = _Fit(trials, pairs)
    return LinksResult(fit.effects(rule), bandwidth, findable=fit.findable(rule))


class _Fit:
    """ln(bandwidth) = block − losses of its two nodes − loss of its link, with as few losses as will do."""

    def __init__(self, trials: Sequence[PairSpeed], pairs: list[tuple[str, str]]) -> None:
        import numpy as np

        self.nodes = sorted({node for pair in pairs for node in pair})
        self.pairs = pairs
        at, where = {node: i for i, node in enumerate(self.nodes)}, {pair: i for i, pair in enumerate(pairs)}
        self.a: Ints = np.array([at[one.a] for one in trials])
        self.b: Ints = np.array([at[one.b] for one in trials])
        self.link: Ints = np.array([where[one.a, one.b] for one in trials])
        _, block = np.unique([one.block for one in trials], return_inverse=True)
        indicators = (block[:, None] == np.arange(block.max() + 1)).astype(float)
        self.basis: Floats = indicators / np.sqrt(indicators.sum(axis=0))
        self.y: Floats = np.array([math.log(one.bandwidth) for one in trials])
        self.columns: list[Floats] = [indicators]
        self.chosen: list[int] = []

    def effects(self, rule: Rule) -> list[Effect]:
        while self._add(rule):
            pass
        return self._tested(rule) if self.chosen else []

    def findable(self, rule: Rule) -> float | None:
        """The loss of the link known least that would be added to this model, and proven in it, nine times of ten."""
        import numpy as np

        count = len(self.y)
        freedom = count - self.basis.shape[1] - 1
        if freedom < 1:
            return None
        rest = self.y - self.basis @ (self.basis.T @ self.y)
        squares = max(float(rest @ rest), _NOTHING)
        alone = self._alone(np.ones(count))
        free = [value for place, value in enumerate(alone) if place >= len(self.nodes) and value > _NOTHING]
        if not free:
            return None
        weight, chance = min(free), rule.level / (len(self.nodes) + len(self.pairs))
        error = math.sqrt(squares / (freedom + 1) / weight)
        noticed = math.sqrt(squares * math.expm1(self._price(len(alone)) / count) / weight) + NORMAL_POWER * error
        return share(max(noticed, rule.limit + distance(freedom, chance) * error))

    def _alone(self, ones: Floats) -> Floats:
        """What is left of each candidate's column beside those that are in the model: Σ of its squares."""
        found: Floats = self._sums(ones) - sum(self._sums(column) ** 2 for column in self.basis.T)
        return found

    def _price(self, candidates: int) -> float:
        """Of a parameter that was chosen from so many (extended Bayesian criterion)."""
        return math.log(len(self.y)) + 2 * math.log(candidates)

    def _sums(self, values: Floats) -> Floats:
        """Σ over the trials of each node, then of each link: what any candidate's column gives with `values`."""
        import numpy as np

        nodes, links = len(self.nodes), len(self.pairs)
        by_node = np.bincount(self.a, values, nodes) + np.bincount(self.b, values, nodes)
        return np.concatenate([by_node, np.bincount(self.link, values, links)])

    def _column(self, candidate: int) -> Floats:
        nodes = len(self.nodes)
        if candidate < nodes:
            column: Floats = ((self.a == candidate) | (self.b == candidate)).astype(float)
        else:
            column = (self.link == candidate - nodes).astype(float)
        return -column

    def _add(self, rule: Rule) -> bool:
        """The effect that explains most, if it explains more than one drawn from so many would by chance."""
        import numpy as np

        count = len(self.y)
        rest = self.y - self.basis @ (self.basis.T @ self.y)
        squares = float(rest @ rest)
        if squares < _NOTHING or self.basis.shape[1] + 2 > count:
            return False
        alone = self._alone(np.ones(count))
        gives = -self._sums(rest)
        free = alone > _NOTHING
        loss = np.divide(gives, alone, out=np.zeros_like(gives), where=free)
        gain = np.where(loss > rule.limit, np.divide(gives**2, alone, out=np.zeros_like(gives), where=free), 0.0)
        gain[self.chosen] = 0.0
        best = int(np.argmax(gain))
        left = max(squares - float(gain[best]), _NOTHING)
        if gain[best] <= 0 or count * math.log(squares / left) <= self._price(len(gain)):
            return False
        column = self._column(best)
        self.chosen.append(best)
        self.columns.append(column[:, None])
        column = column - self.basis @ (self.basis.T @ column)
        self.basis = np.column_stack([self.basis, column / np.linalg.norm(column)])
        return True

    def _tested(self, rule: Rule) -> list[Effect]:
        """Losses, intervals and tests in the model of all chosen effects together."""
        import numpy as np

        design = np.hstack(self.columns)
        solution, *_ = np.linalg.lstsq(design, self.y, rcond=None)
        rest = self.y - design @ solution
        freedom = len(self.y) - design.shape[1]
        variance = max(float(rest @ rest), _NOTHING) / freedom
        errors = np.sqrt(np.diag(np.linalg.pinv(design.T @ design)) * variance)
        first = design.shape[1] - len(self.chosen)
        found: list[dict[str, Any]] = []
        for position, candidate in enumerate(self.chosen, first):
            loss, error = float(solution[position]), float(errors[position])
            half = t_limit(freedom) * error
            found.append(
                {
                    **self._named(candidate),
                    "loss": share(loss),
                    "ci_low": share(loss - half),
                    "ci_high": share(loss + half),
                    "p": student.below(freedom, (rule.limit - loss) / error),
                }
            )
        chances = {str(number): one["p"] for number, one in enumerate(found)}
        blamed = rejected(chances, rule.level, len(self.nodes) + len(self.pairs))
        effects = [_effect(one, str(number) in blamed, rule) for number, one in enumerate(found)]
        return sorted((one for one in effects if one.word != "good"), key=lambda one: (one.word != "bad", one.nodes))

    def _named(self, candidate: int) -> dict[str, Any]:
        nodes = len(self.nodes)
        if candidate < nodes:
            return {"kind": "node", "nodes": (self.nodes[candidate],)}
        return {"kind": "link", "nodes": self.pairs[candidate - nodes]}


def _effect(one: dict[str, Any], blamed: bool, rule: Rule) -> Effect:
    loss, margin = 100 * one["loss"], 100 * rule.margin
    if one["kind"] == "node":
        proven = reason("all-links-slow", percent=loss, margin=margin)
        why = proven if blamed else reason("all-links-maybe-slow", percent=loss, margin=margin)
    else:
        proven = reason("link-slow", percent=loss, margin=margin)
        why = proven if blamed else reason("link-maybe-slow", percent=loss, margin=margin)
    word: NodeWord = "bad" if blamed else "suspect" if one["p"] < DOUBT else "good"
    return Effect(word=word, reason=why, **one)
