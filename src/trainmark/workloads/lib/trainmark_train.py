"""The training loop on PyTorch: what a step, an evaluation and a checkpoint are there."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal, Protocol

import torch
import trainmark_checkpoint as checkpoint
import trainmark_probe as probe
import trainmark_torch
from torch import Tensor, nn
from trainmark_loop import Loop, Recipe, rate
from trainmark_torch import Place, Precision

__all__ = ["Recipe", "Task", "Trainer", "rate"]

# Shorter trainings give no speed, so there is nothing to hold against what the machine could do.
WORTH_A_PEAK_SECONDS = 8.0


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


class Trainer(Loop):
    """One process's part of the training; `config` is what the probe gave."""

    task: Task
    place: Place

    def __init__(self, config: dict[str, Any], place: Place, task: Task, recipe: Recipe) -> None:
        super().__init__(config, place, task, recipe)
        self.precision = Precision(recipe.dtype, place.device)
        torch.manual_seed(config["seed"])
        self.plain = task.build().to(place.device)

    def _prepare(self) -> int:
        parameters = trainmark_torch.parameter_count(self.plain)
        self.model = trainmark_torch.share(self.plain, self.place, self.recipe.parallel)
        if self.recipe.compile:
            self.plain.compile()
        self.optimizer = self.task.optimizer(self.plain, self.recipe.lr)
        return parameters

    def _last_notes(self, trained: float) -> None:
        probe.note("weights_sha256", trainmark_torch.weights_sha256(self.plain))
        if trained >= WORTH_A_PEAK_SECONDS:
            probe.note("matmul_flops_per_s", trainmark_torch.matmul_flops(self.precision, self.place))
        if self.place.rank == 0:
            probe.note("flops_per_sample", self.task.flops())

    def _leave(self) -> None:
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
            probe.note("checkpoint_load_seconds", time.monotonic() - begin)
        return done

    def _save(self, done: int) -> None:
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

    def _judge(self, share: Iterator[Any]) -> list[float]:
        self.place.align(self.plain)
        sums = torch.zeros(1, device=self.place.device)
        self.plain.eval()
        # Not inference mode: weights that are gathered for a forward pass may be used by the next backward pass.
        with torch.no_grad(), self.precision.autocast():
            for batch in share:
                sums = sums + self.task.judge(self.plain, batch)
        self.plain.train()
        return [float(value) for value in sums.tolist()]
