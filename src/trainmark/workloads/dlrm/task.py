"""Telling clicks as a task for the training loop; what counts is the area under the curve of true and false alarms."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as functional
import trainmark_torch
from clicks import NUMBERS, TABLES, Batch, Clicks, Synthetic
from model import DLRM
from torch import Tensor, nn
from trainmark_batches import Shards
from trainmark_torch import Place

# Scores are sorted into so many bins: ranks add them up, and the area is exact to a thousandth.
BINS = 2000
# Different synthetic batches, kept on the device.
SYNTHETIC_BATCHES = 128


class Recommend:
    metric = "auc"
    direction: Literal["up", "down"] = "up"
    facts: Mapping[str, Any] = {"name": "dlrm"}
    random = False

    def __init__(
        self, train: Clicks | Synthetic, test: Clicks | None, place: Place, params: dict[str, Any], seed: int
    ) -> None:
        self._train, self._test, self._place, self._params = train, test, place, params
        self._shards = Shards(len(train), params["batch"], place, seed, params["accumulate"], "samples")
        self.steps_per_epoch = self._shards.steps_per_epoch

    def build(self) -> nn.Module:
        params = self._params
        sizes = {name: [int(size) for size in params[name].split(",") if size] for name in ("bottom", "top")}
        return DLRM(NUMBERS, TABLES, params["rows"], params["width"], **sizes)

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(model.parameters(), lr=lr, eps=1e-8)

    def training(self, numbers: range) -> Generator[Batch, None, None]:
        if isinstance(self._train, Synthetic):
            kept = [self._ready(self._shards.indices(number)) for number in range(SYNTHETIC_BATCHES)]
            yield from (kept[number % SYNTHETIC_BATCHES] for number in numbers)
        else:
            yield from (self._ready(self._shards.indices(number)) for number in numbers)

    def _ready(self, indices: Any) -> Batch:
        return self._on_device(self._train.batch(indices, self._params["rows"]))

    def _on_device(self, batch: Batch) -> Batch:
        return Batch(*(part.to(self._place.device, non_blocking=True) for part in batch))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return functional.binary_cross_entropy_with_logits(model(batch.numbers, batch.categories), batch.labels)

    def samples(self, batch: Batch) -> int:
        return len(batch.labels)

    def evaluation(self) -> Iterator[Batch] | None:
        return None if self._test is None else self._held_out(self._test)

    def _held_out(self, test: Clicks) -> Iterator[Batch]:
        mine = np.arange(self._place.rank, len(test), self._place.world)
        for start in range(0, len(mine), self._params["batch"]):
            part = mine[start : start + self._params["batch"]]
            yield self._on_device(test.batch(part, self._params["rows"]))

    def judge(self, model: nn.Module, batch: Batch) -> Tensor:
        scores = model(batch.numbers, batch.categories).float()
        loss = functional.binary_cross_entropy_with_logits(scores, batch.labels, reduction="sum")
        bins = (scores.sigmoid() * (BINS - 1)).long()
        counts = [torch.bincount(bins, weight, BINS) for weight in (batch.labels, 1 - batch.labels)]
        return torch.cat((loss[None], *counts))

    def values(self, sums: list[float]) -> dict[str, float]:
        loss, clicks, others = sums[0], np.array(sums[1 : BINS + 1]), np.array(sums[BINS + 1 :])
        found = {"loss": loss / float(clicks.sum() + others.sum())}
        return {"auc": auc(clicks, others), **found}

    def flops(self) -> float:
        def inputs() -> tuple[Tensor, ...]:
            return torch.zeros(1, NUMBERS), torch.zeros(1, TABLES, dtype=torch.long)

        return trainmark_torch.training_flops(self.build, inputs)


def auc(clicks: Any, others: Any) -> float:
    """The chance that a click has the higher score than another sample; equal ones count half. 0.5 without pairs."""
    pairs = clicks.sum() * others.sum()
    below = np.concatenate(([0.0], np.cumsum(others)[:-1]))
    return float((clicks * (below + others / 2)).sum() / pairs) if pairs else 0.5
