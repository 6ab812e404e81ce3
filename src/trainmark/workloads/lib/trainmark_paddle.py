"""What training programs on PaddlePaddle share: joining the other ranks, first weights, the state of the timed loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import paddle.distributed as dist
import trainmark_job
import trainmark_probe as probe
from paddle import nn
from trainmark_arrays import ArrayLoop, check
from trainmark_job import InputError


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, and which of them this is."""

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

    def average(self, weights: Iterable[Any]) -> None:
        """Gradients averaged over all ranks, in one piece."""
        if self.world == 1:
            return
        gradients = [weight.grad for weight in weights]
        flat = paddle.concat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        parts = paddle.split(flat / self.world, [gradient.size for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            paddle.assign(part.reshape(gradient.shape), gradient)


def join(config: dict[str, Any]) -> Ranks:
    """Choose the device and meet the other ranks."""
    probe.note("imported", paddle.__version__)
    check(config, "PaddlePaddle")
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if config["device"] == "cpu":
        paddle.set_device("cpu")
    elif paddle.device.is_compiled_with_cuda():
        paddle.set_device("gpu:0")
        trainmark_job.events.append(_event)
        trainmark_job.memories.append(paddle.device.cuda.max_memory_allocated)
    else:
        raise InputError(f"PaddlePaddle {paddle.__version__} sees no {config['device']} device here")
    if world > 1:
        if not os.environ.get("PADDLE_MASTER"):
            raise InputError(f"{world} ranks need PADDLE_MASTER and PADDLE_TRAINER_ENDPOINTS in the environment")
        dist.init_parallel_env()
    probe.note("joined", world)
    return Ranks(rank, world, local)


def _event() -> Any:
    found = paddle.device.Event(enable_timing=True)
    found.record()
    return found


def set_first_weights(net: nn.Layer, first: dict[str, Any]) -> None:
    """Give the net the weights that every framework begins with."""
    own, transposed = dict(net.named_parameters()), _transposed(net)
    if set(own) != set(first):
        raise AssertionError(f"weights and model differ: {sorted(set(own) ^ set(first))}")
    for name, value in first.items():
        own[name].set_value(np.ascontiguousarray(value.T if name in transposed else value))


def _transposed(net: nn.Layer) -> set[str]:
    """Matrices of dense layers are transposed here; tables of embeddings are not."""
    return {f"{name}.weight" for name, layer in net.named_sublayers() if isinstance(layer, nn.Linear)}


class PaddleLoop(ArrayLoop):
    """The timed loop on PaddlePaddle. `optimizer` keeps its state in `steps` and in tensors by name of each weight,
    which `tensors()` gives by kind."""

    ranks: Ranks

    def __init__(self, config: dict[str, Any], ranks: Ranks, net: nn.Layer, optimizer: Any, **more: Any) -> None:
        super().__init__(config, ranks, **more)
        self._net, self._optimizer = net, optimizer
        trainmark_job.waits.append(paddle.device.synchronize)

    def _evaluated_by(self, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
        self._net.eval()
        with paddle.no_grad():
            values = evaluate()
        self._net.train()
        return values

    def _weights(self) -> dict[str, Any]:
        transposed = _transposed(self._net)
        return {
            name: weight.numpy().T if name in transposed else weight.numpy()
            for name, weight in self._net.named_parameters()
        }

    def _tensors(self) -> dict[str, Any]:
        held = {"weights": dict(self._net.named_parameters()), **self._optimizer.tensors()}
        return {f"{kind}.{name}": value for kind, values in held.items() for name, value in values.items()}

    def _state(self) -> dict[str, Any]:
        state = {name: value.numpy() for name, value in self._tensors().items()}
        return state | {"steps": np.array(self._optimizer.steps)}

    def _restore(self, state: dict[str, Any]) -> None:
        for name, value in self._tensors().items():
            value.set_value(state[name])
        self._optimizer.steps = int(state["steps"])
