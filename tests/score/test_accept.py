"""Acceptance by simulation: how often a good node is blamed, how often a slow one is found, and what links tell."""

from __future__ import annotations

import numpy as np
import pytest

from trainmark.i18n.speaker import say
from trainmark.score.accept import links
from trainmark.score.accept.links import PairSpeed, tournament
from trainmark.score.accept.nodes import SpeedBlock, judge, more_blocks
from trainmark.score.accept.noise import Rule, Sample, findable, pooled, sample
from trainmark.score.figures.contention import disturbed
from trainmark.spec.columns import NodeSamples
from trainmark.testing.fleets import Fleet

RULE = Rule(looks=6)
BLOCKS = 5
# As many blocks as a short acceptance has time for.
MOST = 40


@pytest.mark.parametrize(
    ("nodes", "noise", "tries"),
    [(3, 0.01, 200), (4, 0.02, 200), (4, 0.05, 100), (4, 0.1, 60), (4, 0.2, 60), (8, 0.01, 100), (64, 0.01, 10)],
)
def test_good_nodes_are_not_blamed(nodes: int, noise: float, tries: int) -> None:
    """At most one clean fleet in 100 has a node called bad or suspect, however noisy it is."""
    random = np.random.default_rng(nodes)
    # The more nodes, the more likely one of them is really slower than the margin: that would be no false alarm.
    fleets = (Fleet(random, nodes, noise, spread=0.01 if nodes < 64 else 0.005) for _ in range(tries))
    alarms = sum(any(one.word in ("bad", "suspect") for one in fleet.accept(RULE, MOST).values()) for fleet in fleets)
    assert alarms <= max(1, 0.01 * tries)


def test_a_node_noisier_than_the_others_is_held_to_its_own_noise() -> None:
    random = np.random.default_rng(1)
    fleets = [Fleet(random, 4, 0.01, spread=0.0, noisier=5.0) for _ in range(150)]
    assert sum(fleet.accept(RULE, MOST)["n1"].word != "good" for fleet in fleets) <= 1
    apart = pooled({"a": Sample(5, 0.0, 0.01), "b": Sample(5, 0.0, 0.011), "c": Sample(5, 0.0, 0.1)})
    assert apart["c"] == Sample(5, 0.0, 0.1) and apart["a"].known > 4


@pytest.mark.parametrize(
    ("slow", "noise", "least"), [(0.05, 0.005, 0.95), (0.05, 0.01, 0.9), (0.1, 0.02, 0.95), (0.1, 0.05, 0.9)]
)
def test_losses_of_5_and_10_percent_are_found(slow: float, noise: float, least: float) -> None:
    """On four nodes, and nobody else is blamed."""
    random, tries, found = np.random.default_rng(3), 60, 0
    for _ in range(tries):
        words = {node: one.word for node, one in Fleet(random, 4, noise, [slow], spread=0.0).accept(RULE, MOST).items()}
        found += words.pop("n0") == "bad"
        assert "bad" not in words.values()
    assert found >= least * tries


def test_a_noisy_fleet_says_how_little_it_sees_and_is_not_good_when_more_is_demanded() -> None:
    fleet = Fleet(np.random.default_rng(2), 4, 0.2)
    looks = [[fleet.block(fleet.nodes) for _ in range(BLOCKS)]]
    silent = judge(looks, fleet.nodes, RULE)
    assert all(one.word == "good" and one.findable is not None and one.findable > 0.25 for one in silent)
    demanding = Rule(looks=6, find=0.1)
    strict = judge(looks, fleet.nodes, demanding)
    assert {one.word for one in strict} == {"unsure"} and "10 % must be findable" in say(strict[0].reason)
    assert more_blocks(looks, fleet.nodes, demanding, 0.1) == BLOCKS, "as many again, since noise is known roughly"
    quiet = Fleet(np.random.default_rng(2), 4, 0.005)
    looks = [[quiet.block(quiet.nodes) for _ in range(BLOCKS)]]
    assert {one.word for one in judge(looks, quiet.nodes, demanding)} == {"good"}
    assert more_blocks(looks, quiet.nodes, demanding, 0.1) == 0


def test_the_error_is_spent_over_the_looks() -> None:
    rule = Rule(looks=6)
    assert sum(rule.spent(look) for look in range(1, 7)) == pytest.approx(rule.level)


@pytest.mark.parametrize(("nodes", "tries"), [(3, 60), (8, 60), (16, 30), (64, 8)])
def test_a_slow_node_is_found(nodes: int, tries: int) -> None:
    """10 % slower, at a noise of 1 % between nodes and between rounds: found in 95 % of fleets, nobody else blamed."""
    random = np.random.default_rng(nodes)
    found = 0
    for _ in range(tries):
        words = {node: one.word for node, one in Fleet(random, nodes, 0.01, [0.1]).accept(RULE, MOST).items()}
        found += words.pop("n0") == "bad"
        assert "bad" not in words.values()
    assert found >= 0.95 * tries


def test_several_slow_nodes_are_found() -> None:
    random = np.random.default_rng(1)
    words = [one.word for one in Fleet(random, 16, 0.005, [0.1, 0.15, 0.3]).accept(RULE, MOST).values()]
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
    slow = findable(Sample(5, 0.0, 0.01), 8, RULE)
    assert slow is not None
    losses = random.normal(-np.log1p(-slow), 0.01, (2000, 5))
    needed = RULE.spent(1) / 8
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


def test_how_slow_a_link_must_be_to_be_found() -> None:
    """What is said of a clean network holds: such a link is named nine times of ten."""
    rule, found, tries = Rule(margin=0.1), 0, 100
    said = [links.judge(bandwidths(4, {}, 0.03, seed), rule).findable for seed in range(tries)]
    loss = sum(one or 1.0 for one in said) / tries
    assert 0.15 < loss < 0.22
    for seed in range(tries):
        slow = links.judge(bandwidths(4, {("n0", "n2"): loss}, 0.03, 1000 + seed), rule).effects
        found += any(one.kind == "link" and set(one.nodes) == {"n0", "n2"} and one.word == "bad" for one in slow)
    assert 0.8 * tries < found


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
