"""Nodes held against something other than each other: a contract, a criterion, and what the same step must compute."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.accept.noise import Rule, Sample, rejected, sample
from trainmark.score.stats.confidence import median
from trainmark.spec.contract import Criterion, Limits

Speeds = Mapping[str, Sequence[float]]
# How far the same first step may differ between machines that are alike, as a share: the order of additions may
# differ there, and nothing else. Narrow number formats round a thousand times as much.
STEP_TOLERANCE = 1e-4
NARROW_TOLERANCE = 1e-2


class PromiseCheck(msgspec.Struct, frozen=True):
    """A node, a link or the whole fleet (`who` empty) against one promise. `kept` False only beyond doubt."""

    who: str
    what: str
    kept: bool
    reason: Reason
    p: float | None = None


def contract(speeds: Speeds, limits: Limits, unit: str, rule: Rule) -> list[PromiseCheck]:
    """Each against the least speed (one-sided t test, Holm), and how far they are apart, as it was measured."""
    samples = _logs(speeds)
    found = []
    if limits.throughput is not None:
        least = limits.throughput
        chances = {who: _below(one, math.log(least)) for who, one in samples.items()}
        broken = rejected(chances, rule.level, max(1, len(chances)))
        for who, one in samples.items():
            said = reason("speed-promised", speed=math.exp(one.mean), unit=unit, least=least)
            found.append(PromiseCheck(who, "throughput", who not in broken, said, chances[who]))
    if limits.spread is not None and len(samples) > 1:
        means = [one.mean for one in samples.values()]
        spread = math.expm1(max(means) - min(means))
        said = reason("spread-promised", percent=100 * spread, most=100 * limits.spread)
        found.append(PromiseCheck("", "spread", spread <= limits.spread, said))
    return found


def criterion(speeds: Speeds, known: Criterion, rule: Rule) -> list[PromiseCheck]:
    """Each against the median of nodes known to be good, less the margin (one-sided t test, Holm). How well that
    median is known counts, too."""
    samples = _logs(speeds)
    vague = math.hypot(known.between, known.within / math.sqrt(known.blocks)) * math.sqrt(math.pi / 2 / known.count)
    level = math.log(known.median)
    chances = {who: _below(one, level - rule.limit, vague) for who, one in samples.items()}
    broken = rejected(chances, rule.level, max(1, len(chances)))
    found = []
    for who, one in samples.items():
        loss = -math.expm1(one.mean - level)
        percent = 100 * abs(loss)
        slower = reason("slower-than-criterion", percent=percent)
        said = slower if loss > 0 else reason("faster-than-criterion", percent=percent)
        found.append(PromiseCheck(who, "criterion", who not in broken, said, chances[who]))
    return found


def _below(one: Sample, limit: float, more: float = 0.0) -> float:
    return Sample(one.n, -one.mean, one.sd).p_above(-limit, more)


def _logs(speeds: Speeds) -> dict[str, Sample]:
    return {who: sample([math.log(value) for value in values]) for who, values in speeds.items() if values}


def learn(speeds: Speeds, fingerprint: str, unit: str) -> Criterion | None:
    """A criterion of these speeds, which the caller knows to be those of good nodes."""
    samples = _logs(speeds)
    if not samples:
        return None
    means = [one.mean for one in samples.values()]
    freedom = sum(one.n - 1 for one in samples.values())
    within = math.sqrt(sum((one.n - 1) * one.sd**2 for one in samples.values()) / freedom) if freedom else 0.0
    return Criterion(
        fingerprint=fingerprint,
        unit=unit,
        median=math.exp(median(means)),
        between=sample(means).sd,
        within=within,
        count=len(samples),
        blocks=min(one.n for one in samples.values()),
    )


class FirstStep(msgspec.Struct, frozen=True):
    """What the first step of a round gave."""

    loss: float
    gradient_norm: float


def differing_first_steps(
    rounds: Mapping[int, Mapping[str, FirstStep]], kinds: Mapping[str, str], *, narrow: bool = False
) -> dict[str, tuple[bool, Reason]]:
    """Nodes whose first step differs from that of their like: whether it is known which is the odd one, and a reason.

    `kinds`: what makes machines alike, by node. Of three and more the median is right; of two it is not known.
    """
    allowed = NARROW_TOLERANCE if narrow else STEP_TOLERANCE
    found: dict[str, tuple[bool, Reason]] = {}
    for number, steps in sorted(rounds.items()):
        for kind in sorted({kinds.get(node, "") for node in steps}):
            alike = {node: step for node, step in steps.items() if kinds.get(node, "") == kind}
            for node, why in _odd(alike, allowed, number).items():
                found.setdefault(node, (len(alike) > 2, why))
    return found


def _odd(steps: Mapping[str, FirstStep], allowed: float, block: int) -> dict[str, Reason]:
    found: dict[str, Reason] = {}
    for name in ("loss", "gradient_norm"):
        values = {node: float(getattr(step, name)) for node, step in steps.items()}
        usual = median(list(values.values())) if len(values) > 2 else None
        for node, value in values.items():
            others = [other for key, other in values.items() if key != node]
            right = usual if usual is not None else others[0] if others else value
            # A value that is not a number is unlike everything, itself included.
            if not abs(value - right) <= allowed * max(abs(right), 1e-12):
                seen, usual_here = _finite(value), _finite(right)
                if name == "loss":
                    odd = reason("first-step-loss", block=block, value=seen, usual=usual_here)
                else:
                    odd = reason("first-step-gradient-norm", block=block, value=seen, usual=usual_here)
                found.setdefault(node, odd)
    return found


def _finite(value: float) -> float | str:
    """JSON has neither infinity nor what is not a number."""
    return value if math.isfinite(value) else str(value)
