"""What training programs on MindSpore share: joining the other ranks, layers, the steps of the timed loop.

Cells give their parameters the names of the file that the first weights come from, but for those of normalisations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
import trainmark_job
import trainmark_probe as probe
from mindspore import Tensor, nn, ops
from mindspore.communication import init, release
from mindspore.nn.learning_rate_schedule import LearningRateSchedule
from trainmark_arrays import ArrayLoop, check, from_first
from trainmark_job import InputError

TARGETS = {"cpu": "CPU", "nvidia": "GPU", "ascend": "Ascend"}
DTYPES = ("fp32", "fp16")
# MindSpore's name for a part of a normalisation, and the file's.
PARTS = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
STATISTICS = ("moving_mean", "moving_variance")
EPSILON = 1e-5
GRAPH_DEPTH = 10000
FIRST_SCALE, SCALE_WINDOW = 2.0**16, 2000.0


class _Sum(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, values):  # type: ignore[no-untyped-def]  # compiled by MindSpore, which knows no hints
        return self.reduce(values)


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, and which of them this is."""

    rank: int
    world: int
    local_rank: int
    sum: Any

    def total(self, *values: float) -> list[float]:
        """Each value summed over all ranks."""
        if self.world == 1:
            return list(values)
        return [float(value) for value in self.sum(Tensor(np.array(values, np.float32))).asnumpy()]


def join(config: dict[str, Any]) -> Ranks:
    """Choose the device and meet the other ranks."""
    probe.note("imported", ms.__version__)
    check(config, "MindSpore", DTYPES)
    target = TARGETS.get(config["device"])
    if target is None:
        raise InputError(f"MindSpore has no devices of {config['device']}; it has {', '.join(TARGETS)}")
    threads = int(os.environ.get("OMP_NUM_THREADS", "0").split(",")[0] or 0)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    ms.set_context(mode=ms.GRAPH_MODE, device_target=target)
    # Splitting the gradients of ResNet-50's 161 weights is deeper than the usual 1000.
    ms.set_recursion_limit(GRAPH_DEPTH)
    if target == "Ascend":
        ms.set_context(device_id=int(os.environ.get("DEVICE_ID", local)))
    if target != "CPU":
        trainmark_job.events.append(_event)
        trainmark_job.memories.append(ms.runtime.max_memory_allocated)
    if target == "CPU" and threads:
        ms.set_context(runtime_num_threads=threads)
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    if world > 1:
        if not os.environ.get("MS_SCHED_HOST") and not os.environ.get("RANK_TABLE_FILE"):
            raise InputError(f"{world} ranks need MS_SCHED_HOST, MS_SCHED_PORT and MS_ROLE in the environment")
        init()
    probe.note("joined", world)
    return Ranks(rank, world, local, _Sum() if world > 1 else None)


def _event() -> Any:
    found = ms.runtime.Event(enable_timing=True)
    found.record()
    return found


def convolution(inputs: int, outputs: int, size: int, stride: int, bias: bool = False) -> nn.Cell:
    """With as much padding as keeps the middle."""
    return nn.Conv2d(
        inputs, outputs, size, stride, pad_mode="pad", padding=size // 2, has_bias=bias, weight_init="zeros"
    )


def normalisation(width: int) -> nn.Cell:
    return nn.BatchNorm2d(width, eps=EPSILON, momentum=0.9)


def dense(inputs: int, outputs: int) -> nn.Cell:
    return nn.Dense(inputs, outputs, weight_init="zeros", bias_init="zeros")


class CrossEntropy(nn.Cell):
    """The mean loss of a batch of images; `smoothing` is the share of the answer that is spread over all classes."""

    def __init__(self, net: nn.Cell, smoothing: float = 0.0) -> None:
        super().__init__(auto_prefix=False)
        self.net, self.smoothing = net, smoothing

    def construct(self, images, labels):  # type: ignore[no-untyped-def]
        logs = ops.log_softmax(self.net(images).astype(ms.float32), -1)
        right = ops.gather_elements(logs, 1, labels.expand_dims(1))
        return -((1 - self.smoothing) * right.mean() + self.smoothing * logs.mean())


