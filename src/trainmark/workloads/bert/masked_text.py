"""Text with hidden tokens to be guessed, in NumPy's arrays: the same in every framework."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
from trainmark_loop import Rank
from trainmark_text import Corpus, Windows, facts

# Of the tokens to be guessed, this share is hidden by the mask and this much replaced by any token; the rest stays.
MASKED, REPLACED = 0.8, 0.1
EVALUATION_SEED = 20181011


class Guesses(NamedTuple):
    """Tokens (N, T) as the model sees them, and the places (N, K) of what was there before."""

    tokens: Any
    places: Any
    labels: Any


class Masker:
    """Chooses what is to be guessed: as many tokens of every sequence, so that all steps are alike."""

    def __init__(self, length: int, share: float, kinds: int, mask: int) -> None:
        self.count = max(1, round(share * length))
        self._kinds, self._mask = kinds, mask

    def hide(self, tokens: Any, randoms: list[np.random.Generator]) -> Guesses:
        """Each sequence by its random generator; several may share one."""
        drawn = [self._draw(random, tokens.shape[1]) for random in randoms]
        places = np.stack([places for places, _ in drawn])
        # Below 0 the token stays, else it becomes this one.
        instead = np.stack([instead for _, instead in drawn])
        labels = np.take_along_axis(tokens, places, 1)
        shown = tokens.copy()
        np.put_along_axis(shown, places, np.where(instead < 0, labels, instead), 1)
        return Guesses(shown, places, labels)

    def _draw(self, random: np.random.Generator, length: int) -> tuple[Any, Any]:
        places = np.sort(random.choice(length, self.count, replace=False))
        fate = random.random(self.count)
        any_token = random.integers(0, self._kinds, self.count)
        return places, np.where(fate < MASKED, self._mask, np.where(fate < MASKED + REPLACED, any_token, -1))


class MaskedText:
    """Sequences with hidden tokens; each rank has its own share of each epoch's random order.

    `to_device` makes of each array what the framework wants.
    """

    def __init__(
        self,
        corpus: Corpus,
        ranks: Rank,
        params: dict[str, Any],
        seed: int,
        to_device: Callable[[Any], Any] = lambda array: array.astype(np.int32),
    ) -> None:
        self._ranks, self._params, self._seed, self._to_device = ranks, params, seed, to_device
        self._windows = Windows(corpus, params["max_seq_length"], ranks, seed)
        self._order = self._windows.shards(params["train_batch_size"], params["gradient_accumulation_steps"])
        self.steps_per_epoch = self._order.steps_per_epoch
        mask = params["mask_token"]
        # A mask of its own comes after all other tokens.
        self.rows = corpus.kinds + (1 if mask < 0 else 0)
        self._masker = Masker(
            params["max_seq_length"], params["masked_share"], corpus.kinds, corpus.kinds if mask < 0 else mask
        )
        self.guesses = self._masker.count
        self.facts = {**facts("bert", corpus, params["heads"]), "mask_token": mask}
        self.synthetic = corpus.synthetic

    def training(self, numbers: range) -> Generator[Guesses, None, None]:
        batch = self._params["train_batch_size"]
        for number, tokens in zip(numbers, self._windows.training(self._order, numbers, batch), strict=True):
            random = np.random.default_rng([self._seed, self._ranks.rank, number])
            yield self._ready(self._masker.hide(tokens, [random] * batch))

    def evaluation(self) -> Iterator[tuple[Guesses, Any]]:
        """(guesses, which of the sequences count); the same tokens are hidden in every evaluation."""
        found = self._windows.evaluation(self._params["num_eval_examples"], self._params["eval_batch_size"])
        for windows, numbers, counts in found:
            randoms = [np.random.default_rng([EVALUATION_SEED, number]) for number in numbers.tolist()]
            yield self._ready(self._masker.hide(windows, randoms)), counts

    def _ready(self, guesses: Guesses) -> Guesses:
        return Guesses(*map(self._to_device, guesses))
