"""The loop for frameworks that are fed with NumPy's arrays and begin with the shared first weights."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import trainmark_probe as probe
import trainmark_units
import trainmark_weights
from trainmark_job import InputError
from trainmark_loop import Loop, Recipe, rate

# One node's file may be a step newer than another's when they are killed between two writes.
KEPT = 2
LINGER_SECONDS = 0.5
_NAME = re.compile(r"step-(\d+)\.npz\Z")


class ArrayLoop(Loop):
    """A framework brings `_build`, `_update`, `_sums`, `_state` and `_restore`."""

    # Number formats the framework's programs train in.
    dtypes: tuple[str, ...] = ("fp32",)
    framework = ""

    def __init__(self, config: dict[str, Any], place: Any, task: Any, recipe: Recipe) -> None:
        super().__init__(config, place, task, recipe)
        offered = ", ".join(self.dtypes)
        if recipe.dtype not in self.dtypes:
            raise InputError(f"dtype {recipe.dtype} is not offered in {self.framework}; it has {offered}")
        trainmark_units.check(recipe.dtype, config["device"])
        for name, value, neutral in (("accumulate", recipe.accumulate, 1), ("compile", recipe.compile, False)):
            if value != neutral:
                raise InputError(f"{name}={value} is for PyTorch; set {name}={neutral} for {self.framework}")
        if config.get("checkpoint"):
            raise InputError(f"{self.framework} programs take no checkpoint to start from; PyTorch's do")

    # -- what a framework brings

    def _build(self, first: dict[str, Any]) -> None:
        """Make the model with these weights, and the optimizer."""
        raise NotImplementedError

    def _update(self, batch: Any, lr: float) -> Any:
        """One update of the weights; the loss of this rank comes back."""
        raise NotImplementedError

    def _sums(self, batch: Any, counts: Any) -> Any:
        """(right, loss, count) over what counts of a batch."""
        raise NotImplementedError

    def _weights(self) -> dict[str, Any]:
        """By the names of the first weights, as arrays."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        """All that training goes on from, as arrays."""
        raise NotImplementedError

    def _restore(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    # -- the loop's own hooks

    def _prepare(self) -> int:
        first = trainmark_weights.first(self.task.weights)
        probe.note("first_weights_sha256", trainmark_weights.sha256(first))
        self._build(first)
        return trainmark_weights.count(self.task.weights)

    def _step(self, step: int, batches: Iterator[Any]) -> tuple[int, Any]:
        with probe.span("data"):
            batch = next(batches)
        loss = self._update(batch, self.recipe.lr * rate(self.recipe, step, self.total))
        return self.task.samples(batch), loss

    def _judge(self, share: Iterator[Any]) -> list[float]:
        sums = np.zeros(3)
        for batch, counts in share:
            sums += np.asarray(self._sums(batch, counts), np.float64)
        return [float(value) for value in sums]

    def _last_notes(self, trained: float) -> None:  # noqa: ARG002
        probe.note("weights_sha256", trainmark_weights.sha256(self._weights()))
        if self.place.rank == 0:
            probe.note("flops_per_sample", self.task.flops)

    def _leave(self) -> None:
        """All is told. Whoever goes at once may take along what others still wait for; they have told all too."""
        if self.place.world > 1:
            with contextlib.suppress(Exception):
                self.place.total(0.0)
            time.sleep(LINGER_SECONDS)

    # -- checkpoints

    def _begin(self) -> int:
        """Go on from the newest step that every node has; 0 when there is none."""
        found = dict(_found(self.folder))
        if not self.recipe.checkpoint_every and not found:
            return 0
        step = int(min(self.place.total(*self._one_hot(max(found, default=0)))))
        if not step or self.place.total(float(step in found))[0] < self.place.world:
            return 0
        begin = time.monotonic()
        with np.load(found[step], allow_pickle=False) as state:
            self._restore(dict(state))
        probe.note("checkpoint_load_seconds", time.monotonic() - begin)
        return step

    def _one_hot(self, value: float) -> list[float]:
        """This rank's value among zeros, so that a sum tells everybody all values."""
        return [value if rank == self.place.rank else 0.0 for rank in range(self.place.world)]

    def _save(self, done: int) -> None:
        """Once per node; returns when every node has."""
        state = self._state()
        if self.place.local_rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            final = self.folder / f"step-{done:09d}.npz"
            half = final.with_suffix(".half")
            with half.open("wb") as file:
                np.savez(file, **state)
                file.flush()
                os.fsync(file.fileno())
            half.replace(final)
            for _, old in _found(self.folder)[:-KEPT]:
                with contextlib.suppress(FileNotFoundError):
                    old.unlink()
        self.place.total(0.0)


def channels_last(value: Any) -> Any:
    """A weight of the file as frameworks with channels last want it: OIHW becomes HWIO, matrices are turned round."""
    return np.ascontiguousarray(value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T)


def channels_first(value: Any) -> Any:
    """And back."""
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T


def from_first(arrays: dict[str, Any], place: Any) -> dict[str, Any]:
    """The arrays of the first rank, on every rank."""
    if place.world == 1 or not arrays:
        return arrays
    flat = np.concatenate([np.ravel(value) for value in arrays.values()])
    told = np.array(place.total(*(flat * (place.rank == 0)).tolist()), np.float32)
    ends = np.cumsum([np.size(value) for value in arrays.values()])
    parts = np.split(told, ends[:-1])
    return {name: part.reshape(np.shape(arrays[name])) for name, part in zip(arrays, parts, strict=True)}


def _found(folder: Path) -> list[tuple[int, Path]]:
    named = ((_NAME.match(path.name), path) for path in folder.glob("step-*.npz"))
    return sorted((int(match[1]), path) for match, path in named if match)
