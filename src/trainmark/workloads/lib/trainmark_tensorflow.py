"""What training programs on TensorFlow share: joining the other ranks, layers, the state of the timed loop.

A model is a function of its variables, which keep the names of the file they come from. Ranks are the workers of a
MultiWorkerMirroredStrategy with a loop of our own. Images are NHWC, the only layout TensorFlow has on CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import trainmark_job
import trainmark_probe as probe
from trainmark_arrays import ArrayLoop, channels_first, channels_last, check, first_statistics, from_first
from trainmark_job import InputError

Variables = dict[str, Any]
# How far running statistics move towards those of a batch.
MOVE = 0.1
EPSILON = 1e-5
DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16}


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, and which of them this is; `strategy` is None for one alone."""

    rank: int
    world: int
    local_rank: int
    strategy: Any

    def total(self, *values: float) -> list[float]:
        """Each value summed over all ranks."""
        if self.world == 1:
            return list(values)
        sums = self._sum(tf.constant(values, tf.float32))
        return [float(value) for value in sums.numpy()]

    def mean(self, gradients: list[Any]) -> list[Any]:
        """Gradients averaged over all ranks; to be called in a step."""
        if self.strategy is None:
            return gradients
        context = tf.distribute.get_replica_context()
        averaged: list[Any] = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        return averaged

    def _sum(self, mine: Any) -> Any:
        def body(value: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value))

        return tf.function(lambda value: self.strategy.run(body, (value,)), autograph=False)(mine)


def join(config: dict[str, Any]) -> Ranks:
    """Meet the other ranks, and use as many threads as this one was given."""
    probe.note("imported", tf.__version__)
    check(config, "TensorFlow", DTYPES)
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    threads = int(os.environ.get("OMP_NUM_THREADS", "0").split(",")[0] or 0)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1 if world == 1 else 2)
    if config["device"] != "cpu" and not tf.config.list_physical_devices("GPU"):
        raise InputError(f"TensorFlow {tf.__version__} sees no {config['device']} device here")
    if config["device"] != "cpu":
        trainmark_job.memories.append(lambda: int(tf.config.experimental.get_memory_info("GPU:0")["peak"]))
    strategy = None
    if world > 1:
        if not os.environ.get("TF_CONFIG"):
            raise InputError(f"{world} ranks need TF_CONFIG in the environment")
        way = tf.distribute.experimental.CommunicationImplementation
        kind = way.NCCL if config.get("backend") == "nccl" else way.RING
        options = tf.distribute.experimental.CommunicationOptions(implementation=kind)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    probe.note("joined", world)
    return Ranks(rank, world, int(os.environ.get("LOCAL_RANK", "0")), strategy)


def normalised(variables: Variables, name: str, hidden: Any, training: bool) -> Any:
    """Batch normalisation over this rank's images; running statistics follow in training."""
    mean, variance = variables[f"{name}.running_mean"], variables[f"{name}.running_var"]
    scale, shift = variables[f"{name}.weight"], variables[f"{name}.bias"]
    if not training:
        return tf.nn.batch_normalization(
            hidden, *(tf.cast(value, hidden.dtype) for value in (mean, variance, shift, scale)), EPSILON
        )
    normal, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=hidden, scale=scale, offset=shift, mean=[], variance=[], epsilon=EPSILON, is_training=True
    )
    mean.assign_add(MOVE * (batch_mean - mean))
    variance.assign_add(MOVE * (batch_variance - variance))
    return normal


def convolved(variables: Variables, name: str, hidden: Any, stride: int, padding: int) -> Any:
    pads = [[0, 0], [padding, padding], [padding, padding], [0, 0]]
    return tf.nn.conv2d(hidden, tf.cast(variables[f"{name}.weight"], hidden.dtype), stride, pads)


def pooled(hidden: Any, size: int, stride: int, padding: int) -> Any:
    """The largest of each neighbourhood."""
    if padding:
        hidden = tf.pad(hidden, [[0, 0], [padding, padding], [padding, padding], [0, 0]], constant_values=-np.inf)
    return tf.nn.max_pool2d(hidden, size, stride, "VALID")


def dense(variables: Variables, name: str, hidden: Any) -> Any:
    weight, bias = (tf.cast(variables[f"{name}.{part}"], hidden.dtype) for part in ("weight", "bias"))
    return hidden @ weight + bias


def cross_entropy(scores: Any, labels: Any, smoothing: float = 0.0) -> Any:
    """The mean over the images; `smoothing` is the share of the answer that is spread over all classes."""
    logs = tf.nn.log_softmax(scores)
    right = tf.gather(logs, labels, batch_dims=1)
    return -tf.reduce_mean((1 - smoothing) * right + smoothing * tf.reduce_mean(logs, 1))


class State:
    """Weights, the speeds of stochastic gradient descent with momentum, and running statistics.

    `agreed` are the statistics of the first rank, by which all ranks evaluate.
    """

    def __init__(self, first: dict[str, Any], ranks: Ranks) -> None:
        with ranks.strategy.scope() if ranks.strategy else tf.init_scope():
            self.weights = {name: tf.Variable(channels_last(value)) for name, value in first.items()}
            self.speeds = {name: tf.Variable(tf.zeros_like(value)) for name, value in self.weights.items()}
            self.statistics = _constants(first_statistics(first))
        self.agreed = _constants(first_statistics(first))

    def named(self) -> dict[str, Any]:
        parts = {"weights": self.weights, "speeds": self.speeds, "statistics": self.statistics}
        return {f"{part}.{name}": variable for part, held in parts.items() for name, variable in held.items()}


def _constants(values: dict[str, Any]) -> Variables:
    return {name: tf.Variable(value, trainable=False) for name, value in values.items()}


class TensorFlowLoop(ArrayLoop):
    """The timed loop on TensorFlow; `update(images, labels, lr)` works on the images of this rank alone."""

    ranks: Ranks

    def __init__(
        self, config: dict[str, Any], ranks: Ranks, state: State, update: Callable[..., Any], **more: Any
    ) -> None:
        super().__init__(config, ranks, **more)
        self._held, strategy = state, ranks.strategy
        everywhere = update if strategy is None else lambda *given: strategy.run(update, given)
        self._compiled = tf.function(everywhere, autograph=False)
        self._last: Any = None
        self._given: Any = None
        trainmark_job.waits.append(lambda: None if self._last is None else self._last.numpy())

    def update(self, batch: Any, lr: float) -> Any:
        """One update of the weights; the loss of this rank."""
        # A batch that comes again, as synthetic ones do, is a tensor already.
        if self._given is not batch:
            self._given, self._ready = batch, tuple(map(tf.constant, batch))
        self._last = self._compiled(*self._ready, tf.constant(lr, tf.float32))
        return self._last

    def sums(self, judge: Callable[..., Any], batches: Iterator[Any]) -> list[float]:
        own = {name: value.numpy() for name, value in self._held.statistics.items()}
        for name, value in from_first(own, self.ranks).items():
            self._held.agreed[name].assign(value)
        return super().sums(lambda *batch: judge(*map(tf.constant, batch)).numpy(), batches)

    def _weights(self) -> dict[str, Any]:
        return {name: channels_first(value.numpy()) for name, value in self._held.weights.items()}

    def _state(self) -> dict[str, Any]:
        return {name: variable.numpy() for name, variable in self._held.named().items()}

    def _restore(self, state: dict[str, Any]) -> None:
        for name, variable in self._held.named().items():
            variable.assign(state[name])
