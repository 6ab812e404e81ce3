"""The training loop, once for all frameworks: from first weights to the last event. It imports none of them.

A framework brings a subclass of Loop that knows how to make a step; a program says what is trained (a Task) and how
(a Recipe, filled from its own parameters).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trainmark_probe as probe

# During a long evaluation the agent hears this often that the process lives.
SIGN_OF_LIFE_SECONDS = 10.0


@dataclass(frozen=True)
class Recipe:
    """How long, how fast and in which form a model is trained. A step is `accumulate` batches and one update."""

    lr: float
    steps: int = 0  # 0: as many as `epochs` have
    epochs: int = 1
    warmup_steps: int = 0
    schedule: str = "cosine"  # or linear, constant
    decay_steps: int = 0  # where the schedule ends; 0: with the training
    lr_floor: float = 0.0  # the share of the learning rate that is left at the end
    dtype: str = "fp32"
    accumulate: int = 1
    compile: bool = False
    parallel: str = "ddp"  # or fsdp
    clip: float = 0.0  # the largest norm of all gradients together; 0: any
    eval_every: int = 0  # 0: after each epoch
    eval_from: int = 0  # no evaluation before this many steps, but for the last
    target: float = 0.0  # 0: none
    stop_at_target: bool = True
    checkpoint_every: int = 0  # 0: never


def rate(recipe: Recipe, step: int, total: int) -> float:
    """The share of the learning rate at `step`, counted from 0: a linear start, then down to the floor."""
    warm = recipe.warmup_steps
    if step < warm:
        return (step + 1) / warm
    gone = min(1.0, (step - warm) / max(1, (recipe.decay_steps or total) - warm))
    left = {"cosine": 0.5 * (1 + math.cos(math.pi * gone)), "linear": 1 - gone, "constant": 1.0}[recipe.schedule]
    return recipe.lr_floor + (1 - recipe.lr_floor) * left


class Loop:
    """One process's part of the training; `config` is what the probe gave."""

    def __init__(self, config: dict[str, Any], place: Any, task: Any, recipe: Recipe) -> None:
        self.config, self.place, self.task, self.recipe = config, place, task, recipe
        self.total: int = recipe.steps or recipe.epochs * task.steps_per_epoch
        self.folder = Path(config["checkpoints"])
        self.reached: dict[str, float] = {}
        self.evaluated = -1  # the step that `reached` belongs to

    # -- what a framework brings

    def _prepare(self) -> int:
        """Make model and optimizer; how many parameters there are comes back."""
        raise NotImplementedError

    def _begin(self) -> int:
        """Take saved weights where there are some; the number of steps done already comes back."""
        raise NotImplementedError

    def _step(self, step: int, batches: Iterator[Any]) -> tuple[int, Any]:
        """One update of the weights; samples and loss of this rank come back."""
        raise NotImplementedError

    def _judge(self, share: Iterator[Any]) -> list[float]:
        """The task's sums over this rank's share of the test data."""
        raise NotImplementedError

    def _save(self, done: int) -> None:
        raise NotImplementedError

    def _last_notes(self, trained: float) -> None:
        """What is known of the weights, after `trained` seconds; nobody waits for it any more."""
        raise NotImplementedError

    def _leave(self) -> None:
        """Part from the other ranks once all have come here."""
        raise NotImplementedError

    # -- the loop

    def run(self) -> None:
        """Everything between the end of loading and the end of the program."""
        parameters = self._prepare()
        done = self._begin()
        if done:
            probe.resume(done)
        probe.note("parameters", parameters)
        probe.init_end()
        probe.train_start()
        begin = time.monotonic()
        done = self._train(done)
        probe.train_end()
        self._last_notes(time.monotonic() - begin)
        probe.finish(converged=self._converged(), steps=done, **self.reached)
        self._leave()

    def _train(self, done: int) -> int:
        """Train from step `done` on; the number of steps done in the end comes back."""
        per_epoch, parts = self.task.steps_per_epoch, self.recipe.accumulate
        steps = range(done, self.total)
        batches = self.task.training(range(steps.start * parts, steps.stop * parts))
        for step in steps:
            epoch, position = divmod(step, per_epoch)
            if step == steps.start or position == 0:
                probe.epoch_begin(epoch + 1)
            probe.step(*self._step(step, batches))
            done = step + 1
            if position + 1 == per_epoch:
                probe.epoch_end(epoch + 1)
            self._between_steps(done)
            if self.recipe.stop_at_target and self._converged():
                break
        batches.close()
        if self.evaluated != done:
            self._evaluate(done)
        return done

    def _between_steps(self, done: int) -> None:
        every = self.recipe.eval_every or self.task.steps_per_epoch
        if done % every == 0 and done >= self.recipe.eval_from:
            self._evaluate(done)
        if self.recipe.checkpoint_every and done % self.recipe.checkpoint_every == 0:
            with probe.phase("checkpoint"):
                self._save(done)

    def _evaluate(self, step: int) -> None:
        share = self.task.evaluation()
        if share is None:
            return
        with probe.phase("evaluate"):
            self.reached = self.task.values(self.place.total(*self._judge(_heard(share))))
        self.evaluated = step
        probe.evaluate(**self.reached)
        if self.place.rank == 0:
            told = ", ".join(f"{name} {value:.4f}" for name, value in self.reached.items())
            print(f"step {step}: {told}", flush=True)

    def _converged(self) -> bool | None:
        """Whether the target is reached; None without a target or before an evaluation."""
        if not self.reached or not self.recipe.target:
            return None
        found = self.reached[self.task.metric]
        return bool(found >= self.recipe.target if self.task.direction == "up" else found <= self.recipe.target)


def _heard(share: Iterator[Any]) -> Iterator[Any]:
    """The batches, and signs of life between them."""
    heard = time.monotonic()
    for number, batch in enumerate(share, 1):
        yield batch
        if time.monotonic() - heard > SIGN_OF_LIFE_SECONDS:
            probe.note("evaluated_batches", number)
            heard = time.monotonic()
