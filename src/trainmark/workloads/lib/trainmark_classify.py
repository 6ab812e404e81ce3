"""Trains an image classifier: the loop the reference programs share, from the first step to the last event."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
import trainmark_checkpoint as checkpoint
import trainmark_probe as probe
import trainmark_torch
from torch import Tensor, nn
from trainmark_batches import Feed, Shards
from trainmark_images import Source
from trainmark_torch import Place, Precision

# During a long evaluation the agent hears this often that the process lives.
SIGN_OF_LIFE_SECONDS = 10.0


# Parameters that only some programs offer.
OPTIONAL = {"warmup_epochs": 0, "workers": 0}


@dataclass(frozen=True)
class Task:
    """What is trained: how the model is made, and on which images of which size."""

    build: Callable[[], nn.Module]
    train: Source
    test: Source | None
    size: int
    # The global batch that the learning rate is meant for; it is scaled to the real one. 0: taken as it is.
    lr_batch: int = 0


class Trainer:
    """One process's part of the training; `config` is what the probe gave.

    Parameters: batch, steps, epochs, lr, momentum, weight_decay, schedule, dtype, channels_last, eval_every,
    target_accuracy, stop_at_target, checkpoint_every, and the optional ones.
    """

    def __init__(self, config: dict[str, Any], place: Place, task: Task) -> None:
        self.params = params = dict(OPTIONAL, **config["params"])
        self.config, self.place = config, place
        self.precision = Precision(params["dtype"], place.device)
        self.shards = Shards(len(task.train), params["batch"], place, config["seed"])
        layout = params["channels_last"]
        self.feed = Feed(task.train, place, task.size, layout)
        self.test = Feed(task.test, place, task.size, layout) if task.test is not None else None
        self.total: int = params["steps"] or params["epochs"] * self.shards.steps_per_epoch
        self.lr: float = params["lr"] * (params["batch"] * place.world / task.lr_batch if task.lr_batch else 1.0)
        self.folder = Path(config["checkpoints"])
        if place.rank == 0:
            shape = (len(task.train.mean), task.size, task.size)
            probe.note("flops_per_sample", trainmark_torch.training_flops(task.build, shape))
        torch.manual_seed(config["seed"])
        self.plain = task.build().to(place.device)
        if layout:
            self.plain = self.plain.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = torch.optim.SGD(
            self.plain.parameters(),
            lr=self.lr,
            momentum=params["momentum"],
            weight_decay=params["weight_decay"],
            # One pass over the weights instead of one per operation; not every accelerator has it.
            fused=place.device.type in ("cpu", "cuda"),
        )
        self.accuracy: float | None = None
        self.evaluated = -1  # the step that `accuracy` belongs to

    def run(self) -> None:
        """Everything between the end of loading and the end of the program."""
        done = self._begin()
        probe.note("parameters", trainmark_torch.parameter_count(self.plain))
        self.model = trainmark_torch.share(self.plain, self.place)
        probe.init_end()
        probe.train_start()
        done = self._train(done)
        probe.train_end()
        probe.note("weights_sha256", trainmark_torch.weights_sha256(self.plain))
        probe.finish(converged=self._converged(), steps=done, accuracy=self.accuracy)
        trainmark_torch.leave(self.place)

    def _begin(self) -> int:
        """Steps done already: of an earlier process in this folder, or none, from given or random weights."""
        if self.config.get("checkpoint"):
            checkpoint.start_from(self.config["checkpoint"], self.plain, self.place)
        done = checkpoint.resume(self.folder, self.plain, self.optimizer, self.place)
        if done:
            probe.resume(done)
        return done

    def _train(self, done: int) -> int:
        """Train from step `done` on; the number of steps done in the end comes back."""
        per_epoch = self.shards.steps_per_epoch
        steps = range(done, self.total)
        batches = self.feed.training(self.shards, steps, self.config["seed"], self.params["workers"])
        for step in steps:
            epoch, position = divmod(step, per_epoch)
            if step == steps.start or position == 0:
                probe.epoch_begin(epoch + 1)
            with probe.span("data"):
                images, labels = next(batches)
            loss = self._step(step, images, labels)
            probe.step(len(labels), loss)
            done = step + 1
            if position + 1 == per_epoch:
                probe.epoch_end(epoch + 1)
            self._between_steps(done)
            if self.params["stop_at_target"] and self._converged():
                break
        batches.close()
        if self.evaluated != done:
            self._evaluate(done)
        return done

    def _between_steps(self, done: int) -> None:
        if done % (self.params["eval_every"] or self.shards.steps_per_epoch) == 0:
            self._evaluate(done)
        if self.params["checkpoint_every"] and done % self.params["checkpoint_every"] == 0:
            with probe.phase("checkpoint"):
                checkpoint.save(self.folder, done, self.plain, self.optimizer, self.place)

    def _step(self, step: int, images: Tensor, labels: Tensor) -> Tensor:
        rate = self.lr * self._rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision.autocast():
            loss = functional.cross_entropy(self.model(images), labels)
        self.precision.update(loss, self.optimizer)
        return loss

    def _rate(self, step: int) -> float:
        """The share of the learning rate at `step`: a linear start, then constant or down along a cosine."""
        warm = int(self.params["warmup_epochs"]) * self.shards.steps_per_epoch
        if step < warm:
            return (step + 1) / warm
        if self.params["schedule"] == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, self.total - warm)))

    def _evaluate(self, step: int) -> None:
        if self.test is None:
            return
        with probe.phase("evaluate"):
            self.place.align(self.plain)
            right, loss, count = self.place.total(*self._evaluate_share(self.test))
        self.accuracy, self.evaluated = right / count, step
        probe.evaluate(accuracy=self.accuracy, loss=loss / count)
        if self.place.rank == 0:
            print(f"step {step}: accuracy {self.accuracy:.4f}, loss {loss / count:.4f}", flush=True)

    def _evaluate_share(self, test: Feed) -> tuple[float, float, float]:
        """Right answers, sum of losses and number of images, of this rank's share."""
        right = loss = torch.zeros((), device=self.place.device)
        count, heard = 0, time.monotonic()
        self.plain.eval()
        with torch.inference_mode(), self.precision.autocast():
            for images, labels in test.evaluation(self.params["batch"], self.params["workers"]):
                answers = self.plain(images)
                right = right + (answers.argmax(1) == labels).sum()
                loss = loss + functional.cross_entropy(answers, labels, reduction="sum")
                count += len(labels)
                if time.monotonic() - heard > SIGN_OF_LIFE_SECONDS:
                    probe.note("evaluated", count)
                    heard = time.monotonic()
        self.plain.train()
        return float(right), float(loss), float(count)

    def _converged(self) -> bool | None:
        """Whether the target is reached; None without a target or before an evaluation."""
        if self.accuracy is None or not self.params["target_accuracy"]:
            return None
        return bool(self.accuracy >= self.params["target_accuracy"])
