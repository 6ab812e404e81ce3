"""What training programs on JAX share: devices and processes, the update of weights, image classification.

A model is a function of its weights, which keep the names of the file they come from. Convolutions are NHWC and HWIO,
as XLA likes them on every device.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trainmark_job
import trainmark_probe as probe
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from trainmark_arrays import ArrayLoop, channels_first, channels_last, from_first
from trainmark_job import InputError
from trainmark_pictures import Classifier, Images, task

Tree = dict[str, Any]
# (weights, running statistics, images, training) to (answers, new statistics).
Model = Callable[[Tree, Tree, Any, bool], tuple[Any, Tree]]
RANKS = "ranks"
# How far running statistics move towards those of a batch.
MOVE = 0.1
EPSILON = 1e-5


@dataclass(frozen=True)
class Place:
    """Where this process trains, and among how many; each has one device."""

    rank: int
    world: int
    local_rank: int
    mesh: Mesh

    def total(self, *values: float) -> list[float]:
        """Each value summed over all ranks."""
        if self.world == 1:
            return list(values)
        sums = jax.jit(_shared(lambda mine: lax.psum(mine[0], RANKS), self.mesh, (P(RANKS),), P()))
        return [float(value) for value in np.asarray(sums(self.spread(np.array(values, np.float32))))]

    def spread(self, mine: Any) -> Any:
        """Every rank's array of one shape, along a new first axis."""
        return jax.make_array_from_process_local_data(NamedSharding(self.mesh, P(RANKS)), np.asarray(mine)[None])

    def same(self, array: Any) -> Any:
        """An array that every rank has."""
        return jax.make_array_from_process_local_data(NamedSharding(self.mesh, P()), np.array(array))


def _shared(body: Callable[..., Any], mesh: Mesh, inwards: Any, outwards: Any) -> Callable[..., Any]:
    return jax.shard_map(body, mesh=mesh, in_specs=inwards, out_specs=outwards, check_vma=False)


def join(config: dict[str, Any]) -> Place:
    """Choose the device and meet the other ranks."""
    probe.note("imported", jax.__version__)
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    if config["device"] == "cpu":
        jax.config.update("jax_platforms", "cpu")
        # A step has then ended when it returns, and its time is true.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    if world > 1:
        address = os.environ.get("JAX_COORDINATOR_ADDRESS")
        if not address:
            raise InputError(f"{world} ranks need JAX_COORDINATOR_ADDRESS in the environment")
        jax.distributed.initialize(address, world, rank)
    if config["device"] != "cpu" and jax.default_backend() == "cpu":
        raise InputError(f"JAX {jax.__version__} sees no {config['device']} device here")
    first = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.array([first[number] for number in range(world)]), (RANKS,))
    probe.note("joined", world)
    return Place(rank, world, int(os.environ.get("LOCAL_RANK", "0")), mesh)


def normalised(weights: Tree, state: Tree, name: str, hidden: Any, training: bool, moved: Tree) -> Any:
    """Batch normalisation over this rank's images; what the running statistics become goes into `moved`."""
    mean_name, variance_name = f"{name}.running_mean", f"{name}.running_var"
    if training:
        wide = hidden.astype(jnp.float32)
        mean = wide.mean((0, 1, 2))
        variance = jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean)
        count = hidden.size // hidden.shape[-1]
        unbiased = variance * (count / max(1, count - 1))
        moved[mean_name] = state[mean_name] + MOVE * (mean - state[mean_name])
        moved[variance_name] = state[variance_name] + MOVE * (unbiased - state[variance_name])
    else:
        mean, variance = state[mean_name], state[variance_name]
    scale = weights[f"{name}.weight"] * lax.rsqrt(variance + EPSILON)
    shift = weights[f"{name}.bias"] - mean * scale
    return hidden * scale.astype(hidden.dtype) + shift.astype(hidden.dtype)


def convolved(weights: Tree, name: str, hidden: Any, stride: int, padding: int) -> Any:
    kernel = weights[f"{name}.weight"].astype(hidden.dtype)
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        hidden, kernel, (stride, stride), [(padding, padding)] * 2, dimension_numbers=numbers
    )


def pooled(hidden: Any, size: int, stride: int, padding: int) -> Any:
    """The largest of each neighbourhood."""
    pads = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    return lax.reduce_window(hidden, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), pads)


def dense(weights: Tree, name: str, hidden: Any) -> Any:
    return hidden @ weights[f"{name}.weight"].astype(hidden.dtype) + weights[f"{name}.bias"].astype(hidden.dtype)


