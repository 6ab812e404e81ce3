"""Masked language models as a task for the training loop: hidden tokens are guessed from all others."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as functional
import trainmark_torch
from torch import Tensor, nn
from trainmark_lamb import Lamb
from trainmark_lm import Model, adamw, decayed, facts
from trainmark_text import IGNORED, Corpus, Windows
from trainmark_torch import Place

# Of the tokens to be guessed, this share is hidden by the mask and this much replaced by any token; the rest stays.
MASKED, REPLACED = 0.8, 0.1
EVALUATION_SEED = 20181011


class Guesses(NamedTuple):
    """Tokens (N, T) as the model sees them, and the places (N, K) of what was there before."""

    tokens: Tensor
    places: Tensor
    labels: Tensor


class Masker:
    """Chooses what is to be guessed: as many tokens of every sequence, so that all steps are alike."""

    def __init__(self, length: int, share: float, kinds: int, mask: int) -> None:
        self.count = max(1, round(share * length))
        self._kinds, self._mask = kinds, mask

    def hide(self, tokens: Tensor, randoms: list[np.random.Generator]) -> Guesses:
        """Each sequence by its random generator; several may share one."""
        drawn = [self._draw(random, tokens.shape[1]) for random in randoms]
        places = torch.from_numpy(np.stack([places for places, _ in drawn])).to(tokens.device)
        # Below 0 the token stays, else it becomes this one.
        instead = torch.from_numpy(np.stack([instead for _, instead in drawn])).to(tokens.device)
        labels = tokens.gather(1, places)
        return Guesses(tokens.scatter(1, places, torch.where(instead < 0, labels, instead)), places, labels)

    def _draw(self, random: np.random.Generator, length: int) -> tuple[Any, Any]:
        places = np.sort(random.choice(length, self.count, replace=False))
        fate = random.random(self.count)
        any_token = random.integers(0, self._kinds, self.count)
        return places, np.where(fate < MASKED, self._mask, np.where(fate < MASKED + REPLACED, any_token, -1))


class Masked:
    """A sample is a sequence; what counts is the share of hidden tokens that are guessed right."""

    metric = "mlm_accuracy"
    direction: Literal["up", "down"] = "up"

    def __init__(self, model: Model, corpus: Corpus, place: Place, params: dict[str, Any], seed: int) -> None:
        self._model, self._corpus, self._place, self._params, self._seed = model, corpus, place, params, seed
        self._length = params["max_seq_length"]
        self._windows = Windows(corpus, self._length, place, seed)
        self._shards = self._windows.shards(params["train_batch_size"], params["gradient_accumulation_steps"])
        self.steps_per_epoch = self._shards.steps_per_epoch
        mask = params["mask_token"]
        # A mask of its own comes after all other tokens.
        self._rows = corpus.kinds + (1 if mask < 0 else 0)
        self._masker = Masker(self._length, params["masked_share"], corpus.kinds, corpus.kinds if mask < 0 else mask)
        self.facts: Mapping[str, Any] = {**facts("bert", corpus, params["heads"]), "mask_token": mask}
        self.random = params["dropout"] > 0

    def build(self) -> nn.Module:
        return self._model(self._rows)

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer:
        params = self._params
        betas, decay = (params["opt_lamb_beta_1"], params["opt_lamb_beta_2"]), params["weight_decay_rate"]
        if params["optimizer"] == "adamw":
            return adamw(model, lr, betas, decay, self._place)
        return Lamb(decayed(model, decay), lr, betas)

    def training(self, numbers: range) -> Generator[Guesses, None, None]:
        batch = self._params["train_batch_size"]
        for number, tokens in zip(numbers, self._windows.training(self._shards, numbers, batch)):  # noqa: B905
            random = np.random.default_rng([self._seed, self._place.rank, number])
            yield self._masker.hide(tokens, [random] * batch)

    def loss(self, model: nn.Module, batch: Guesses) -> Tensor:
        scores = model(batch.tokens, batch.places)
        return functional.cross_entropy(scores.flatten(0, 1), batch.labels.flatten())

    def samples(self, batch: Guesses) -> int:
        return len(batch.tokens)

    def evaluation(self) -> Iterator[tuple[Guesses, Tensor]] | None:
        found = self._windows.evaluation(self._params["num_eval_examples"], self._params["eval_batch_size"])
        return None if found is None else map(self._guess, found)

    def _guess(self, given: tuple[Tensor, Tensor, Tensor]) -> tuple[Guesses, Tensor]:
        """The same tokens of a window are hidden whenever it is evaluated."""
        windows, numbers, counts = given
        randoms = [np.random.default_rng([EVALUATION_SEED, number]) for number in numbers.tolist()]
        return self._masker.hide(windows, randoms), counts

    def judge(self, model: nn.Module, batch: tuple[Guesses, Tensor]) -> Tensor:
        guesses, counts = batch
        scores = model(guesses.tokens, guesses.places).flatten(0, 1)
        labels = guesses.labels.masked_fill(~counts[:, None], IGNORED).flatten()
        loss = functional.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
        right = (scores.argmax(1) == labels).sum()
        return torch.stack((right, loss, (labels != IGNORED).sum())).float()

    def values(self, sums: list[float]) -> dict[str, float]:
        right, loss, count = sums
        return {"mlm_accuracy": right / count, "loss": loss / count}

    def flops(self) -> float:
        def inputs() -> tuple[Tensor, ...]:
            tokens = torch.zeros(1, self._length, dtype=torch.long)
            return tokens, torch.zeros(1, self._masker.count, dtype=torch.long)

        return trainmark_torch.training_flops(self.build, inputs)
