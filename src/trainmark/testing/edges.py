"""Ranks that train together on devices that run behind their programs, simulated: which ends of blocks they share.

The rule under test is the probe's own. Each rank has its clock and its noise; a step ends everywhere after the slowest
rank, as it does where gradients are shared, and the host is some steps ahead of its device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Protocol

import msgspec

from trainmark.probe.trainmark_probe import BLOCK_NS, BLOCK_STEPS, Blocks

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats, Ints

NS = 1_000_000_000


class Rule(Protocol):
    """When a rank ends a block."""

    def ends(self, step: int, now: int) -> bool: ...

    def ended(self, step: int, now: int) -> None: ...


class OwnClocks:
    """After so many steps or so much time of a rank's own clock: how it must not be done, to compare with."""

    def __init__(self) -> None:
        self._step = self._ns = 0

    def ends(self, step: int, now: int) -> bool:
        return step - self._step >= BLOCK_STEPS or now - self._ns >= BLOCK_NS

    def ended(self, step: int, now: int) -> None:
        self._step, self._ns = step, now


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds` per step, the first one longer by `first`; `jitter`: deviation of the logarithm of each rank's steps;
    `late`: mean seconds until a rank's host sees the end; `ahead`: steps that hosts enqueue before they wait."""

    ranks: int = 8
    steps: int = 200
    seconds: float = 0.11
    first: float = 5.0
    jitter: float = 0.05
    late: float = 0.001
    ahead: int = 0
    # The clocks of ranks differ by up to this much in speed.
    drift: float = 1e-4


def shared(training: Training, seed: int = 0, rule: Callable[[], Rule] = Blocks) -> tuple[Ints, Floats]:
    """The steps after which every rank ended a block, and the seconds of each step."""
    import numpy as np

    draw = np.random.default_rng(seed)
    own = training.seconds * np.exp(training.jitter * draw.normal(size=(training.steps, training.ranks)))
    took = own.max(axis=1)
    took[0] += training.first
    ends = np.concatenate(([0.0], took.cumsum()))
    edges = []
    for _ in range(training.ranks):
        late = draw.exponential(training.late, training.steps + 1) if training.late else np.zeros(training.steps + 1)
        pace = 1 + training.drift * draw.uniform(-1, 1)
        edges.append(_rank(ends, late, pace, training.ahead, rule()))
    return reduce(np.intersect1d, edges), took


def _rank(ends: Floats, late: Floats, pace: float, ahead: int, rule: Rule) -> Ints:
    """Where one rank ends its blocks."""
    import numpy as np

    found: list[int] = []
    rule.ended(0, 0)
    synced = 0
    for step in range(1, len(ends)):
        # The host may enqueue `ahead` steps before it must wait for the device.
        seen = max(step - ahead, synced)
        now = round(NS * pace * (ends[seen] + late[seen]))
        if rule.ends(step, now):
            rule.ended(step, round(NS * pace * (ends[step] + late[step])))
            synced = step
            found.append(step)
    return np.array(found, dtype=np.int64)


def in_window(edges: Ints, took: Floats, steps: int, seconds: float) -> int | None:
    """The fewest shared edges in any stretch of at least so many steps and seconds; None where none is so long."""
    import numpy as np

    ends = np.concatenate(([0.0], took.cumsum()))
    least = None
    for first in range(1, len(took)):
        last = max(first + steps, int(np.searchsorted(ends, ends[first] + seconds)))
        if last > len(took):
            break
        count = int(((edges >= first) & (edges <= last)).sum())
        least = count if least is None else min(least, count)
    return least
