"""Causal language models as a task for the training loop: each token is told from those before it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as functional
import trainmark_torch
from torch import Tensor, nn
from trainmark_text import IGNORED, Corpus, Windows, facts, open_corpus
from trainmark_torch import Place
from trainmark_train import Recipe, Trainer

# Makes the model for a number of kinds of tokens.
Model = Callable[[int], nn.Module]


def train(config: dict[str, Any], name: str, model: Model) -> None:
    """Train a causal model as the parameters say."""
    params = config["params"]
    corpus = open_corpus(config)
    place = trainmark_torch.join(config)
    recipe = Recipe(
        lr=params["lr"],
        steps=params["steps"],
        epochs=params["epochs"],
        warmup_steps=params["warmup_steps"],
        schedule=params["schedule"],
        lr_floor=params["lr_floor"],
        dtype=params["dtype"],
        accumulate=params["accumulate"],
        compile=params["compile"],
        parallel=params["parallel"],
        clip=params["clip"],
        eval_every=params["eval_every"],
        target=params["target_loss"],
        stop_at_target=params["stop_at_target"],
        checkpoint_every=params["checkpoint_every"],
    )
    Trainer(config, place, Causal(name, model, corpus, place, params, config["seed"]), recipe).run()


def decayed(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weights in two groups: matrices decay, biases and scales of a normalisation do not."""
    weights = list(model.parameters())
    return [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0},
    ]


def adamw(
    model: nn.Module, lr: float, betas: tuple[float, float], weight_decay: float, place: Place
) -> torch.optim.Optimizer:
    groups = decayed(model, weight_decay)
    return torch.optim.AdamW(groups, lr=lr, betas=betas, fused=trainmark_torch.can_fuse(place))


class Causal:
    """A sample is a token; what counts is the loss on held out text, in nats per token."""

    metric = "loss"
    direction: Literal["up", "down"] = "down"

    def __init__(
        self, name: str, model: Model, corpus: Corpus, place: Place, params: dict[str, Any], seed: int
    ) -> None:
        self._model, self._corpus, self._place, self._params = model, corpus, place, params
        self._windows = Windows(corpus, params["context"] + 1, place, seed)
        self._shards = self._windows.shards(params["batch"], params["accumulate"])
        self.steps_per_epoch = self._shards.steps_per_epoch
        self.facts: Mapping[str, Any] = facts(name, corpus, params["heads"])
        self.random = params.get("dropout", 0.0) > 0

    def build(self) -> nn.Module:
        return self._model(self._corpus.kinds)

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        params = self._params
        return adamw(model, lr, (params["beta1"], params["beta2"]), params["weight_decay"], self._place)

    def training(self, numbers: range) -> Generator[Tensor, None, None]:
        return self._windows.training(self._shards, numbers, self._params["batch"])

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        scores = model(batch[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())

    def samples(self, batch: Tensor) -> int:
        return batch.shape[0] * (batch.shape[1] - 1)

    def evaluation(self) -> Iterator[Any] | None:
        return self._windows.evaluation(self._params["eval_windows"], self._params["batch"])

    def judge(self, model: nn.Module, batch: Any) -> Tensor:
        windows, _, counts = batch
        labels = windows[:, 1:].masked_fill(~counts[:, None], IGNORED)
        scores = model(windows[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        return torch.stack((loss, (labels != IGNORED).sum())).float()

    def values(self, sums: list[float]) -> dict[str, float]:
        loss, count = sums
        return {"loss": loss / count}

    def flops(self) -> float:
        context: int = self._params["context"]
        one = trainmark_torch.training_flops(self.build, lambda: (torch.zeros(1, context, dtype=torch.long),))
        return one / context
