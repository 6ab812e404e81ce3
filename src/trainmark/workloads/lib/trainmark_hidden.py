"""Masked language modelling without a framework: which tokens are hidden, and what is counted, in NumPy's arrays."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import trainmark_bert
import trainmark_text
from trainmark_loop import Recipe
from trainmark_shards import Ranked, Seat
from trainmark_text import Corpus, Windows, facts
from trainmark_weights import Weight

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


class Hidden:
    """A sample is a sequence; what counts is the share of hidden tokens that are guessed right."""

    metric = "mlm_accuracy"
    direction: Literal["up", "down"] = "up"
    weights: tuple[Weight, ...] = ()
    flops: Any = None

    def __init__(self, corpus: Corpus, place: Ranked, params: dict[str, Any], seed: int) -> None:
        self._place, self._params, self._seed = place, params, seed
        self._length = params["max_seq_length"]
        self._windows = Windows(corpus, self._length, Seat(place.rank, place.world), seed)
        self._shards = self._windows.shards(params["train_batch_size"], params["gradient_accumulation_steps"])
        self.steps_per_epoch = self._shards.steps_per_epoch
        mask = params["mask_token"]
        # A mask of its own comes after all other tokens.
        self.rows = corpus.kinds + (1 if mask < 0 else 0)
        self._masker = Masker(self._length, params["masked_share"], corpus.kinds, corpus.kinds if mask < 0 else mask)
        self.guesses = self._masker.count
        self.facts: Mapping[str, Any] = {**facts("bert", corpus, params["heads"]), "mask_token": mask}
        self.random = params["dropout"] > 0

    def training(self, numbers: range) -> Generator[Guesses, None, None]:
        batch = self._params["train_batch_size"]
        for number, tokens in zip(numbers, self._windows.training(self._shards, numbers, batch)):  # noqa: B905
            random = np.random.default_rng([self._seed, self._place.rank, number])
            yield self._ready(self._masker.hide(tokens, [random] * batch))

    def evaluation(self) -> Iterator[tuple[Guesses, Any]] | None:
        """(guesses, which of the sequences count)."""
        found = self._windows.evaluation(self._params["num_eval_examples"], self._params["eval_batch_size"])
        return None if found is None else map(self._guess, found)

    def _guess(self, given: tuple[Any, Any, Any]) -> tuple[Guesses, Any]:
        """The same tokens of a window are hidden whenever it is evaluated."""
        windows, numbers, counts = given
        randoms = [np.random.default_rng([EVALUATION_SEED, number]) for number in numbers.tolist()]
        return self._ready(self._masker.hide(windows, randoms)), self._counts(counts)

    def _ready(self, guesses: Guesses) -> Guesses:
        """As the framework wants them."""
        return Guesses(*(array.astype(np.int32) for array in guesses))

    def _counts(self, counts: Any) -> Any:
        return counts.astype(np.float32)

    def samples(self, batch: Guesses) -> int:
        return len(batch.tokens)

    def values(self, sums: list[float]) -> dict[str, float]:
        right, loss, count = sums
        return {"mlm_accuracy": right / count, "loss": loss / count}


def open_task(config: dict[str, Any], place: Ranked) -> tuple[Hidden, Recipe]:
    """BERT's task with its first weights, and how it is trained, as the parameters say."""
    params = config["params"]
    task = Hidden(trainmark_text.open_corpus(config), place, params, config["seed"])
    task.weights = tuple(trainmark_bert.weights(task.rows, params))
    task.flops = trainmark_bert.flops(task.rows, task.guesses, params)
    return task, recipe(params, place.world)


def recipe(params: dict[str, Any], world: int) -> Recipe:
    """FlagPerf's parameters, which count samples, as steps."""
    per_step = params["train_batch_size"] * params["gradient_accumulation_steps"] * world
    return Recipe(
        lr=params["learning_rate"],
        steps=min(params["max_steps"], math.ceil(params["max_samples_termination"] / per_step)),
        warmup_steps=params["warmup_steps"] or int(params["max_steps"] * params["warmup_proportion"]),
        schedule="linear",
        decay_steps=params["max_steps"],
        dtype=params["dtype"],
        accumulate=params["gradient_accumulation_steps"],
        compile=params["compile"],
        clip=params["clip"],
        eval_every=max(1, params["eval_interval_samples"] // per_step),
        eval_from=params["eval_iter_start_samples"] // per_step,
        target=params["target_mlm_accuracy"],
        stop_at_target=params["stop_at_target"],
        checkpoint_every=params["checkpoint_every"],
    )
