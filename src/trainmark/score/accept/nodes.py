"""Which nodes of a fleet are slow: a paired margin test over blocks in which every node ran the same case.

A node's loss in a block is the logarithm of the median speed of the others over its own, so whatever all nodes had in
common in that block is gone. It is `bad` only if its loss exceeds the margin by a one-sided t test, Holm over the
nodes. Nodes that look slow and are not proven to be get further blocks; the error is split over these looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.stats import student
from trainmark.score.stats.confidence import OUTLIER, median, t_limit
from trainmark.score.stats.verdict import holm

NodeWord = Literal["good", "bad", "suspect", "untested"]
# Median and deviation of fewer nodes say too little even to point at one.
LEAST_FOR_DEVIATION = 8
# Fewer blocks with a speed do not make a verdict.
LEAST_BLOCKS = 3
POWER = 0.9
# Two nodes beside which suspects run again.
REFERENCES = 2


class Rule(msgspec.Struct, frozen=True):
    """Losses up to `margin` do not matter; `level` is the chance to blame any good node, over all `looks` together."""

    margin: float = 0.03
    level: float = 0.01
    looks: int = 3

    @property
    def limit(self) -> float:
        """The margin as a loss, which is a logarithm."""
        return -math.log1p(-self.margin)


class SpeedBlock(msgspec.Struct, frozen=True):
    """Speeds of the nodes that ran in a block. With `references`, the others are held against these alone."""

    speeds: dict[str, float]
    references: tuple[str, ...] = ()


class NodeResult(msgspec.Struct, frozen=True):
    """The result for one node. Losses are shares of speed: 0.1 is a tenth slower than the others."""

    node: str
    word: NodeWord
    reason: list[Reason]
    loss: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    blocks: int = 0
    p: float | None = None
    # The smallest loss that this many blocks find with a chance of POWER.
    findable: float | None = None
    # Geometric mean over the blocks.
    speed: float | None = None
    # FLOP/s that its ranks reach in matrix products by the site's peaks, and the share that the case made of it.
    peak: float | None = None
    used: float | None = None


class Sample(msgspec.Struct, frozen=True):
    """Mean and spread of a few numbers."""

    n: int
    mean: float
    sd: float

    def p_above(self, limit: float, more: float = 0.0) -> float:
        """One-sided t test: the chance of such a mean if the true one is `limit` or less. `more` is a further
        standard error, of what the numbers were held against."""
        error = math.hypot(self.sd / math.sqrt(self.n), more)
        if self.n < 2:
            return 1.0
        if error == 0:
            return 0.0 if self.mean > limit else 1.0
        return student.below(self.n - 1, (limit - self.mean) / error)

    def half_width(self, level: float = 0.95) -> float:
        return t_limit(self.n - 1, level) * self.sd / math.sqrt(self.n) if self.n > 1 else math.inf


def sample(values: Sequence[float]) -> Sample:
    n = len(values)
    mean = sum(values) / n
    variance = sum((value - mean) ** 2 for value in values) / (n - 1) if n > 1 else 0.0
    return Sample(n, mean, math.sqrt(variance))


def rejected(chances: Mapping[str, float], level: float, family: int) -> set[str]:
    """Names whose hypothesis is rejected. `family` counts those, too, that are not tested this time."""
    return {name for name, p in zip(chances, holm(list(chances.values()), family), strict=True) if p <= level}


def losses(blocks: Sequence[SpeedBlock]) -> dict[str, list[float]]:
    """The losses of each node, one for each block it ran in beside others."""
    found: dict[str, list[float]] = {}
    for block in blocks:
        logs = {node: math.log(speed) for node, speed in block.speeds.items()}
        held_against = [logs[node] for node in block.references if node in logs]
        for node, own, rest in _beside(logs, block.references, held_against):
            if rest is not None:
                found.setdefault(node, []).append(rest - own)
    return found


def _beside(
    logs: Mapping[str, float], references: Sequence[str], held_against: list[float]
) -> list[tuple[str, float, float | None]]:
    """Each node, its own value, and the median of what it is held against."""
    if references:
        rest = median(held_against) if held_against else None
        return [(node, own, rest) for node, own in logs.items() if node not in references]
    ordered = sorted(logs.values())
    return [(node, own, _median_without(ordered, own)) for node, own in logs.items()]


def _median_without(ordered: list[float], own: float) -> float | None:
    """The median of all but one of them, without sorting the others again."""
    count = len(ordered) - 1
    if not count:
        return None
    at = ordered.index(own)

    def value(position: int) -> float:
        return ordered[position if position < at else position + 1]

    half = count // 2
    return value(half) if count % 2 else (value(half - 1) + value(half)) / 2


def judge(
    looks: Sequence[Sequence[SpeedBlock]],
    nodes: Sequence[str],
    rule: Rule,
    failed: Mapping[str, Sequence[Reason]] | None = None,
) -> list[NodeResult]:
    """A verdict on every node. `failed`: why rounds of a node gave no speed; such a node is never good."""
    failed = failed or {}
    seen = [block for look in looks for block in look]
    if len(nodes) < 3:
        return _too_few(seen, nodes, rule, failed)
    blamed = _blamed(looks, nodes, rule)
    samples = {node: sample(values) for node, values in losses(seen).items()}
    spread = _common_spread(samples)
    return [
        _verdict(node, samples.get(node), node in blamed, rule, failed.get(node, ()), seen, (spread, len(nodes)))
        for node in nodes
    ]


def _blamed(looks: Sequence[Sequence[SpeedBlock]], nodes: Sequence[str], rule: Rule) -> set[str]:
    """Nodes proven bad at any look, each look taking its share of the error and everything seen so far."""
    found: set[str] = set()
    so_far: list[SpeedBlock] = []
    for look in looks:
        so_far += look
        again = {node for block in look for node in block.speeds}
        chances = {
            node: sample(values).p_above(rule.limit)
            for node, values in losses(so_far).items()
            if node in again and len(values) >= LEAST_BLOCKS
        }
        found |= rejected(chances, rule.level / rule.looks, len(nodes))
    return found


def _common_spread(samples: Mapping[str, Sample]) -> float:
    """The spread of a node's losses from block to block, over all nodes."""
    freedom = sum(one.n - 1 for one in samples.values())
    return math.sqrt(sum((one.n - 1) * one.sd**2 for one in samples.values()) / freedom) if freedom else 0.0


