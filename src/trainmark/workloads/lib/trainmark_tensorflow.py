"""What training programs on TensorFlow share: processes, the update of weights, image classification.

A model is a function of its variables, which keep the names of the file they come from. Ranks are the workers of a
MultiWorkerMirroredStrategy with a loop of our own. Images are NHWC, the only layout TensorFlow has on CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import trainmark_job
import trainmark_probe as probe
from trainmark_arrays import ArrayLoop, channels_first, channels_last, from_first
from trainmark_job import InputError
from trainmark_pictures import Classifier, Images, task

Variables = dict[str, Any]
# (variables, images, training) to answers.
Model = Callable[[Variables, Any, bool], Any]
# How far running statistics move towards those of a batch.
MOVE = 0.1
EPSILON = 1e-5
DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16}


@dataclass(frozen=True)
class Place:
    """Where this process trains, and among how many; `strategy` is None for one alone."""

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

    def _sum(self, mine: Any) -> Any:
        def body(value: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value))

        return tf.function(lambda value: self.strategy.run(body, (value,)), autograph=False)(mine)


def join(config: dict[str, Any]) -> Place:
    """Meet the other ranks, and use as many threads as this one was given."""
    probe.note("imported", tf.__version__)
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    threads = int(os.environ.get("OMP_NUM_THREADS", "0").split(",")[0] or 0)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1 if world == 1 else 2)
    if config["device"] != "cpu" and not tf.config.list_physical_devices("GPU"):
        raise InputError(f"TensorFlow {tf.__version__} sees no {config['device']} device here")
    strategy = None
    if world > 1:
        if not os.environ.get("TF_CONFIG"):
            raise InputError(f"{world} ranks need TF_CONFIG in the environment")
        way = tf.distribute.experimental.CommunicationImplementation
        kind = way.NCCL if config.get("backend") == "nccl" else way.RING
        options = tf.distribute.experimental.CommunicationOptions(implementation=kind)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    probe.note("joined", world)
    return Place(rank, world, int(os.environ.get("LOCAL_RANK", "0")), strategy)


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


class _Trainer(ArrayLoop):
    """Stochastic gradient descent with momentum; gradients are averaged over the ranks."""

    framework = "TensorFlow"
    dtypes = tuple(DTYPES)
    place: Place

    def __init__(self, config: dict[str, Any], place: Place, what: Classifier, how: Any, model: Model) -> None:
        super().__init__(config, place, what, how)
        self._model, self._params, self._type = model, config["params"], DTYPES[how.dtype]
        self._last: Any = None
        trainmark_job.waits.append(lambda: None if self._last is None else self._last.numpy())

    def _build(self, first: dict[str, Any]) -> None:
        scope = self.place.strategy.scope if self.place.strategy else tf.init_scope
        norms = [name for name in first if name.endswith(".weight") and first[name].ndim == 1]
        with scope():
            self.weights = {name: tf.Variable(channels_last(value)) for name, value in first.items()}
            self.speeds = {name: tf.Variable(tf.zeros_like(value)) for name, value in self.weights.items()}
            self.statistics = {}
            for name in norms:
                stem, width = name.removesuffix("weight"), first[name].shape
                self.statistics[f"{stem}running_mean"] = tf.Variable(np.zeros(width, np.float32), trainable=False)
                self.statistics[f"{stem}running_var"] = tf.Variable(np.ones(width, np.float32), trainable=False)
        self._compiled = tf.function(self._step_of_all, autograph=False)
        self._judged = tf.function(self._one_look, autograph=False)

    def _step_of_all(self, images: Any, labels: Any, lr: Any) -> Any:
        if self.place.strategy is None:
            return self._one_step(images, labels, lr)
        return self.place.strategy.run(self._one_step, (images, labels, lr))

    def _one_step(self, images: Any, labels: Any, lr: Any) -> Any:
        names = list(self.weights)
        with tf.GradientTape() as tape:
            answers = self._model(self.weights | self.statistics, tf.cast(images, self._type), True)
            loss = self._loss(tf.cast(answers, tf.float32), labels)
        gradients = tape.gradient(loss, [self.weights[name] for name in names])
        if self.place.strategy is not None:
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        momentum, decay = self._params["momentum"], self._params["weight_decay"]
        for name, gradient in zip(names, gradients, strict=True):
            weight, speed = self.weights[name], self.speeds[name]
            speed.assign(momentum * speed + (gradient + decay * weight))
            weight.assign_sub(lr * speed)
        return loss

    def _loss(self, answers: Any, labels: Any) -> Any:
        smoothing = self._params.get("label_smoothing", 0.0)
        logs = tf.nn.log_softmax(answers)
        right = tf.gather(logs, labels, batch_dims=1)
        return -tf.reduce_mean((1 - smoothing) * right + smoothing * tf.reduce_mean(logs, 1))

    def _one_look(self, images: Any, labels: Any, counts: Any) -> Any:
        answers = tf.cast(self._model(self.weights | self._agreed, tf.cast(images, self._type), False), tf.float32)
        right = tf.cast(tf.argmax(answers, 1, tf.int32) == labels, tf.float32)
        loss = -tf.gather(tf.nn.log_softmax(answers), labels, batch_dims=1)
        return tf.stack([tf.reduce_sum(right * counts), tf.reduce_sum(loss * counts), tf.reduce_sum(counts)])

    def _update(self, batch: Any, lr: float) -> Any:
        """A batch that comes again, as synthetic ones do, is a tensor already."""
        if getattr(self, "_seen", None) is not batch:
            self._seen, self._ready = batch, tuple(map(tf.constant, batch))
        self._last = self._compiled(*self._ready, tf.constant(lr, tf.float32))
        return self._last

    def _judge(self, share: Any) -> list[float]:
        # All ranks judge by the running statistics of the first.
        agreed = from_first({name: value.numpy() for name, value in self.statistics.items()}, self.place)
        if not hasattr(self, "_agreed"):
            self._agreed = {name: tf.Variable(value, trainable=False) for name, value in agreed.items()}
        for name, value in agreed.items():
            self._agreed[name].assign(value)
        return super()._judge(share)

    def _sums(self, batch: Any, counts: Any) -> Any:
        return self._judged(*map(tf.constant, (*batch, counts))).numpy()

    def _weights(self) -> dict[str, Any]:
        return {name: channels_first(value.numpy()) for name, value in self.weights.items()}

    def _parts(self) -> dict[str, Any]:
        named = {"weights": self.weights, "speeds": self.speeds, "statistics": self.statistics}
        return {f"{part}.{name}": variable for part, held in named.items() for name, variable in held.items()}

    def _state(self) -> dict[str, Any]:
        return {name: variable.numpy() for name, variable in self._parts().items()}

    def _restore(self, state: dict[str, Any]) -> None:
        for name, variable in self._parts().items():
            variable.assign(state[name])


def classify(config: dict[str, Any], images: Images, model: Model) -> None:
    """Train as the parameters say."""
    place = join(config)
    _Trainer(config, place, *task(config, place, images, channels_last=True), model).run()
