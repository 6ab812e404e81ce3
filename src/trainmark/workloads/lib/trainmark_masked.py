"""Masked language models as a task for the training loop on PyTorch: hidden tokens are guessed from all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as functional
import trainmark_torch
from torch import Tensor, nn
from trainmark_hidden import Guesses, Hidden, Masker
from trainmark_lamb import Lamb
from trainmark_lm import Model, adamw, decayed
from trainmark_text import IGNORED, Corpus
from trainmark_torch import Place
from trainmark_weights import Weight

__all__ = ["Guesses", "Masked", "Masker"]


class Masked(Hidden):
    """Guesses as tensors on the device."""

    _place: Place

    def __init__(
        self,
        model: Model,
        corpus: Corpus,
        place: Place,
        params: dict[str, Any],
        seed: int,
        weights: Callable[[int], Iterable[Weight]] = lambda rows: (),  # noqa: ARG005
    ) -> None:
        """`model` and `weights` are made for a number of tokens."""
        super().__init__(corpus, place, params, seed)
        self._model, self._first = model, tuple(weights(self.rows))

    def build(self) -> nn.Module:
        return trainmark_torch.with_first_weights(self._model(self.rows), self._first)

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        params = self._params
        betas, decay = (params["opt_lamb_beta_1"], params["opt_lamb_beta_2"]), params["weight_decay_rate"]
        if params["optimizer"] == "adamw":
            return adamw(model, lr, betas, decay, self._place)
        return Lamb(decayed(model, decay), lr, betas)

    def _ready(self, guesses: Guesses) -> Guesses:
        return Guesses(*map(self._place.tensor, guesses))

    def _counts(self, counts: Any) -> Tensor:
        return self._place.tensor(counts)

    def loss(self, model: nn.Module, batch: Guesses) -> Tensor:
        scores = model(batch.tokens, batch.places)
        return functional.cross_entropy(scores.flatten(0, 1), batch.labels.flatten())

    def judge(self, model: nn.Module, batch: tuple[Guesses, Tensor]) -> Tensor:
        guesses, counts = batch
        scores = model(guesses.tokens, guesses.places).flatten(0, 1)
        labels = guesses.labels.masked_fill(~counts[:, None], IGNORED).flatten()
        loss = functional.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
        right = (scores.argmax(1) == labels).sum()
        return torch.stack((right, loss, (labels != IGNORED).sum())).float()

    def flops(self) -> float:
        def inputs() -> tuple[Tensor, ...]:
            tokens = torch.zeros(1, self._length, dtype=torch.long)
            return tokens, torch.zeros(1, self._masker.count, dtype=torch.long)

        return trainmark_torch.training_flops(lambda: self._model(self.rows), inputs)
