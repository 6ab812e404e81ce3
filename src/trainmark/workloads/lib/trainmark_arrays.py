"""The timed loop for frameworks that are fed with NumPy's arrays and begin with the first weights that all share."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trainmark_probe as probe
import trainmark_weights
from trainmark_job import InputError, check_dtype
from trainmark_loop import TimedLoop, alive
from trainmark_weights import Weight

# One node's file may be a step newer than another's when they are killed between two writes.
KEPT = 2
LINGER_SECONDS = 0.5
_NAME = re.compile(r"step-(\d+)\.npz\Z")


def check(config: dict[str, Any], framework: str, dtypes: Iterable[str] = ("fp32",)) -> None:
    """Refuse what the programs of this framework do not offer."""
    params = config["params"]
    if params["dtype"] not in dtypes:
        offered = ", ".join(dtypes)
        raise InputError(f"dtype {params['dtype']} is not offered in {framework}; it has {offered}")
    check_dtype(params["dtype"], config["device"])
    for name, neutral in (("accumulate", 1), ("gradient_accumulation_steps", 1), ("compile", False)):
        if params.get(name, neutral) != neutral:
            raise InputError(f"{name}={params[name]} is for PyTorch; set {name}={neutral} for {framework}")
    if config.get("checkpoint"):
        raise InputError(f"{framework} programs take no checkpoint to start from; PyTorch's do")


def first_weights(layout: Sequence[Weight]) -> dict[str, Any]:
    """By name, the same in every framework."""
    first = trainmark_weights.first(layout)
    probe.note("first_weights_sha256", trainmark_weights.sha256(first))
    return first


class ArrayLoop(TimedLoop):
    """A program's step is `loop.batch()`, an update of the weights, and `loop.done(samples, loss)`."""

    def sums(self, judge: Callable[..., Any], batches: Iterator[Any]) -> list[float]:
        """What `judge` finds in each batch, three numbers, added up over the batches of all ranks."""
        sums = np.zeros(3)
        for batch in alive(batches):
            sums += np.asarray(judge(*batch), np.float64)
        found: list[float] = self.ranks.total(*(float(value) for value in sums))
        return found

    # -- for each framework

    def _weights(self) -> dict[str, Any]:
        """By the names of the first weights, as arrays."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        """All that training goes on from, as arrays."""
        raise NotImplementedError

    def _restore(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    # -- for the loop

    def _parameters(self) -> int:
        return sum(value.size for value in self._weights().values())

    def _evaluated_by(self, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
        return evaluate()

    def _last_notes(self, trained: float) -> None:  # noqa: ARG002
        probe.note("weights_sha256", trainmark_weights.sha256(self._weights()))

    def _leave(self) -> None:
        """A rank that leaves at once may take along what others still wait for."""
        if self.ranks.world > 1:
            with contextlib.suppress(Exception):
                self.ranks.total(0.0)
            time.sleep(LINGER_SECONDS)

    def _resume(self) -> int:
        # Not by what this node has: all ranks must ask, or none.
        if not self._checkpoint_every:
            return 0
        found = dict(_found(self.checkpoints))
        step = int(min(self.ranks.total(*self._one_hot(max(found, default=0)))))
        if not step or self.ranks.total(float(step in found))[0] < self.ranks.world:
            return 0
        begin = time.monotonic()
        with np.load(found[step], allow_pickle=False) as state:
            self._restore(dict(state))
        probe.note("checkpoint_load_seconds", time.monotonic() - begin)
        return step

    def _one_hot(self, value: float) -> list[float]:
        """This rank's value among zeros: the sum over ranks has all values."""
        return [value if rank == self.ranks.rank else 0.0 for rank in range(self.ranks.world)]

    def _save(self, done: int) -> None:
        """Once per node; returns when every node has."""
        state = self._state()
        if self.ranks.local_rank == 0:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            final = self.checkpoints / f"step-{done:09d}.npz"
            half = final.with_suffix(".half")
            with half.open("wb") as file:
                np.savez(file, **state)
                file.flush()
                os.fsync(file.fileno())
            half.replace(final)
            for _, old in _found(self.checkpoints)[:-KEPT]:
                with contextlib.suppress(FileNotFoundError):
                    old.unlink()
        self.ranks.total(0.0)


def channels_last(value: Any) -> Any:
    """A weight of the file as frameworks with channels last want it: OIHW becomes HWIO, matrices are transposed."""
    return np.ascontiguousarray(value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T)


def channels_first(value: Any) -> Any:
    """And back."""
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T


def first_statistics(first: dict[str, Any]) -> dict[str, Any]:
    """Running statistics of all batch normalisations, whose scales are the weights of one dimension."""
    names = [name for name in first if name.endswith(".weight") and first[name].ndim == 1]
    means = {f"{name.removesuffix('weight')}running_mean": np.zeros_like(first[name]) for name in names}
    return means | {f"{name.removesuffix('weight')}running_var": np.ones_like(first[name]) for name in names}


def from_first(arrays: dict[str, Any], ranks: Any) -> dict[str, Any]:
    """The arrays of the first rank, on every rank."""
    if ranks.world == 1 or not arrays:
        return arrays
    flat = np.concatenate([np.ravel(value) for value in arrays.values()])
    together = np.array(ranks.total(*(flat * (ranks.rank == 0)).tolist()), np.float32)
    ends = np.cumsum([np.size(value) for value in arrays.values()])
    parts = np.split(together, ends[:-1])
    return {name: part.reshape(np.shape(arrays[name])) for name, part in zip(arrays, parts, strict=True)}


def _found(folder: Path) -> list[tuple[int, Path]]:
    named = ((_NAME.match(path.name), path) for path in folder.glob("step-*.npz"))
    return sorted((int(match[1]), path) for match, path in named if match)
