"""Acceptance by simulation: how often a good node is blamed, how often a slow one is found, and what links tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trainmark.i18n.speaker import say
from trainmark.score.accept import links
from trainmark.score.accept.links import PairSpeed, tournament
from trainmark.score.accept.nodes import NodeResult, Rule, SpeedBlock, findable, judge, sample, suspects
from trainmark.score.figures.contention import disturbed
from trainmark.spec.columns import NodeSamples

RULE = Rule()
BLOCKS = 5


class Fleet:
    """Nodes with speeds of their own, which all drift together from block to block."""

    def __init__(
        self, random: np.random.Generator, nodes: int, noise: float, slow: Sequence[float] = (), spread: float = 0.01
    ) -> None:
        self.nodes = [f"n{number}" for number in range(nodes)]
        self._random, self._noise = random, noise
        own = random.normal(0, spread, nodes)
        own[: len(slow)] += np.log1p(-np.array(slow)) if slow else 0
        self._own = dict(zip(self.nodes, own, strict=True))

    def block(self, nodes: Sequence[str], references: tuple[str, ...] = ()) -> SpeedBlock:
        drift = self._random.normal(0, 0.03)
        noise = self._random.normal(0, self._noise, len(nodes))
        speeds = {node: float(np.exp(drift + self._own[node] + e)) for node, e in zip(nodes, noise, strict=True)}
        return SpeedBlock(speeds, references)

    def accept(self) -> dict[str, NodeResult]:
        looks = [[self.block(self.nodes) for _ in range(BLOCKS)]]
        while True:
            again, beside = suspects(looks, self.nodes, RULE)
            if not again:
                return {one.node: one for one in judge(looks, self.nodes, RULE)}
            looks.append([self.block([*again, *beside], beside) for _ in range(BLOCKS)])


@pytest.mark.parametrize(("nodes", "noise", "tries"), [(3, 0.01, 800), (4, 0.02, 600), (8, 0.01, 400), (64, 0.01, 50)])
def test_good_nodes_are_not_blamed(nodes: int, noise: float, tries: int) -> None:
    """At most one clean fleet in 200 has a node called bad."""
    random = np.random.default_rng(nodes)
    # The more nodes, the more likely one of them is really slower than the margin: that would be no false alarm.
    fleets = (Fleet(random, nodes, noise, spread=0.01 if nodes < 64 else 0.005) for _ in range(tries))
    alarms = sum(any(one.word == "bad" for one in fleet.accept().values()) for fleet in fleets)
    assert alarms <= 0.005 * tries


@pytest.mark.parametrize(("nodes", "tries"), [(3, 200), (4, 200), (8, 200), (16, 100), (64, 40)])
def test_a_slow_node_is_found(nodes: int, tries: int) -> None:
    """10 % slower, at a noise of 1 % between nodes and between rounds: found in 95 % of fleets, nobody else blamed."""
    random = np.random.default_rng(nodes)
    found = 0
    for _ in range(tries):
        words = {node: one.word for node, one in Fleet(random, nodes, 0.01, [0.1]).accept().items()}
        found += words.pop("n0") == "bad"
        assert "bad" not in words.values()
    assert found >= 0.95 * tries


def test_several_slow_nodes_are_found() -> None:
    random = np.random.default_rng(1)
    words = [one.word for one in Fleet(random, 16, 0.005, [0.1, 0.15, 0.3]).accept().values()]
    assert words == ["bad"] * 3 + ["good"] * 13


def test_what_is_said_of_a_node() -> None:
    """A loss with its interval, what could have been found, and the same words for the same speeds."""
    random = np.random.default_rng(5)
    fleet = Fleet(random, 4, 0.005, [0.2])
    looks = [[fleet.block(fleet.nodes) for _ in range(BLOCKS)]]
    bad, good, *_ = judge(looks, fleet.nodes, RULE)
    assert bad.word == "bad" and bad.ci_low is not None and bad.ci_high is not None and bad.loss is not None
    assert bad.ci_low < 0.2 < bad.ci_high and abs(bad.loss - 0.2) < 0.02 and "20" in say(bad.reason)
    assert good.word == "good" and good.findable is not None and 0.03 < good.findable < 0.1
    assert judge(looks, fleet.nodes, RULE) == judge(looks, fleet.nodes, RULE)


def test_findable_is_what_is_found_nine_times_of_ten() -> None:
    random = np.random.default_rng(7)
    slow = findable(0.01, 5, 8, RULE)
    assert slow is not None
    losses = random.normal(-np.log1p(-slow), 0.01, (2000, 5))
    needed = RULE.level / RULE.looks / 8
    found = sum(sample(list(map(float, row))).p_above(RULE.limit) <= needed for row in losses)
    assert 0.88 < found / 2000 < 0.92


def test_few_nodes_and_failed_rounds() -> None:
    """One node has nothing to be compared with, two cannot say which is slow, and what failed is never good."""
    fast, slow = (
        [SpeedBlock({"a": 100.0 + i, "b": 80.0 + i}) for i in range(5)],
        [SpeedBlock({"a": 1.0}) for _ in range(5)],
    )
    assert [one.word for one in judge([fast], ["a", "b"], RULE)] == ["suspect", "suspect"]
    alike = [SpeedBlock({"a": 100.0 + i % 2, "b": 100.0 + (i + 1) % 2}) for i in range(5)]
    assert [one.word for one in judge([alike], ["a", "b"], RULE)] == ["good", "good"]
    (alone,) = judge([slow], ["a"], RULE)
    assert alone.word == "untested" and "contract" in say(alone.reason)
    three = [
        SpeedBlock({"a": 100.0 + i, "b": 101.0 - i, "c": 100.0, **({"d": 100.0} if i < 4 else {})}) for i in range(5)
    ]
    words = {one.node: one for one in judge([three], ["a", "b", "c", "d", "e"], RULE, {"d": ["disk"], "e": ["no ssh"]})}
    assert words["a"].word == "good" and words["d"].word == "suspect" and "disk" in say(words["d"].reason)
    assert words["e"].word == "untested" and "no ssh" in say(words["e"].reason)


def bandwidths(nodes: int, losses: dict[tuple[str, ...], float], noise: float = 0.02, seed: int = 0) -> list[PairSpeed]:
    random = np.random.default_rng(seed)
    found = []
    for block in range(3):
        drift = random.normal(0, 0.1)
        for meeting in tournament([f"n{number}" for number in range(nodes)]):
            for a, b in meeting:
                lost = sum(np.log1p(-losses.get(key, 0.0)) for key in ((a,), (b,), (a, b), (b, a)))
                found.append(PairSpeed(a, b, block, float(np.exp(20 + drift + lost + random.normal(0, noise)))))
    return found


@pytest.mark.parametrize("nodes", [3, 4, 5, 8, 16])
def test_a_slow_node_is_not_many_slow_links(nodes: int) -> None:
    rule = Rule(margin=0.1)
    node = links.judge(bandwidths(nodes, {("n1",): 0.5}), rule).effects
    assert [(one.kind, one.nodes, one.word) for one in node] == [("node", ("n1",), "bad")]
    link = links.judge(bandwidths(nodes, {("n0", "n2"): 0.5}), rule).effects
    assert [(one.kind, set(one.nodes), one.word) for one in link] == [("link", {"n0", "n2"}, "bad")]
    assert abs(link[0].loss - 0.5) < 0.05


def test_a_slow_node_and_a_slow_link_together() -> None:
    found = links.judge(bandwidths(6, {("n1",): 0.5, ("n3", "n4"): 0.9}), Rule(margin=0.1)).effects
    assert {(one.kind, tuple(sorted(one.nodes))) for one in found} == {("node", ("n1",)), ("link", ("n3", "n4"))}


def test_clean_networks_are_not_blamed() -> None:
    alarms = sum(bool(links.judge(bandwidths(6, {}, 0.05, seed), Rule(margin=0.1)).effects) for seed in range(200))
    assert alarms <= 1


def test_everybody_meets_everybody_once() -> None:
    for count in range(2, 12):
        nodes = [f"n{number}" for number in range(count)]
        rounds = tournament(nodes)
        for meeting in rounds:
            met = [node for pair in meeting for node in pair]
            assert len(met) == len(set(met)) >= count - 1
        pairs = [frozenset(pair) for meeting in rounds for pair in meeting]
        assert len(pairs) == len(set(pairs)) == count * (count - 1) // 2


def test_hosts_on_one_machine_do_not_disturb_themselves() -> None:
    """Both nodes see all of the machine's work; what the other node does is the run's own."""

    def node(name: str, machine: str) -> NodeSamples:
        records = [
            {"t": t, "cpu": 0.95, "psi_cpu": 0.5, "agent_cpu": 0.05, "ranks": {"0": {"cpu": 0.85}}} for t in range(1, 9)
        ]
        return NodeSamples(f"{name}_noderank0", records, 2, machine)

    times = {"a_noderank0": (0, 9), "b_noderank0": (0, 9)}
    assert disturbed([node("a", "same"), node("b", "same")], times) == []
    apart = disturbed([node("a", "one"), node("b", "other")], times)
    assert any("other programs kept 1.00 processors busy" in say(one) for one in apart)
