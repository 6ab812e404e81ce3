"""The training loop, once for all reference programs: from random or saved weights to the last event.

A program says what is trained (a Task) and how (a Recipe, filled from its own parameters).
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import trainmark_checkpoint as checkpoint
import trainmark_probe as probe
import trainmark_torch
from torch import Tensor, nn
from trainmark_torch import Place, Precision

# During a long evaluation the agent hears this often that the process lives.
SIGN_OF_LIFE_SECONDS = 10.0
# Shorter trainings give no speed, so there is nothing to hold against what the machine could do.
WORTH_A_PEAK_SECONDS = 8.0


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


class Task(Protocol):
    """What is trained: data, model, loss, and how well the model does."""

    metric: str
    direction: Literal["up", "down"]
    steps_per_epoch: int
    # What weights alone do not tell, such as a vocabulary: kept with checkpoints, which are refused if it differs.
    facts: Mapping[str, Any]
    # Whether the model draws random numbers, which are then the same at the same step of any run.
    random: bool

    def build(self) -> nn.Module: ...

    def optimizer(self, model: nn.Module, lr: float) -> torch.optim.Optimizer: ...

    def training(self, numbers: range) -> Generator[Any, None, None]:
        """The batches of these numbers, counted from 0 over the whole training, on the device."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor: ...

    def samples(self, batch: Any) -> int: ...

    def evaluation(self) -> Iterator[Any] | None:
        """This rank's share of the test data; as many batches on each rank where they are needed together."""

    def judge(self, model: nn.Module, batch: Any) -> Tensor:
        """Several sums over a batch, to be added up over all batches and ranks."""

    def values(self, sums: list[float]) -> dict[str, float]:
        """What was reached, by name; `metric` is one of them."""

    def flops(self) -> float:
        """Operations to train on one sample."""


