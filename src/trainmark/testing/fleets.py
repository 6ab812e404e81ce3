"""Fleets of nodes with known truth: what an acceptance says of them, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainmark.score.accept.nodes import NodeResult, SpeedBlock, judge, more_blocks, suspects
from trainmark.score.accept.noise import Rule

if TYPE_CHECKING:
    import numpy as np


class Fleet:
    """Nodes with speeds of their own, which all drift together from block to block. `noise`: of one round; `spread`:
    between nodes; `slow`: losses of the first nodes; `noisier`: how many times the noise of the others `n1` has."""

    def __init__(
        self,
        random: np.random.Generator,
        nodes: int,
        noise: float,
        slow: Sequence[float] = (),
        spread: float = 0.01,
        noisier: float = 1.0,
    ) -> None:
        import numpy as np

        self.nodes = [f"n{number}" for number in range(nodes)]
        self._random = random
        self._noise = dict.fromkeys(self.nodes, noise)
        self._noise["n1"] *= noisier
        own = random.normal(0, spread, nodes)
        own[: len(slow)] += np.log1p(-np.array(slow)) if slow else 0
        self._own = dict(zip(self.nodes, own, strict=True))

    def block(self, nodes: Sequence[str], references: tuple[str, ...] = ()) -> SpeedBlock:
        import numpy as np

        drift = self._random.normal(0, 0.03)
        errors = self._random.normal(0, [self._noise[node] for node in nodes])
        speeds = {node: float(np.exp(drift + self._own[node] + e)) for node, e in zip(nodes, errors, strict=True)}
        return SpeedBlock(speeds, references)

    def accept(self, rule: Rule, most: int, aim: float = 0.1, first: int = 5) -> dict[str, NodeResult]:
        """As the campaign goes on: all nodes while too little could be found, then suspects; `most` blocks in all."""
        looks = [[self.block(self.nodes) for _ in range(first)]]
        while True:
            left = most - sum(map(len, looks))
            more = min(more_blocks(looks, self.nodes, rule, aim), left)
            again, beside = suspects(looks, self.nodes, rule)
            if more:
                looks.append([self.block(self.nodes) for _ in range(more)])
            elif again and left >= first:
                looks.append([self.block([*again, *beside], beside) for _ in range(first)])
            else:
                return {one.node: one for one in judge(looks, self.nodes, rule)}
