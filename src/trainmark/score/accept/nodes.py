"""Which nodes of a fleet are slow: a paired margin test over blocks in which every node ran the same case.

A node's loss in a block is the logarithm of the median speed of the others over its own, so whatever all nodes had in
common in that block is gone. It is `bad` only if its loss exceeds the margin by a one-sided t test, Holm over the
nodes. Nodes that look slow and are not proven to be get further blocks; the error is split over these looks. What the
noise allowed to be found stands beside every verdict; where that was demanded and not reached, a node is `unsure`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.accept.noise import (
    LEAST_BLOCKS,
    Rule,
    Sample,
    blocks_needed,
    findable,
    pooled,
    rejected,
    sample,
    share,
)
from trainmark.score.stats.confidence import OUTLIER, median

NodeWord = Literal["good", "bad", "suspect", "untested", "unsure"]
# Median and deviation of fewer nodes say too little even to point at one.
LEAST_FOR_DEVIATION = 8
# The chance to call any good node suspect in the end.
DOUBT = 0.02
# Two nodes beside which suspects run again.
REFERENCES = 2


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
        return [sure(one, rule) for one in _too_few(seen, nodes, rule, failed)]
    blamed = _blamed(looks, nodes, rule)
    samples = _samples(looks)
    doubted = _doubted(samples, nodes, rule)
    found = []
    for node in nodes:
        one = samples.get(node)
        if one is None or one.n < LEAST_BLOCKS:
            why = (failed.get(node) or [reason("did-not-run")])[0]
            few = reason("few-blocks", blocks=one.n if one else 0, why=why)
            found.append(NodeResult(node, "untested", [few], blocks=one.n if one else 0))
            continue
        word, why = _word(one, node in blamed, node in doubted, rule, failed.get(node, ()))
        half = one.half_width()
        result = NodeResult(
            node=node,
            word=word,
            reason=[why],
            loss=share(one.mean),
            ci_low=share(one.mean - half),
            ci_high=share(one.mean + half),
            blocks=one.n,
            p=one.p_above(rule.limit),
            findable=findable(one, len(nodes), rule, _look(looks, rule)),
            speed=speed(node, seen),
        )
        found.append(sure(result, rule))
    return found


def _samples(looks: Sequence[Sequence[SpeedBlock]]) -> dict[str, Sample]:
    """The losses of each node in all looks, with the noise that it is held to."""
    return pooled({node: sample(values) for node, values in losses([b for look in looks for b in look]).items()})


def _look(looks: Sequence[object], rule: Rule) -> int:
    """The number of the last look; none counts as more than the last that was planned for."""
    return max(1, min(len(looks), rule.looks))


def _blamed(looks: Sequence[Sequence[SpeedBlock]], nodes: Sequence[str], rule: Rule) -> set[str]:
    """Nodes proven bad at any look, each look taking its share of the error and everything seen so far."""
    found: set[str] = set()
    for number in range(1, len(looks) + 1):
        again = {node for block in looks[number - 1] for node in block.speeds}
        chances = {
            node: one.p_above(rule.limit)
            for node, one in _samples(looks[:number]).items()
            if node in again and one.n >= LEAST_BLOCKS
        }
        found |= rejected(chances, rule.spent(min(number, rule.looks)), len(nodes))
    return found


def _doubted(samples: Mapping[str, Sample], nodes: Sequence[str], rule: Rule) -> set[str]:
    """Nodes that all blocks together make likely to be slow."""
    chances = {node: one.p_above(rule.limit) for node, one in samples.items() if one.n >= LEAST_BLOCKS}
    return rejected(chances, DOUBT, len(nodes))


def _word(found: Sample, blamed: bool, doubted: bool, rule: Rule, failed: Sequence[Reason]) -> tuple[NodeWord, Reason]:
    loss, margin = 100 * share(found.mean), 100 * rule.margin
    if blamed:
        return "bad", reason("node-slow", percent=loss, margin=margin)
    if failed:
        return "suspect", reason("rounds-failed", rounds=len(failed), why=failed[0])
    if doubted:
        return "suspect", reason("node-maybe-slow", percent=loss, margin=margin)
    if found.mean > rule.limit:
        return "good", reason("node-slow-by-noise", percent=loss)
    return "good", reason("node-not-slow", margin=margin)


def sure(found: NodeResult, rule: Rule) -> NodeResult:
    """Good only if the loss that must be found would have been."""
    if found.word != "good" or rule.find is None or (found.findable is not None and found.findable <= rule.find):
        return found
    if found.findable is None:
        why = reason("find-unknown", find=100 * rule.find)
    else:
        why = reason("find-missed", find=100 * rule.find, findable=100 * found.findable)
    return msgspec.structs.replace(found, word="unsure", reason=[*found.reason, why])


def more_blocks(looks: Sequence[Sequence[SpeedBlock]], nodes: Sequence[str], rule: Rule, find: float) -> int:
    """How many further blocks of all nodes would find a loss of `find` on every node that is not proven bad; 0 when it
    would be found already, or all looks were taken. At most as many as there were: noise is known only roughly."""
    if len(nodes) < 2 or len(looks) >= rule.looks:
        return 0
    blamed = _blamed(looks, nodes, rule) if len(nodes) > 2 else set()
    samples = {node: one for node, one in _samples(looks).items() if node not in blamed and one.n >= LEAST_BLOCKS}
    if not samples:
        return 0
    now = [findable(one, len(nodes), rule, _look(looks, rule)) for one in samples.values()]
    if max(value or 1.0 for value in now) <= find:
        return 0
    so_far = max(one.n for one in samples.values())
    needed = max(blocks_needed(one, len(nodes), rule, find, len(looks) + 1) - one.n for one in samples.values())
    return max(LEAST_BLOCKS, min(needed, so_far))


def suspects(
    looks: Sequence[Sequence[SpeedBlock]], nodes: Sequence[str], rule: Rule
) -> tuple[list[str], tuple[str, ...]]:
    """Who runs again, and beside which nodes: those that look slow and are not proven to be. Empty when none does,
    or when all looks were taken."""
    if len(nodes) < 3 or len(looks) >= rule.looks:
        return [], ()
    samples = {node: one for node, one in _samples(looks).items() if one.n > 1}
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
        known["findable"] = findable(one, 2, msgspec.structs.replace(rule, looks=1))
        agreed = reason("two-nodes-agree", margin=100 * rule.margin)
        said = reason("two-nodes-differ", margin=100 * rule.margin) if differ else agreed
        half = one.half_width()
        interval = {"ci_low": share(one.mean - half), "ci_high": share(one.mean + half), "loss": share(one.mean)}
        found.append(NodeResult(node, "suspect" if differ else "good", [said], **known, **interval))  # type: ignore[arg-type]
    return found


def speed(node: str, blocks: Sequence[SpeedBlock]) -> float | None:
    logs = [math.log(block.speeds[node]) for block in blocks if node in block.speeds]
    return math.exp(sum(logs) / len(logs)) if logs else None


def percent(value: float) -> str:
    return f"{100 * value:.3g} %"
