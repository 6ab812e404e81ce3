"""What a step is, in every framework: which samples each rank sees, and the learning rate.

Both depend on the seed and the number of the step alone, so a resumed run sees what an uninterrupted one sees.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from trainmark_job import InputError


class Rank(Protocol):
    """One of several processes that train together."""

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...


class Shards:
    """Disjoint shares of each epoch's random order: every rank has the same number of whole batches."""

    def __init__(
        self, samples: int, batch: int, ranks: Rank, seed: int, accumulate: int = 1, kind: str = "images"
    ) -> None:
        per_step = batch * accumulate
        self.steps_per_epoch = samples // (per_step * ranks.world)
        if not self.steps_per_epoch:
            wanted = f"one step of {ranks.world} x {per_step}"
            raise InputError(f"{samples} {kind} are fewer than {wanted}: set a smaller batch")
        self._samples, self._batch, self._accumulate = samples, batch, accumulate
        self._ranks, self._seed = ranks, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def indices(self, number: int) -> np.ndarray[Any, Any]:
        """The samples of this rank in its batch `number`, counted from 0; a step has `accumulate` batches."""
        step, part = divmod(number, self._accumulate)
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([self._seed, epoch]).permutation(self._samples)
            self._epoch = epoch
        start = ((position * self._ranks.world + self._ranks.rank) * self._accumulate + part) * self._batch
        return self._order[start : start + self._batch]


def learning_rate(peak: float, step: int, steps: int, warmup: int, schedule: str, floor: float = 0.0) -> float:
    """At `step`, counted from 0: a linear rise over `warmup` steps to `peak`, then the schedule (cosine, linear or
    constant), which ends after `steps` at the share `floor` of the peak."""
    if step < warmup:
        return peak * ((step + 1) / warmup)
    passed = min(1.0, (step - warmup) / max(1, steps - warmup))
    left = {"cosine": 0.5 * (1 + math.cos(math.pi * passed)), "linear": 1 - passed, "constant": 1.0}[schedule]
    return peak * (floor + (1 - floor) * left)
