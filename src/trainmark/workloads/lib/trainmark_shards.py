"""Which samples each rank sees at each step: the same in every framework, and known without any of them.

The order depends on the seed and the step alone, so a resumed run sees what an uninterrupted one sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from trainmark_job import InputError


class Ranked(Protocol):
    """One of several that train together."""

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...


@dataclass(frozen=True)
class Seat:
    """A rank whose data stays in NumPy's arrays."""

    rank: int
    world: int

    def tensor(self, array: Any) -> Any:
        return array


class Shards:
    """Disjoint shares of each epoch's random order: every rank has the same number of whole batches."""

    def __init__(
        self, samples: int, batch: int, place: Ranked, seed: int, accumulate: int = 1, kind: str = "images"
    ) -> None:
        per_step = batch * accumulate
        self.steps_per_epoch = samples // (per_step * place.world)
        if not self.steps_per_epoch:
            wanted = f"one step of {place.world} x {per_step}"
            raise InputError(f"{samples} {kind} are fewer than {wanted}: set a smaller batch")
        self._samples, self._batch, self._accumulate = samples, batch, accumulate
        self._place, self._seed = place, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def indices(self, number: int) -> np.ndarray[Any, Any]:
        """The samples of this rank in its batch `number`, counted from 0; a step has `accumulate` batches."""
        step, part = divmod(number, self._accumulate)
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([self._seed, epoch]).permutation(self._samples)
            self._epoch = epoch
        start = ((position * self._place.world + self._place.rank) * self._accumulate + part) * self._batch
        return self._order[start : start + self._batch]