class Correct(nn.Cell):
    """Correct answers, loss and number of the images that count."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, images, labels, counts):  # type: ignore[no-untyped-def]
        answers = self.net(images).astype(ms.float32)
        right = (answers.argmax(1).astype(ms.int32) == labels).astype(ms.float32)
        loss = -ops.gather_elements(ops.log_softmax(answers, -1), 1, labels.expand_dims(1)).reshape(-1)
        return ops.stack(((right * counts).sum(), (loss * counts).sum(), counts.sum()))


def set_first_weights(net: nn.Cell, first: dict[str, Any], dtype: str) -> nn.Cell:
    """The net with these weights, computing in the number format."""
    named = _named(net)
    if set(named) != set(first):
        raise AssertionError(f"weights and model differ: {sorted(set(named) ^ set(first))}")
    for name, value in first.items():
        named[name].set_data(Tensor(np.array(value)))
    return ms.amp.auto_mixed_precision(net, "O2") if dtype == "fp16" else net


class Rates(LearningRateSchedule):
    """The learning rate at each step of the recipe; further steps have the last one."""

    def __init__(self, rates: list[float]) -> None:
        super().__init__()
        self.rates, self.last = Tensor(np.array(rates, np.float32)), Tensor(len(rates) - 1, ms.int32)

    def construct(self, global_step):  # type: ignore[no-untyped-def]
        return ops.gather(self.rates, ops.minimum(global_step.reshape(()), self.last), 0)


# On each of many gradients, by MindSpore's own map: a loop that makes a tuple longer step by step is compiled into a
# graph that grows with the square of their number.
_flattened = ops.MultitypeFuncGraph("flattened")
_shaped = ops.MultitypeFuncGraph("shaped")
_unscaled = ops.MultitypeFuncGraph("unscaled")
_is_finite = ops.MultitypeFuncGraph("is_finite")


@_flattened.register("Tensor")
def _flatten(gradient):  # type: ignore[no-untyped-def]
    return gradient.reshape((-1,))


@_shaped.register("Tensor", "Tensor")
def _shape(part, gradient):  # type: ignore[no-untyped-def]
    return part.reshape(gradient.shape)


@_unscaled.register("Tensor", "Tensor")
def _unscale(scale, gradient):  # type: ignore[no-untyped-def]
    return gradient.astype(ms.float32) / scale


@_is_finite.register("Tensor")
def _finite(gradient):  # type: ignore[no-untyped-def]
    return ops.isfinite(gradient).all()


class _Gradients(nn.Cell):
    """Gradients averaged over the ranks, in one piece."""

    def __init__(self, shapes: list[tuple[int, ...]], world: int) -> None:
        super().__init__()
        self.reduce, self.world, self.map = ops.AllReduce(), world, ops.HyperMap()
        self.sizes = [int(np.prod(shape)) for shape in shapes]

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        flat = ops.concat(self.map(_flattened, gradients))
        return self.map(_shaped, ops.split(self.reduce(flat) / self.world, self.sizes), gradients)


class _Step(nn.Cell):
    """Loss, gradients, update."""

    def __init__(self, forward: nn.Cell, optimizer: nn.Optimizer, world: int) -> None:
        super().__init__(auto_prefix=False)
        self.forward, self.optimizer = forward, optimizer
        self.trained = optimizer.parameters
        self.forward.set_grad()
        self.gradient = ops.GradOperation(get_by_list=True)
        self.share = _Gradients([weight.shape for weight in self.trained], world) if world > 1 else None

    def construct(self, *batch):  # type: ignore[no-untyped-def]
        loss = self.forward(*batch)
        gradients = self.gradient(self.forward, self.trained)(*batch)
        if self.share is not None:
            gradients = self.share(gradients)
        return ops.depend(loss, self.optimizer(gradients))


class _ScaledStep(_Step):
    """For fp16: losses are scaled up as far as gradients stay finite; steps that overflow change nothing.

    MindSpore's own cell for this asks Ascend's registers for overflows, on every device.
    """

    def __init__(self, forward: nn.Cell, optimizer: nn.Optimizer, world: int) -> None:
        super().__init__(forward, optimizer, world)
        self.gradient, self.map = ops.GradOperation(get_by_list=True, sens_param=True), ops.HyperMap()
        self.scale = ms.Parameter(Tensor(FIRST_SCALE, ms.float32), name="loss_scale", requires_grad=False)
        self.good = ms.Parameter(Tensor(0.0, ms.float32), name="good_steps", requires_grad=False)

    def construct(self, *batch):  # type: ignore[no-untyped-def]
        loss = self.forward(*batch)
        scale = self.scale * 1.0
        scaled = self.gradient(self.forward, self.trained)(*batch, scale)
        gradients = self.map(ops.partial(_unscaled, scale), scaled)
        if self.share is not None:
            # One rank's overflow is everybody's: an infinite number stays one in the mean.
            gradients = self.share(gradients)
        finite = ops.stack(self.map(_is_finite, gradients)).all()
        good = ops.select(finite, self.good + 1.0, self.good * 0.0)
        grown = ops.select(good >= SCALE_WINDOW, scale * 2.0, scale)
        ops.assign(self.scale, ops.select(finite, grown, ops.maximum(scale / 2.0, Tensor(1.0, ms.float32))))
        ops.assign(self.good, ops.select(good >= SCALE_WINDOW, good * 0.0, good))
        if finite:
            loss = ops.depend(loss, self.optimizer(gradients))
        return loss


class _Later:
    """A loss that nobody looks at yet."""

    def __init__(self, loss: Any) -> None:
        self._loss = loss

    def detach(self) -> _Later:
        return self

    def __float__(self) -> float:
        return float(self._loss.asnumpy())


class MindSporeLoop(ArrayLoop):
    """The timed loop on MindSpore. `loss` makes the loss of a batch with the `net`; the optimizer knows all learning
    rates, one for each step of the recipe (`Rates`)."""

    ranks: Ranks

    def __init__(
        self, config: dict[str, Any], ranks: Ranks, net: nn.Cell, loss: nn.Cell, optimizer: nn.Optimizer, **more: Any
    ) -> None:
        super().__init__(config, ranks, **more)
        self._net, params = net, config["params"]
        kind = _ScaledStep if params["dtype"] == "fp16" else _Step
        self._compiled = kind(loss, optimizer, ranks.world).set_train()
        self._sink = params.get("data_sink_steps", 1)
        self._count, self._last, self._given = 0, None, None
        trainmark_job.waits.append(lambda: None if self._last is None else self._last.asnumpy())

    def update(self, batch: Any) -> Any:
        """One update of the weights; the loss of this rank."""
        # A batch that comes again, as synthetic ones do, is on the device already.
        if self._given is not batch:
            self._given, self._ready = batch, [Tensor(array) for array in batch]
        self._last = self._compiled(*self._ready)
        self._count += 1
        # Between two looks at the device the host runs ahead.
        return _Later(self._last) if self._count % self._sink else float(self._last.asnumpy())

    def sums(self, judge: Callable[..., Any], batches: Iterator[Any]) -> list[float]:
        return super().sums(lambda *batch: judge(*(Tensor(array) for array in batch)).asnumpy(), batches)

    def _evaluated_by(self, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
        # All ranks judge by the running statistics of the first, and train on with their own.
        running = {one.name: one for one in self._net.get_parameters() if one.name.endswith(STATISTICS)}
        own = {name: parameter.asnumpy().copy() for name, parameter in running.items()}
        for name, value in from_first(own, self.ranks).items():
            running[name].set_data(Tensor(np.asarray(value, np.float32)))
        self._net.set_train(False)
        values = evaluate()
        self._compiled.set_train()
        for name, value in own.items():
            running[name].set_data(Tensor(value))
        return values

    def _weights(self) -> dict[str, Any]:
        return {name: parameter.asnumpy() for name, parameter in _named(self._net).items()}

    def _leave(self) -> None:
        """In good order: a rank that just exits takes along what it has not sent yet."""
        super()._leave()
        if self.ranks.world > 1:
            release()

    def _state(self) -> dict[str, Any]:
        return {parameter.name: parameter.asnumpy() for parameter in self._compiled.get_parameters()}

    def _restore(self, state: dict[str, Any]) -> None:
        for parameter in self._compiled.get_parameters():
            parameter.set_data(Tensor(state[parameter.name]))


def _named(net: nn.Cell) -> dict[str, Any]:
    """Parameters by the names of the file, without running statistics."""
    found = {}
    for parameter in net.get_parameters():
        stem, _, part = parameter.name.rpartition(".")
        if part not in STATISTICS:
            found[f"{stem}.{PARTS.get(part, part)}" if stem else parameter.name] = parameter
    return found
