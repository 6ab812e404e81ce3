"""What training programs on PaddlePaddle share: devices and processes, LAMB, masked language models."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as functional
import trainmark_hidden
import trainmark_job
import trainmark_probe as probe
from paddle import nn
from trainmark_arrays import ArrayLoop
from trainmark_job import InputError

LAMB_EPSILON = 1e-6


@dataclass(frozen=True)
class Place:
    """Where this process trains, and among how many."""

    rank: int
    world: int
    local_rank: int

    def total(self, *values: float) -> list[float]:
        """Each value summed over all ranks."""
        if self.world == 1:
            return list(values)
        together = paddle.to_tensor(values, "float32")
        dist.all_reduce(together)
        return [float(value) for value in together.numpy()]


def join(config: dict[str, Any]) -> Place:
    """Choose the device and meet the other ranks."""
    probe.note("imported", paddle.__version__)
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if config["device"] == "cpu":
        paddle.set_device("cpu")
    elif paddle.device.is_compiled_with_cuda():
        paddle.set_device("gpu:0")
    else:
        raise InputError(f"PaddlePaddle {paddle.__version__} sees no {config['device']} device here")
    if world > 1:
        if not os.environ.get("PADDLE_MASTER"):
            raise InputError(f"{world} ranks need PADDLE_MASTER and PADDLE_TRAINER_ENDPOINTS in the environment")
        dist.init_parallel_env()
    probe.note("joined", world)
    return Place(rank, world, local)


class Lamb:
    """As PyTorch's programs have it; weights of one axis do not decay."""

    def __init__(self, weights: dict[str, Any], params: dict[str, Any]) -> None:
        self.weights, self.steps = weights, 0
        self.betas = params["opt_lamb_beta_1"], params["opt_lamb_beta_2"]
        self.decay, self.clip, self.lamb = params["weight_decay_rate"], params["clip"], params["optimizer"] == "lamb"
        self.epsilon = LAMB_EPSILON if self.lamb else 1e-8
        self.means = {name: paddle.zeros_like(weight) for name, weight in weights.items()}
        self.squares = {name: paddle.zeros_like(weight) for name, weight in weights.items()}

    @paddle.no_grad()
    def step(self, lr: float) -> None:
        self.steps += 1
        (beta1, beta2), share = self.betas, 1.0
        if self.clip:
            norm = paddle.sqrt(sum((weight.grad.square().sum() for weight in self.weights.values()), paddle.zeros([])))
            share = paddle.clip(self.clip / (norm + 1e-6), max=1.0)
        for name, weight in self.weights.items():
            gradient, mean, square = weight.grad * share, self.means[name], self.squares[name]
            paddle.assign(mean * beta1 + gradient * (1 - beta1), mean)
            paddle.assign(square * beta2 + gradient.square() * (1 - beta2), square)
            # The means began at zero and are that much too small.
            wide = paddle.sqrt(square / (1 - beta2**self.steps)) + self.epsilon
            change = mean / (1 - beta1**self.steps) / wide
            if weight.ndim > 1:
                change = change + self.decay * weight
                if self.lamb:
                    size, wanted = change.norm(), weight.norm()
                    known = paddle.logical_and(size > 0, wanted > 0)
                    change = change * paddle.where(known, wanted / size, paddle.ones_like(size))
            paddle.assign(weight - lr * change, weight)


class _Trainer(ArrayLoop):
    framework = "PaddlePaddle"
    place: Place

    def __init__(self, config: dict[str, Any], place: Place, task: Any, how: Any, net: nn.Layer) -> None:
        super().__init__(config, place, task, how)
        self.net = net
        trainmark_job.waits.append(paddle.device.synchronize)

    def _build(self, first: dict[str, Any]) -> None:
        self.named = dict(self.net.named_parameters())
        if set(self.named) != set(first):
            raise AssertionError(f"weights and model differ: {sorted(set(self.named) ^ set(first))}")
        # Matrices of dense layers lie the other way round; tables of embeddings do not.
        layers = dict(self.net.named_sublayers())
        self.turned = {f"{name}.weight" for name, layer in layers.items() if isinstance(layer, nn.Linear)}
        for name, value in first.items():
            self.named[name].set_value(np.ascontiguousarray(value.T if name in self.turned else value))
        self.optimizer = Lamb(self.named, self.config["params"])

    def _update(self, batch: Any, lr: float) -> Any:
        tokens, places, labels = map(paddle.to_tensor, batch)
        self.net.train()
        for weight in self.named.values():
            weight.clear_gradient(False)
        scores = self.net(tokens, places)
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten().astype("int64"))
        loss.backward()
        if self.place.world > 1:
            self._share()
        self.optimizer.step(lr)
        return loss

    def _share(self) -> None:
        """Gradients averaged over the ranks, in one piece."""
        gradients = [weight.grad for weight in self.named.values()]
        flat = paddle.concat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        parts = paddle.split(flat / self.place.world, [gradient.size for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            paddle.assign(part.reshape(gradient.shape), gradient)

    @paddle.no_grad()
    def _sums(self, batch: Any, counts: Any) -> Any:
        tokens, places, labels = map(paddle.to_tensor, batch)
        self.net.eval()
        scores = self.net(tokens, places)
        each = paddle.to_tensor(counts)[:, None] * paddle.ones(labels.shape)
        right = (scores.argmax(2) == labels.astype("int64")).astype("float32")
        loss = functional.cross_entropy(scores, labels.astype("int64"), reduction="none").reshape(labels.shape)
        return [float((right * each).sum()), float((loss * each).sum()), float(each.sum())]

    def _weights(self) -> dict[str, Any]:
        return {name: self._theirs(name, weight.numpy()) for name, weight in self.named.items()}

    def _theirs(self, name: str, value: Any) -> Any:
        return value.T if name in self.turned else value

    def _state(self) -> dict[str, Any]:
        held = {"weights": self.named, "means": self.optimizer.means, "squares": self.optimizer.squares}
        state = {f"{part}.{name}": value.numpy() for part, values in held.items() for name, value in values.items()}
        return state | {"steps": np.array(self.optimizer.steps)}

    def _restore(self, state: dict[str, Any]) -> None:
        for part, values in (
            ("weights", self.named),
            ("means", self.optimizer.means),
            ("squares", self.optimizer.squares),
        ):
            for name, value in values.items():
                value.set_value(state[f"{part}.{name}"])
        self.optimizer.steps = int(state["steps"])


def train(config: dict[str, Any], build: Callable[[int], nn.Layer]) -> None:
    """Train as the parameters say; `build` makes the net for a number of tokens."""
    place = join(config)
    task, how = trainmark_hidden.open_task(config, place)
    paddle.seed(config["seed"] + place.rank)
    _Trainer(config, place, task, how, build(task.rows)).run()