class _Trainer(ArrayLoop):
    """Stochastic gradient descent with momentum; gradients are averaged over the ranks."""

    framework = "JAX"
    dtypes = ("fp32", "bf16")
    place: Place

    def __init__(self, config: dict[str, Any], place: Place, what: Classifier, how: Any, model: Model) -> None:
        super().__init__(config, place, what, how)
        self._model, self._params = model, config["params"]
        self._type = jnp.bfloat16 if how.dtype == "bf16" else jnp.float32
        self._last: Any = None
        trainmark_job.waits.append(lambda: jax.block_until_ready(self._last))

    def _build(self, first: dict[str, Any]) -> None:
        self._names = list(first)
        weights = {name: channels_last(value) for name, value in first.items()}
        norms = {name.removesuffix(".weight") for name in weights if _is_norm(name, first)}
        statistics = {f"{name}.running_mean": np.zeros_like(first[f"{name}.weight"]) for name in norms}
        statistics |= {f"{name}.running_var": np.ones_like(first[f"{name}.weight"]) for name in norms}
        self.weights = jax.tree.map(self.place.same, weights)
        self.speeds = jax.tree.map(lambda value: self.place.same(np.zeros_like(value)), weights)
        self.statistics = jax.tree.map(self.place.spread, statistics)
        own, same = P(RANKS), P()
        step = _shared(self._one_step, self.place.mesh, (same, same, own, own, own, same), (same, same, own, own))
        self._compiled = jax.jit(step, donate_argnums=(0, 1, 2))
        self._judged = jax.jit(self._one_look)

    def _one_step(self, weights: Tree, speeds: Tree, statistics: Tree, images: Any, labels: Any, lr: Any) -> Any:
        """On this rank's share, whose first axis is of length 1."""
        statistics = jax.tree.map(lambda value: value[0], statistics)
        look = jax.value_and_grad(partial(self._loss, statistics, images[0], labels[0]), has_aux=True)
        (loss, statistics), gradients = look(weights)
        gradients = lax.pmean(gradients, RANKS)
        momentum, decay = self._params["momentum"], self._params["weight_decay"]
        speeds = jax.tree.map(lambda v, g, w: momentum * v + (g + decay * w), speeds, gradients, weights)
        weights = jax.tree.map(lambda w, v: w - lr * v, weights, speeds)
        return weights, speeds, jax.tree.map(lambda value: value[None], statistics), loss[None]

    def _loss(self, statistics: Tree, images: Any, labels: Any, weights: Tree) -> Any:
        answers, moved = self._model(weights, statistics, images.astype(self._type), True)
        smoothing = self._params.get("label_smoothing", 0.0)
        logs = jax.nn.log_softmax(answers.astype(jnp.float32))
        right = jnp.take_along_axis(logs, labels[:, None], 1)[:, 0]
        return -((1 - smoothing) * right + smoothing * logs.mean(1)).mean(), moved

    def _one_look(self, weights: Tree, statistics: Tree, images: Any, labels: Any, counts: Any) -> Any:
        answers, _ = self._model(weights, statistics, images.astype(self._type), False)
        logs = jax.nn.log_softmax(answers.astype(jnp.float32))
        right = (answers.argmax(1) == labels) * counts
        loss = -jnp.take_along_axis(logs, labels[:, None], 1)[:, 0] * counts
        return jnp.stack((right.sum(), loss.sum(), counts.sum()))

    def _update(self, batch: Any, lr: float) -> Any:
        images, labels = self._spread(batch)
        self.weights, self.speeds, self.statistics, loss = self._compiled(
            self.weights, self.speeds, self.statistics, images, labels, np.float32(lr)
        )
        self._last = loss.addressable_data(0)[0]
        return self._last

    def _spread(self, batch: Any) -> tuple[Any, Any]:
        """A batch that comes again, as synthetic ones do, is on the device already."""
        if getattr(self, "_seen", None) is not batch:
            self._seen, self._ready = batch, tuple(map(self.place.spread, batch))
        return self._ready

    def _judge(self, share: Any) -> list[float]:
        # All ranks judge by the running statistics of the first.
        self._agreed = from_first({name: _mine(value) for name, value in self.statistics.items()}, self.place)
        self._here = {name: value.addressable_data(0) for name, value in self.weights.items()}
        return super()._judge(share)

    def _sums(self, batch: Any, counts: Any) -> Any:
        return self._judged(self._here, self._agreed, *batch, counts)

    def _weights(self) -> dict[str, Any]:
        return {name: channels_first(np.asarray(self.weights[name].addressable_data(0))) for name in self._names}

    def _state(self) -> dict[str, Any]:
        state = {f"weights.{name}": np.asarray(value.addressable_data(0)) for name, value in self.weights.items()}
        state |= {f"speeds.{name}": np.asarray(value.addressable_data(0)) for name, value in self.speeds.items()}
        return state | {f"statistics.{name}": _mine(value) for name, value in self.statistics.items()}

    def _restore(self, state: dict[str, Any]) -> None:
        self.weights = {name: self.place.same(state[f"weights.{name}"]) for name in self.weights}
        self.speeds = {name: self.place.same(state[f"speeds.{name}"]) for name in self.speeds}
        self.statistics = {name: self.place.spread(state[f"statistics.{name}"]) for name in self.statistics}

    def _leave(self) -> None:
        super()._leave()
        if self.place.world > 1:
            jax.distributed.shutdown()


def _mine(value: Any) -> Any:
    return np.asarray(value.addressable_data(0))[0]


def _is_norm(name: str, first: dict[str, Any]) -> bool:
    """A weight of one axis is the scale of a normalisation."""
    return name.endswith(".weight") and first[name].ndim == 1


def classify(config: dict[str, Any], images: Images, model: Model) -> None:
    """Train as the parameters say."""
    place = join(config)
    _Trainer(config, place, *task(config, place, images, channels_last=True), model).run()
