"""What noise allows to be proven: samples of losses, their common spread, and the smallest loss that would be found.

Few blocks of one node say little of its own noise, and a t test pays for that dearly: with 5 blocks a loss must be 7
standard errors beyond the margin. Nodes of a fleet run the same case, so their spread from block to block is taken
together, except for a node that is clearly noisier than the rest: it is held to its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from trainmark.score.stats import student
from trainmark.score.stats.confidence import t_limit
from trainmark.score.stats.verdict import holm

# Fewer blocks with a speed do not make a verdict.
LEAST_BLOCKS = 3
# The chance with which a loss counts as one that would have been found.
POWER = 0.9
# A node whose spread would be this unlikely among nodes of the same noise has a noise of its own.
_OWN_NOISE = 0.1
# From here on Student's distribution is so near the normal one that the difference shows in the third digit.
_NEARLY_NORMAL = 300.0
NORMAL_POWER = 1.2815515655446004
# More blocks than this are not planned for, whatever they would find.
MOST_BLOCKS = 200


class Rule(msgspec.Struct, frozen=True):
    """Losses up to `margin` do not matter; `level` is the chance to blame any good node, over all `looks` together.
    `find`: the loss that must be findable before a node is called good."""

    margin: float = 0.03
    level: float = 0.01
    looks: int = 3
    find: float | None = None

    @property
    def limit(self) -> float:
        """The margin as a loss, which is a logarithm."""
        return -math.log1p(-self.margin)

    def spent(self, look: int) -> float:
        """The part of `level` that a look may use, counted from 1: less at each, and `level` over all of them."""
        return self.level * (self.looks + 1) / self.looks / (look * (look + 1))


class Sample(msgspec.Struct, frozen=True):
    """Mean and spread of a few numbers. `freedom`: how well the spread is known, in degrees of freedom; None: as well
    as so many numbers tell."""

    n: int
    mean: float
    sd: float
    freedom: float | None = None

    @property
    def known(self) -> float:
        return self.n - 1 if self.freedom is None else self.freedom

    def p_above(self, limit: float, more: float = 0.0) -> float:
        """One-sided t test: the chance of such a mean if the true one is `limit` or less. `more` is a further
        standard error, of what the numbers were held against."""
        error = math.hypot(self.sd / math.sqrt(self.n), more)
        if self.n < 2:
            return 1.0
        if error == 0:
            return 0.0 if self.mean > limit else 1.0
        return student.below(self.known, (limit - self.mean) / error)

    def half_width(self, level: float = 0.95) -> float:
        return t_limit(self.known, level) * self.sd / math.sqrt(self.n) if self.n > 1 else math.inf


def sample(values: Sequence[float]) -> Sample:
    n = len(values)
    mean = sum(values) / n
    variance = sum((value - mean) ** 2 for value in values) / (n - 1) if n > 1 else 0.0
    return Sample(n, mean, math.sqrt(variance))


def pooled(samples: Mapping[str, Sample]) -> dict[str, Sample]:
    """The same means, with the spread of all nodes together; its own for a node that is clearly noisier."""
    from scipy.special import fdtrc

    freedom = sum(one.n - 1 for one in samples.values())
    squares = sum((one.n - 1) * one.sd**2 for one in samples.values())
    found = {}
    for name, one in samples.items():
        own = one.n - 1
        rest, left = freedom - own, squares - own * one.sd**2
        if own < 1 or rest < 1 or left <= 0 or fdtrc(own, rest, one.sd**2 / (left / rest)) < _OWN_NOISE:
            found[name] = one
        else:
            # Losses in a block are held against a median of each other: one of them tells nothing new.
            known = max(float(own), freedom * (1 - 1 / len(samples)))
            found[name] = Sample(one.n, one.mean, math.sqrt(squares / freedom), known)
    return found


def rejected(chances: Mapping[str, float], level: float, family: int) -> set[str]:
    """Names whose hypothesis is rejected. `family` counts those, too, that are not tested this time."""
    return {name for name, p in zip(chances, holm(list(chances.values()), family), strict=True) if p <= level}


def distance(freedom: float, chance: float) -> float:
    """How many standard errors beyond the margin a loss must be, to be proven at `chance` with a chance of POWER."""
    from scipy.special import nctdtrinc

    needed = student.limit(freedom, chance)
    if freedom > _NEARLY_NORMAL:
        return needed + NORMAL_POWER
    return float(nctdtrinc(freedom, 1 - POWER, needed))


def findable(one: Sample, nodes: int, rule: Rule, look: int = 1) -> float | None:
    """The smallest share of speed whose loss would have been proven with a chance of POWER at this look."""
    if one.n < LEAST_BLOCKS:
        return None
    error = one.sd / math.sqrt(one.n)
    return share(rule.limit + distance(one.known, rule.spent(look) / nodes) * error)


def blocks_needed(one: Sample, nodes: int, rule: Rule, find: float, look: int) -> int:
    """How many blocks in all would find a loss of `find`, if the noise stays what it was; MOST_BLOCKS if more."""
    if one.n < 2:
        return LEAST_BLOCKS
    room = -math.log1p(-find) - rule.limit
    if room <= 0:
        return MOST_BLOCKS
    n = one.n
    while n < MOST_BLOCKS:
        known = one.known * n / one.n
        if distance(known, rule.spent(look) / nodes) * one.sd / math.sqrt(n) <= room:
            return n
        n += max(1, n // 10)
    return MOST_BLOCKS


def share(loss: float) -> float:
    """A loss, which is a logarithm, as the share of speed that is missing."""
    return -math.expm1(-loss)
