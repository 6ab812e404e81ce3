"""Image classification as a task for the training loop on PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
import trainmark_pictures
import trainmark_torch
from torch import Tensor, nn
from trainmark_batches import Feed, Shards
from trainmark_images import Batch, Source
from trainmark_torch import Place
from trainmark_train import Trainer
from trainmark_weights import Weight


@dataclass(frozen=True)
class Pictures:
    """Which model is trained, and on which images of which size."""

    model: Callable[[], nn.Module]
    train: Source
    test: Source | None
    size: int
    # The global batch that the learning rate is meant for; it is scaled to the real one. 0: taken as it is.
    lr_batch: int = 0
    # The first weights; none: as the model draws them.
    weights: tuple[Weight, ...] = ()
    # Takes the model and the learning rate; None: stochastic gradient descent.
    optimizer: Callable[[nn.Module, float], torch.optim.Optimizer] | None = None


def of(model: Callable[[], nn.Module], images: trainmark_pictures.Images) -> Pictures:
    """A model for images that all frameworks train on alike."""
    return Pictures(model, images.train, images.test, images.size, images.lr_batch, images.weights)


def train(config: dict[str, Any], place: Place, pictures: Pictures) -> None:
    """Train as the parameters say: those of Recipe, batch, momentum, weight_decay, channels_last and,
    where a program has them, accumulate, clip, compile, label_smoothing, warmup_epochs or warmup_steps, and workers."""
    params = config["params"]
    task = Classifier(pictures, place, params, config["seed"])
    how = trainmark_pictures.recipe(params, place.world, pictures.lr_batch, task.steps_per_epoch)
    Trainer(config, place, task, how).run()


class Classifier(trainmark_pictures.Classes):
    """Cross entropy over classes; accuracy on the test images."""

    def __init__(self, pictures: Pictures, place: Place, params: dict[str, Any], seed: int) -> None:
        self._pictures, self._place, self._params, self._seed = pictures, place, params, seed
        self._layout = torch.channels_last if params["channels_last"] else torch.contiguous_format
        self._shards = Shards(len(pictures.train), params["batch"], place, seed, params.get("accumulate", 1))
        self.steps_per_epoch = self._shards.steps_per_epoch
        self._feed = self._open(pictures.train)
        self._test = self._open(pictures.test) if pictures.test is not None else None

    def _open(self, source: Source) -> Feed:
        return Feed(source, self._place, self._pictures.size, self._params["channels_last"])

    def build(self) -> nn.Module:
        model = trainmark_torch.with_first_weights(self._pictures.model(), self._pictures.weights)
        laid: nn.Module = model.to(memory_format=self._layout)  # type: ignore[call-overload]
        return laid

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        if self._pictures.optimizer is not None:
            return self._pictures.optimizer(model, lr)
        return torch.optim.SGD(
            model.parameters(),
            lr=lr,
            momentum=self._params["momentum"],
            weight_decay=self._params["weight_decay"],
            fused=trainmark_torch.can_fuse(self._place),
        )

    def training(self, numbers: range) -> Generator[Batch, None, None]:
        return self._feed.training(self._shards, numbers, self._seed, self._params.get("workers", 0))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        smoothing = self._params.get("label_smoothing", 0.0)
        return functional.cross_entropy(model(batch.images), batch.labels, label_smoothing=smoothing)

    def evaluation(self) -> Iterator[Batch] | None:
        if self._test is None:
            return None
        return self._test.evaluation(self._params["batch"], self._params.get("workers", 0))

    def judge(self, model: nn.Module, batch: Batch) -> Tensor:
        answers = model(batch.images)
        right = (answers.argmax(1) == batch.labels).sum()
        loss = functional.cross_entropy(answers, batch.labels, reduction="sum")
        count = torch.full_like(loss, len(batch.labels))
        return torch.stack((right, loss, count)).float()

    def flops(self) -> float:
        shape = (len(self._pictures.train.mean), self._pictures.size, self._pictures.size)
        # Two images, because batch normalisation refuses one.
        return trainmark_torch.training_flops(self._pictures.model, lambda: (torch.empty(2, *shape),))
