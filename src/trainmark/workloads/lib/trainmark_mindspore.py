"""What training programs on MindSpore share: devices and processes, the train step, image classification.

Cells give their parameters the names of the file that the first weights come from, but for those of normalisations.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
import trainmark_job
import trainmark_probe as probe
from mindspore import Tensor, nn, ops
from mindspore.communication import init, release
from trainmark_arrays import ArrayLoop, from_first
from trainmark_job import InputError
from trainmark_loop import Recipe, rate
from trainmark_pictures import Images, task

TARGETS = {"cpu": "CPU", "nvidia": "GPU", "ascend": "Ascend"}
# MindSpore's word for a part of a normalisation, and the file's.
PARTS = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
STATISTICS = ("moving_mean", "moving_variance")
EPSILON = 1e-5
FIRST_SCALE, SCALE_WINDOW = 2.0**16, 2000.0


class _Sum(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, values):  # type: ignore[no-untyped-def]  # compiled by MindSpore, which knows no hints
        return self.reduce(values)


@dataclass(frozen=True)
class Place:
    """Where this process trains, and among how many."""

    rank: int
    world: int
    local_rank: int
    sum: Any

    def total(self, *values: float) -> list[float]:
        """Each value summed over all ranks."""
        if self.world == 1:
            return list(values)
        return [float(value) for value in self.sum(Tensor(np.array(values, np.float32))).asnumpy()]


def join(config: dict[str, Any]) -> Place:
    """Choose the device and meet the other ranks."""
    probe.note("imported", ms.__version__)
    target = TARGETS.get(config["device"])
    if target is None:
        raise InputError(f"MindSpore has no devices of {config['device']}; it has {', '.join(TARGETS)}")
    threads = int(os.environ.get("OMP_NUM_THREADS", "0").split(",")[0] or 0)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    ms.set_context(mode=ms.GRAPH_MODE, device_target=target)
    if target == "Ascend":
        ms.set_context(device_id=int(os.environ.get("DEVICE_ID", local)))
    if target == "CPU" and threads:
        ms.set_context(runtime_num_threads=threads)
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    if world > 1:
        if not os.environ.get("MS_SCHED_HOST") and not os.environ.get("RANK_TABLE_FILE"):
            raise InputError(f"{world} ranks need MS_SCHED_HOST, MS_SCHED_PORT and MS_ROLE in the environment")
        init()
    probe.note("joined", world)
    return Place(rank, world, local, _Sum() if world > 1 else None)


def convolution(inputs: int, outputs: int, size: int, stride: int, bias: bool = False) -> nn.Cell:
    """With as much padding as keeps the middle."""
    return nn.Conv2d(
        inputs, outputs, size, stride, pad_mode="pad", padding=size // 2, has_bias=bias, weight_init="zeros"
    )


def normalisation(width: int) -> nn.Cell:
    return nn.BatchNorm2d(width, eps=EPSILON, momentum=0.9)


def dense(inputs: int, outputs: int) -> nn.Cell:
    return nn.Dense(inputs, outputs, weight_init="zeros", bias_init="zeros")


class _Gradients(nn.Cell):
    """Gradients averaged over the ranks, in one piece."""

    def __init__(self, shapes: list[tuple[int, ...]], world: int) -> None:
        super().__init__()
        self.reduce, self.world, self.shapes = ops.AllReduce(), world, shapes
        self.sizes = [int(np.prod(shape)) for shape in shapes]

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        flat = ()
        for gradient in gradients:
            flat += (gradient.reshape(-1),)
        parts = ops.split(self.reduce(ops.concat(flat)) / self.world, self.sizes)
        shared = ()
        for number, shape in enumerate(self.shapes):
            shared += (parts[number].reshape(shape),)
        return shared


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
        self.gradient = ops.GradOperation(get_by_list=True, sens_param=True)
        self.scale = ms.Parameter(Tensor(FIRST_SCALE, ms.float32), name="loss_scale", requires_grad=False)
        self.good = ms.Parameter(Tensor(0.0, ms.float32), name="good_steps", requires_grad=False)

    def construct(self, *batch):  # type: ignore[no-untyped-def]
        loss = self.forward(*batch)
        scale = self.scale * 1.0
        scaled = self.gradient(self.forward, self.trained)(*batch, scale)
        gradients, finite = (), Tensor(True)
        for gradient in scaled:
            gradient = gradient.astype(ms.float32) / scale
            finite = ops.logical_and(finite, ops.isfinite(gradient).all())
            gradients += (gradient,)
        if self.share is not None:
            gradients = self.share(gradients)
            # One rank's overflow is everybody's: an infinite number stays one in the mean.
            finite = ops.isfinite(gradients[0]).all()
            for gradient in gradients:
                finite = ops.logical_and(finite, ops.isfinite(gradient).all())
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


class Trainer(ArrayLoop):
    """`forward` makes the loss of a batch, `look` its (right, loss, count); both hold the same `net`."""

    framework = "MindSpore"
    dtypes = ("fp32", "fp16")
    place: Place

    def __init__(self, config: dict[str, Any], place: Place, what: Any, how: Recipe, net: nn.Cell) -> None:
        super().__init__(config, place, what, how)
        self.net = net
        self._sink = config["params"].get("data_sink_steps", 1)
        self._count, self._last = 0, None
        trainmark_job.waits.append(lambda: None if self._last is None else self._last.asnumpy())

    # -- what a kind of task brings

    def _forward(self) -> nn.Cell:
        raise NotImplementedError

    def _look(self) -> nn.Cell:
        raise NotImplementedError

    def _optimizer(self, rates: list[float]) -> nn.Optimizer:
        raise NotImplementedError

    # -- the loop's hooks

    def _build(self, first: dict[str, Any]) -> None:
        own = {parameter.name: parameter for parameter in self.net.get_parameters()}
        self._named = {_theirs(name): parameter for name, parameter in own.items() if not name.endswith(STATISTICS)}
        if set(self._named) != set(first):
            raise AssertionError(f"weights and model differ: {sorted(set(self._named) ^ set(first))}")
        for name, value in first.items():
            self._named[name].set_data(Tensor(np.array(value)))
        if self.recipe.dtype == "fp16":
            self.net = ms.amp.auto_mixed_precision(self.net, "O2")
        self.optimizer = self._optimizer([self.recipe.lr * rate(self.recipe, s, self.total) for s in range(self.total)])
        kind = _ScaledStep if self.recipe.dtype == "fp16" else _Step
        self._compiled = kind(self._forward(), self.optimizer, self.place.world).set_train()
        self._judged = self._look()

    def _update(self, batch: Any, lr: float) -> Any:  # noqa: ARG002  # the optimizer has a table of rates
        """A batch that comes again, as synthetic ones do, is on the device already."""
        if getattr(self, "_seen", None) is not batch:
            self._seen, self._ready = batch, [Tensor(array) for array in batch]
        self._last = self._compiled(*self._ready)
        self._count += 1
        # Between two looks at the device the host runs ahead.
        return _Later(self._last) if self._count % self._sink else float(self._last.asnumpy())

    def _judge(self, share: Any) -> list[float]:
        # All ranks judge by the running statistics of the first, and train on with their own.
        running = [parameter for parameter in self.net.get_parameters() if parameter.name.endswith(STATISTICS)]
        own = {parameter.name: parameter.asnumpy().copy() for parameter in running}
        for name, value in from_first(own, self.place).items():
            self._set(running, name, value)
        self.net.set_train(False)
        sums = super()._judge(share)
        self._compiled.set_train()
        for name, value in own.items():
            self._set(running, name, value)
        return sums

    @staticmethod
    def _set(parameters: list[Any], name: str, value: Any) -> None:
        next(one for one in parameters if one.name == name).set_data(Tensor(np.asarray(value, np.float32)))

    def _sums(self, batch: Any, counts: Any) -> Any:
        return self._judged(*(Tensor(array) for array in (*batch, counts))).asnumpy()

    def _weights(self) -> dict[str, Any]:
        return {name: parameter.asnumpy() for name, parameter in self._named.items()}

    def _leave(self) -> None:
        """In good order: a rank that just goes takes along what it has not sent yet."""
        super()._leave()
        if self.place.world > 1:
            release()

    def _state(self) -> dict[str, Any]:
        return {parameter.name: parameter.asnumpy() for parameter in self._compiled.get_parameters()}

    def _restore(self, state: dict[str, Any]) -> None:
        for parameter in self._compiled.get_parameters():
            parameter.set_data(Tensor(state[parameter.name]))


def _theirs(name: str) -> str:
    stem, _, part = name.rpartition(".")
    return f"{stem}.{PARTS.get(part, part)}" if stem else name


class _ClassLoss(nn.Cell):
    def __init__(self, net: nn.Cell, smoothing: float) -> None:
        super().__init__(auto_prefix=False)
        self.net, self.smoothing = net, smoothing

    def construct(self, images, labels):  # type: ignore[no-untyped-def]
        logs = ops.log_softmax(self.net(images).astype(ms.float32), -1)
        right = ops.gather_elements(logs, 1, labels.expand_dims(1))
        return -((1 - self.smoothing) * right.mean() + self.smoothing * logs.mean())


class _ClassLook(nn.Cell):
    def __init__(self, net: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, images, labels, counts):  # type: ignore[no-untyped-def]
        answers = self.net(images).astype(ms.float32)
        right = (answers.argmax(1).astype(ms.int32) == labels).astype(ms.float32)
        loss = -ops.gather_elements(ops.log_softmax(answers, -1), 1, labels.expand_dims(1)).reshape(-1)
        return ops.stack(((right * counts).sum(), (loss * counts).sum(), counts.sum()))


class _ClassTrainer(Trainer):
    def _forward(self) -> nn.Cell:
        return _ClassLoss(self.net, self.config["params"].get("label_smoothing", 0.0))

    def _look(self) -> nn.Cell:
        return _ClassLook(self.net)

    def _optimizer(self, rates: list[float]) -> nn.Optimizer:
        params = self.config["params"]
        # A group of its own: without one, scales and shifts would not decay as they do elsewhere.
        weights = [{"params": list(self.net.trainable_params()), "weight_decay": params["weight_decay"]}]
        return nn.Momentum(weights, rates, params["momentum"])


def classify(config: dict[str, Any], place: Place, images: Images, net: nn.Cell) -> None:
    """Train as the parameters say."""
    _ClassTrainer(config, place, *task(config, place, images, channels_last=False), net).run()