class Trainer:
    """One process's part of the training; `config` is what the probe gave."""

    def __init__(self, config: dict[str, Any], place: Place, task: Task, recipe: Recipe) -> None:
        self.config, self.place, self.task, self.recipe = config, place, task, recipe
        self.precision = Precision(recipe.dtype, place.device)
        self.total: int = recipe.steps or recipe.epochs * task.steps_per_epoch
        self.folder = Path(config["checkpoints"])
        torch.manual_seed(config["seed"])
        self.plain = task.build().to(place.device)
        self.reached: dict[str, float] = {}
        self.evaluated = -1  # the step that `reached` belongs to

    def run(self) -> None:
        """Everything between the end of loading and the end of the program."""
        parameters = trainmark_torch.parameter_count(self.plain)
        self.model = trainmark_torch.share(self.plain, self.place, self.recipe.parallel)
        if self.recipe.compile:
            self.plain.compile()
        self.optimizer = self.task.optimizer(self.plain, self.recipe.lr)
        done = self._begin()
        probe.note("parameters", parameters)
        probe.init_end()
        probe.train_start()
        begin = time.monotonic()
        done = self._train(done)
        probe.train_end()
        trained = time.monotonic() - begin
        probe.note("weights_sha256", trainmark_torch.weights_sha256(self.plain))
        # Only now, because nobody waits for it any more.
        if trained >= WORTH_A_PEAK_SECONDS:
            probe.note("matmul_flops_per_s", trainmark_torch.matmul_flops(self.precision, self.place))
        if self.place.rank == 0:
            probe.note("flops_per_sample", self.task.flops())
        probe.finish(converged=self._converged(), steps=done, **self.reached)
        trainmark_torch.leave(self.place)

    def _parts(self) -> checkpoint.Parts:
        return checkpoint.Parts(self.plain, self.optimizer, self.precision.scaler, self.task.facts)

    def _begin(self) -> int:
        """Steps done already: of an earlier process in this folder, or none, from given or random weights."""
        if self.config.get("checkpoint"):
            checkpoint.start_from(self.config["checkpoint"], self._parts(), self.place)
        begin = time.monotonic()
        done = checkpoint.resume(self.folder, self._parts(), self.place)
        if done:
            probe.resume(done)
            probe.note("checkpoint_load_seconds", time.monotonic() - begin)
        return done

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
                checkpoint.save(self.folder, done, self._parts(), self.place)

    def _step(self, step: int, batches: Iterator[Any]) -> tuple[int, Tensor]:
        """One update of the weights; samples and loss of this rank come back."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr * rate(self.recipe, step, self.total)
        if self.task.random:
            draw = (self.config["seed"] * self.total + step) * self.place.world + self.place.rank
            torch.manual_seed(draw % (1 << 63))
        self.optimizer.zero_grad(set_to_none=True)
        parts, samples = self.recipe.accumulate, 0
        whole = torch.zeros((), device=self.place.device)
        for part in range(1, parts + 1):
            with probe.span("data"):
                batch = next(batches)
            # Gradients are shared between the ranks once, with the last batch.
            with trainmark_torch.sharing(self.model, part == parts):
                with self.precision.autocast():
                    loss = self.task.loss(self.model, batch) / parts
                self.precision.backward(loss)
            whole += loss.detach()
            samples += self.task.samples(batch)
        if step == 0:
            self._tell_first(whole)
        self.precision.update(self.optimizer, self.recipe.clip)
        return samples, whole

    def _tell_first(self, loss: Tensor) -> None:
        """What the first step computed. Its seed is that of the round, so machines that are alike give the same."""
        if self.recipe.parallel != "ddp" and self.place.world > 1:
            return  # each rank has a share of the gradients
        gradients = [weight.grad.float().norm() for weight in self.plain.parameters() if weight.grad is not None]
        norm = torch.stack(gradients).norm()
        probe.note("first_step", {"loss": float(loss), "gradient_norm": float(norm)})

    def _evaluate(self, step: int) -> None:
        share = self.task.evaluation()
        if share is None:
            return
        with probe.phase("evaluate"):
            self.place.align(self.plain)
            self.reached = self.task.values(self.place.total(*self._judge(share)))
        self.evaluated = step
        probe.evaluate(**self.reached)
        if self.place.rank == 0:
            told = ", ".join(f"{name} {value:.4f}" for name, value in self.reached.items())
            print(f"step {step}: {told}", flush=True)

    def _judge(self, share: Iterator[Any]) -> list[float]:
        sums = torch.zeros(1, device=self.place.device)
        heard = time.monotonic()
        self.plain.eval()
        # Not inference mode: weights that are gathered for a forward pass may be used by the next backward pass.
        with torch.no_grad(), self.precision.autocast():
            for number, batch in enumerate(share, 1):
                sums = sums + self.task.judge(self.plain, batch)
                if time.monotonic() - heard > SIGN_OF_LIFE_SECONDS:
                    probe.note("evaluated_batches", number)
                    heard = time.monotonic()
        self.plain.train()
        return [float(value) for value in sums.tolist()]

    def _converged(self) -> bool | None:
        """Whether the target is reached; None without a target or before an evaluation."""
        if not self.reached or not self.recipe.target:
            return None
        found = self.reached[self.task.metric]
        return found >= self.recipe.target if self.task.direction == "up" else found <= self.recipe.target


def rate(recipe: Recipe, step: int, total: int) -> float:
    """The share of the learning rate at `step`, counted from 0: a linear start, then down to the floor."""
    warm = recipe.warmup_steps
    if step < warm:
        return (step + 1) / warm
    gone = min(1.0, (step - warm) / max(1, (recipe.decay_steps or total) - warm))
    left = {"cosine": 0.5 * (1 + math.cos(math.pi * gone)), "linear": 1 - gone, "constant": 1.0}[recipe.schedule]
    return recipe.lr_floor + (1 - recipe.lr_floor) * left
