"""Image classification without a framework: recipe, order and preparation of images in NumPy's arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from trainmark_images import Batch, Source, Synthetic
from trainmark_loop import Recipe
from trainmark_shards import Ranked, Shards
from trainmark_weights import Weight

# Batches that each thread reads ahead.
AHEAD = 2


@dataclass(frozen=True)
class Images:
    """What is trained on, and the model's first weights."""

    train: Source
    test: Source | None
    size: int
    weights: tuple[Weight, ...]
    # Operations to train on one image.
    flops: float
    # The global batch that the learning rate is meant for; it is scaled to the real one. 0: taken as it is.
    lr_batch: int = 0


def recipe(params: Mapping[str, Any], world: int, lr_batch: int, steps_per_epoch: int) -> Recipe:
    """The parameters of an image workload as a recipe."""
    images = params["batch"] * params.get("accumulate", 1) * world
    return Recipe(
        lr=params["lr"] * (images / lr_batch if lr_batch else 1.0),
        steps=params["steps"],
        epochs=params["epochs"],
        warmup_steps=params.get("warmup_steps", 0) or params.get("warmup_epochs", 0) * steps_per_epoch,
        schedule=params["schedule"],
        dtype=params["dtype"],
        accumulate=params.get("accumulate", 1),
        compile=params.get("compile", False),
        clip=params.get("clip", 0.0),
        eval_every=params["eval_every"],
        target=params["target_accuracy"],
        stop_at_target=params["stop_at_target"],
        checkpoint_every=params["checkpoint_every"],
    )


class Classes:
    """What classification is in any framework; accuracy on the test images counts."""

    metric = "accuracy"
    direction: Literal["up", "down"] = "up"
    facts: Mapping[str, Any] = {}
    random = False

    def samples(self, batch: Batch) -> int:
        return len(batch.labels)

    def values(self, sums: list[float]) -> dict[str, float]:
        right, loss, count = sums
        return {"accuracy": right / count, "loss": loss / count}


class Classifier(Classes):
    """Batches as arrays: images of 32-bit floats, labels of 32-bit integers."""

    def __init__(
        self, images: Images, place: Ranked, params: Mapping[str, Any], seed: int, channels_last: bool
    ) -> None:
        self._place, self._params, self._seed = place, params, seed
        self.weights, self.flops = images.weights, images.flops
        self._shards = Shards(len(images.train), params["batch"], place, seed, params.get("accumulate", 1))
        self.steps_per_epoch = self._shards.steps_per_epoch
        self._train = _Pixels(images.train, images.size, channels_last)
        self._test = None if images.test is None else _Pixels(images.test, images.size, channels_last)

    def training(self, numbers: range) -> Generator[Batch, None, None]:
        def read(number: int) -> Batch:
            random = np.random.default_rng([self._seed, self._place.rank, number])
            return self._train.batch(self._shards.indices(number), random)

        if isinstance(self._train.source, Synthetic):
            # One batch, ready: the speed of the model alone.
            fixed = read(0)
            yield from (fixed for _ in numbers)
        else:
            yield from _ahead(read, numbers, self._params.get("workers", 0))

    def evaluation(self) -> Iterator[tuple[Batch, Any]] | None:
        """(batch, which of its images count); all batches have one shape, as compilers like it."""
        if self._test is None:
            return None
        return self._shares(self._test, self._params["batch"])

    def _shares(self, test: _Pixels, batch: int) -> Iterator[tuple[Batch, Any]]:
        mine = np.arange(self._place.rank, len(test.source), self._place.world)
        for start in range(0, len(mine), batch):
            wanted = np.arange(start, start + batch)
            counts = (wanted < len(mine)).astype(np.float32)
            yield test.batch(mine[np.minimum(wanted, len(mine) - 1)], None), counts


def task(config: Mapping[str, Any], place: Ranked, images: Images, channels_last: bool) -> tuple[Classifier, Recipe]:
    """What is trained and how, as the parameters say."""
    params = config["params"]
    what = Classifier(images, place, params, config["seed"], channels_last)
    return what, recipe(params, place.world, images.lr_batch, what.steps_per_epoch)


class _Pixels:
    """Images of a source, normalised, at the size and memory layout the model wants."""

    def __init__(self, source: Source, size: int, channels_last: bool) -> None:
        self.source, self._size, self._last = source, size, channels_last
        channels = (1, len(source.mean), 1, 1)
        mean, std = np.array(source.mean) * 255, np.array(source.std) * 255
        self._scale = (1 / std).astype(np.float32).reshape(channels)
        self._shift = (-mean / std).astype(np.float32).reshape(channels)

    def batch(self, indices: Any, random: np.random.Generator | None) -> Batch:
        images, labels = self.source.batch(indices, random)
        normal = images * self._scale + self._shift
        if normal.shape[-1] != self._size:
            normal = _resized(_resized(normal, self._size, 2), self._size, 3)
        if self._last:
            normal = normal.transpose(0, 2, 3, 1)
        return Batch(np.ascontiguousarray(normal, np.float32), labels.astype(np.int32))


def _resized(images: Any, size: int, axis: int) -> Any:
    """Linear between the two nearest pixels along one axis, pixels being areas."""
    length = images.shape[axis]
    at = np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
    low = np.floor(at).astype(np.int64)
    part = (at - low).astype(np.float32).reshape([-1 if place == axis else 1 for place in range(4)])
    near, far = images.take(low, axis), images.take(np.minimum(low + 1, length - 1), axis)
    return near + (far - near) * part


def _ahead(read: Callable[[int], Batch], numbers: range, workers: int) -> Generator[Batch, None, None]:
    """Batches in order; with `workers`, that many threads read and decode ahead."""
    if not workers:
        yield from map(read, numbers)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Any] = deque()
        for number in numbers:
            waiting.append(pool.submit(read, number))
            if len(waiting) >= workers * AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