def findable(spread: float, n: int, nodes: int, rule: Rule) -> float | None:
    """The smallest share of speed whose loss would have been proven with a chance of POWER."""
    if n < LEAST_BLOCKS:
        return None
    from scipy.special import nctdtrinc, stdtrit

    needed = stdtrit(n - 1, 1 - rule.level / rule.looks / nodes)
    distance = float(nctdtrinc(n - 1, 1 - POWER, needed))
    return -math.expm1(-(rule.limit + distance * spread / math.sqrt(n)))


def _verdict(
    node: str,
    found: Sample | None,
    blamed: bool,
    rule: Rule,
    failed: Sequence[Reason],
    seen: Sequence[SpeedBlock],
    common: tuple[float, int],
) -> NodeResult:
    if found is None or found.n < LEAST_BLOCKS:
        why = failed[0] if failed else reason("did-not-run")
        return NodeResult(node, "untested", [reason("few-blocks", blocks=found.n if found else 0, why=why)])
    half = found.half_width()
    low, high = share(found.mean - half), share(found.mean + half)
    word, why = _word(found, blamed, rule, failed)
    return NodeResult(
        node=node,
        word=word,
        reason=[why],
        loss=share(found.mean),
        ci_low=low,
        ci_high=high,
        blocks=found.n,
        p=found.p_above(rule.limit),
        findable=findable(common[0], found.n, common[1], rule),
        speed=speed(node, seen),
    )


