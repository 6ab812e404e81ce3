"""Images of any source as batches on the device, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from trainmark_images import Batch, Source, Synthetic
from trainmark_job import InputError
from trainmark_loop import Shards, alive
from trainmark_torch import Ranks


class _Batches(Dataset[Any]):
    """Batches by number, for loader processes. A bad file is handed over and not raised, to keep its message."""

    def __init__(self, source: Source, indices: Callable[[int], np.ndarray[Any, Any]], seeds: list[int]) -> None:
        self._source, self._indices, self._seeds = source, indices, seeds

    def __getitem__(self, number: int) -> Batch | InputError:
        random = np.random.default_rng([*self._seeds, number]) if self._seeds else None
        try:
            images, labels = self._source.batch(self._indices(number), random)
            return Batch(torch.from_numpy(images), torch.from_numpy(labels))
        except InputError as error:
            return error


class Feed:
    """Batches on the device, normalised, at the size and memory layout the model wants."""

    def __init__(self, source: Source, ranks: Ranks, size: int, channels_last: bool) -> None:
        self.source, self._ranks, self._size = source, ranks, size
        self._layout = torch.channels_last if channels_last else torch.contiguous_format
        channels = (1, len(source.mean), 1, 1)
        mean, std = np.array(source.mean) * 255, np.array(source.std) * 255
        self._scale = torch.tensor(1 / std, dtype=torch.float32, device=ranks.device).reshape(channels)
        self._shift = torch.tensor(-mean / std, dtype=torch.float32, device=ranks.device).reshape(channels)

    def training(self, shards: Shards, numbers: range, seed: int, workers: int) -> Generator[Batch, None, None]:
        """The batches of `numbers`, varied at random; with `workers`, processes read ahead until it is closed."""
        batches = _Batches(self.source, shards.indices, [seed, self._ranks.rank])
        if isinstance(self.source, Synthetic):
            # One batch, already on the device: the speed of the model alone.
            fixed = self._ready(batches[0])
            yield from (fixed for _ in numbers)
        else:
            yield from self._load(batches, numbers, workers)

    def evaluation(self, batch: int, workers: int) -> Iterator[Batch]:
        """This rank's share of all images, each once."""
        mine = np.arange(self._ranks.rank, len(self.source), self._ranks.world)
        parts = [mine[start : start + batch] for start in range(0, len(mine), batch)]
        return self._load(_Batches(self.source, parts.__getitem__, []), range(len(parts)), workers)

    def _load(self, batches: _Batches, numbers: range, workers: int) -> Iterator[Batch]:
        if not workers:
            yield from (self._ready(batches[number]) for number in numbers)
            return
        pin = self._ranks.device.type == "cuda"
        yield from map(self._ready, DataLoader(batches, None, sampler=numbers, num_workers=workers, pin_memory=pin))

    def _ready(self, given: Batch | InputError) -> Batch:
        if isinstance(given, InputError):
            raise given
        images, labels = given
        device = self._ranks.device
        images = self._normal(images.to(device, non_blocking=True))
        return Batch(images, labels.to(device, non_blocking=True))

    def _normal(self, images: Tensor) -> Tensor:
        normal = torch.addcmul(self._shift, images.float(), self._scale)
        if normal.shape[-1] != self._size:
            normal = functional.interpolate(normal, size=(self._size, self._size), mode="bilinear")
        return normal.contiguous(memory_format=self._layout)

    def accuracy(self, model: nn.Module, batch: int, workers: int) -> dict[str, float]:
        """The share of correct answers over the images of all ranks, and the mean loss."""
        sums = torch.zeros(3, device=self._ranks.device)
        for images, labels in alive(self.evaluation(batch, workers)):
            scores = model(images)
            correct = (scores.argmax(1) == labels).sum()
            loss = functional.cross_entropy(scores, labels, reduction="sum")
            sums += torch.stack((correct, loss, torch.full_like(loss, len(labels)))).float()
        all_correct, all_loss, count = self._ranks.total(*sums.tolist())
        return {"accuracy": all_correct / count, "loss": all_loss / count}
