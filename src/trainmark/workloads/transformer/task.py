"""Translation as a task for the training loop: each token of the answer is told from the question and those before."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as functional
import trainmark_lm
import trainmark_torch
from model import Transformer
from pairs import KINDS, PADDING, Batch, Lines, Synthetic
from torch import Tensor, nn
from trainmark_batches import Shards
from trainmark_torch import Place

SHAPE = ("context", "layers", "heads", "width", "inner", "dropout")


class Translate:
    """A sample is a token of the answer; what counts is the loss on held out lines, in nats per token."""

    metric = "loss"
    direction: Literal["up", "down"] = "down"

    def __init__(
        self, train: Lines | Synthetic, test: Lines | None, place: Place, params: dict[str, Any], seed: int
    ) -> None:
        self._train, self._test, self._place, self._params = train, test, place, params
        self._shards = Shards(len(train), params["batch"], place, seed, params["accumulate"], "pairs")
        self.steps_per_epoch = self._shards.steps_per_epoch
        self.facts: Mapping[str, Any] = {"name": "transformer", "heads": params["heads"]}
        self.random = params["dropout"] > 0

    def build(self) -> nn.Module:
        return Transformer(KINDS, **{name: self._params[name] for name in SHAPE})

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        params = self._params
        return trainmark_lm.adamw(model, lr, (params["beta1"], params["beta2"]), params["weight_decay"], self._place)

    def training(self, numbers: range) -> Generator[Batch, None, None]:
        for number in numbers:
            yield self._ready(self._train.batch(self._shards.indices(number)))

    def _ready(self, batch: Batch) -> Batch:
        device = self._place.device
        return Batch(batch.questions.to(device), batch.answers.to(device), batch.count)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        scores = model(batch.questions, batch.answers[:, :-1])
        smoothing = self._params["label_smoothing"]
        labels = batch.answers[:, 1:].flatten()
        return functional.cross_entropy(scores.flatten(0, 1), labels, ignore_index=PADDING, label_smoothing=smoothing)

    def samples(self, batch: Batch) -> int:
        return batch.count

    def evaluation(self) -> Iterator[Batch] | None:
        return None if self._test is None else self._held_out(self._test)

    def _held_out(self, test: Lines) -> Iterator[Batch]:
        mine = np.arange(self._place.rank, len(test), self._place.world)
        for start in range(0, len(mine), self._params["batch"]):
            yield self._ready(test.batch(mine[start : start + self._params["batch"]]))

    def judge(self, model: nn.Module, batch: Batch) -> Tensor:
        scores = model(batch.questions, batch.answers[:, :-1])
        labels = batch.answers[:, 1:]
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=PADDING, reduction="sum")
        right = ((scores.argmax(-1) == labels) & (labels != PADDING)).sum()
        return torch.stack((loss, right, torch.full_like(loss, batch.count))).float()

    def values(self, sums: list[float]) -> dict[str, float]:
        loss, right, count = sums
        return {"loss": loss / count, "accuracy": right / count}

    def flops(self) -> float:
        context: int = self._params["context"]

        def inputs() -> tuple[Tensor, ...]:
            tokens = torch.zeros(1, context, dtype=torch.long)
            return tokens, tokens

        return trainmark_torch.training_flops(self.build, inputs) / context