def _word(found: Sample, blamed: bool, rule: Rule, failed: Sequence[Reason]) -> tuple[NodeWord, Reason]:
    loss, margin = 100 * share(found.mean), 100 * rule.margin
    if blamed:
        return "bad", reason("node-slow", percent=loss, margin=margin)
    if failed:
        return "suspect", reason("rounds-failed", rounds=len(failed), why=failed[0])
    if found.mean > rule.limit and found.mean - found.half_width(0.9) > 0:
        return "suspect", reason("node-maybe-slow", percent=loss, margin=margin)
    if found.mean > rule.limit:
        return "good", reason("node-slow-by-noise", percent=loss)
    return "good", reason("node-not-slow", margin=margin)


def suspects(
    looks: Sequence[Sequence[SpeedBlock]], nodes: Sequence[str], rule: Rule
) -> tuple[list[str], tuple[str, ...]]:
    """Who runs again, and beside which nodes: those that look slow and are not proven to be. Empty when none does,
    or when all looks were taken."""
    if len(nodes) < 3 or len(looks) >= rule.looks:
        return [], ()
    samples = {node: sample(v) for node, v in losses([b for look in looks for b in look]).items() if len(v) > 1}
    blamed = _blamed(looks, nodes, rule)
    apart = _apart({node: one.mean for node, one in samples.items()})
    slow = [
        node
        for node in nodes
        if node in samples and node not in blamed and (samples[node].mean > rule.limit or node in apart)
    ]
    others = [node for node in nodes if node in samples and node not in blamed and node not in slow]
    middle = sorted(others, key=lambda node: (abs(samples[node].mean), nodes.index(node)))[:REFERENCES]
    return (slow, tuple(middle)) if middle else ([], ())


def _apart(means: Mapping[str, float]) -> set[str]:
    """Nodes many deviations slower than the median node. They are only looked at again: as a test it would be wrong
    far too often."""
    if len(means) < LEAST_FOR_DEVIATION:
        return set()
    middle = median(list(means.values()))
    deviation = 1.4826 * median([abs(mean - middle) for mean in means.values()])
    return {node for node, mean in means.items() if deviation > 0 and (mean - middle) / deviation > OUTLIER}


def _too_few(
    seen: Sequence[SpeedBlock], nodes: Sequence[str], rule: Rule, failed: Mapping[str, Sequence[Reason]]
) -> list[NodeResult]:
    """One node has no others, and of two it cannot be known which is the slow one."""
    apart = losses(seen)
    found = []
    for node in nodes:
        values, why = apart.get(node, []), failed.get(node, ())
        ran = sum(node in block.speeds for block in seen)
        known = {"blocks": ran, "speed": speed(node, seen)}
        if ran < LEAST_BLOCKS or why:
            few = reason("few-blocks", blocks=ran, why=why[0] if why else reason("did-not-run"))
            found.append(NodeResult(node, "untested", [few], **known))  # type: ignore[arg-type]
            continue
        if len(nodes) == 1 or len(values) < LEAST_BLOCKS:
            found.append(NodeResult(node, "untested", [reason("node-alone")], **known))  # type: ignore[arg-type]
            continue
        one = sample(values)
        differ = min(one.p_above(rule.limit), Sample(one.n, -one.mean, one.sd).p_above(rule.limit)) < rule.level / 2
        agreed = reason("two-nodes-agree", margin=100 * rule.margin)
        said = reason("two-nodes-differ", margin=100 * rule.margin) if differ else agreed
        half = one.half_width()
        interval = {"ci_low": share(one.mean - half), "ci_high": share(one.mean + half), "loss": share(one.mean)}
        found.append(NodeResult(node, "suspect" if differ else "good", [said], **known, **interval))  # type: ignore[arg-type]
    return found


def speed(node: str, blocks: Sequence[SpeedBlock]) -> float | None:
    logs = [math.log(block.speeds[node]) for block in blocks if node in block.speeds]
    return math.exp(sum(logs) / len(logs)) if logs else None


def share(loss: float) -> float:
    """A loss, which is a logarithm, as the share of speed that is missing."""
    return -math.expm1(-loss)


def percent(value: float) -> str:
    return f"{100 * value:.3g} %"
