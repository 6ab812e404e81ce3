"""What training programs on JAX share: joining the other ranks, layers, the state of the timed loop.

A model is a function of its weights, which keep the names of the file they come from. Convolutions are NHWC and HWIO,
as XLA likes them on every device.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trainmark_job
import trainmark_probe as probe
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from trainmark_arrays import ArrayLoop, channels_first, channels_last, check, first_statistics, from_first
from trainmark_job import InputError

Tree = dict[str, Any]
# (weights, speeds, running statistics, images, labels, learning rate) to (weights, speeds, statistics, loss).
Update = Callable[[Tree, Tree, Tree, Any, Any, Any], tuple[Tree, Tree, Tree, Any]]
RANKS = "ranks"
DTYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16}
# How far running statistics move towards those of a batch.
MOVE = 0.1
EPSILON = 1e-5


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, which of them this is, and their devices, one each."""

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


def join(config: dict[str, Any]) -> Ranks:
    """Choose the device and meet the other ranks."""
    probe.note("imported", jax.__version__)
    check(config, "JAX", DTYPES)
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
    if config["device"] != "cpu":
        trainmark_job.memories.append(lambda: (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use"))
    first = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.array([first[number] for number in range(world)]), (RANKS,))
    probe.note("joined", world)
    return Ranks(rank, world, int(os.environ.get("LOCAL_RANK", "0")), mesh)


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


def cross_entropy(scores: Any, labels: Any, smoothing: float = 0.0) -> Any:
    """The mean over the images; `smoothing` is the share of the answer that is spread over all classes."""
    logs = jax.nn.log_softmax(scores)
    right = jnp.take_along_axis(logs, labels[:, None], 1)[:, 0]
    return -((1 - smoothing) * right + smoothing * logs.mean(1)).mean()


class JaxLoop(ArrayLoop):
    """The timed loop on JAX, with the state of stochastic gradient descent with momentum.

    `update` works on the images of this rank alone, and averages gradients over the ranks by `lax.pmean(…, RANKS)`.
    """

    ranks: Ranks

    def __init__(self, config: dict[str, Any], ranks: Ranks, first: Tree, update: Update, **more: Any) -> None:
        super().__init__(config, ranks, **more)
        self._names = list(first)
        weights = {name: channels_last(value) for name, value in first.items()}
        self.weights = jax.tree.map(ranks.same, weights)
        self.speeds = jax.tree.map(lambda value: ranks.same(np.zeros_like(value)), weights)
        self.statistics = jax.tree.map(ranks.spread, first_statistics(first))
        self._compiled = _compiled(update, ranks.mesh)
        self._last: Any = None
        self._given: Any = None
        trainmark_job.waits.append(lambda: jax.block_until_ready(self._last))

    def update(self, batch: Any, lr: float) -> Any:
        """One update of the weights; the loss of this rank."""
        # A batch that comes again, as synthetic ones do, is on the device already.
        if self._given is not batch:
            self._given, self._ready = batch, tuple(map(self.ranks.spread, batch))
        self.weights, self.speeds, self.statistics, loss = self._compiled(
            self.weights, self.speeds, self.statistics, *self._ready, np.float32(lr)
        )
        self._last = loss.addressable_data(0)[0]
        return self._last

    def sums(self, judge: Callable[..., Any], batches: Iterator[Any]) -> list[float]:
        """By the running statistics of the first rank, on all ranks."""
        agreed = from_first({name: _mine(value) for name, value in self.statistics.items()}, self.ranks)
        here = {name: value.addressable_data(0) for name, value in self.weights.items()}
        return super().sums(lambda *batch: judge(here, agreed, *batch), batches)

    def _weights(self) -> Tree:
        return {name: channels_first(np.asarray(self.weights[name].addressable_data(0))) for name in self._names}

    def _state(self) -> Tree:
        state = {f"weights.{name}": np.asarray(value.addressable_data(0)) for name, value in self.weights.items()}
        state |= {f"speeds.{name}": np.asarray(value.addressable_data(0)) for name, value in self.speeds.items()}
        return state | {f"statistics.{name}": _mine(value) for name, value in self.statistics.items()}

    def _restore(self, state: Tree) -> None:
        self.weights = {name: self.ranks.same(state[f"weights.{name}"]) for name in self.weights}
        self.speeds = {name: self.ranks.same(state[f"speeds.{name}"]) for name in self.speeds}
        self.statistics = {name: self.ranks.spread(state[f"statistics.{name}"]) for name in self.statistics}

    def _leave(self) -> None:
        super()._leave()
        if self.ranks.world > 1:
            jax.distributed.shutdown()


def _compiled(update: Update, mesh: Mesh) -> Callable[..., Any]:
    """On all ranks at once. Weights are the same everywhere; the rest has a first axis with an entry for each rank."""

    def own_share(weights: Tree, speeds: Tree, statistics: Tree, images: Any, labels: Any, lr: Any) -> Any:
        statistics = jax.tree.map(lambda value: value[0], statistics)
        weights, speeds, statistics, loss = update(weights, speeds, statistics, images[0], labels[0], lr)
        return weights, speeds, jax.tree.map(lambda value: value[None], statistics), loss[None]

    own, same = P(RANKS), P()
    everywhere = _shared(own_share, mesh, (same, same, own, own, own, same), (same, same, own, own))
    return jax.jit(everywhere, donate_argnums=(0, 1, 2))


def _mine(value: Any) -> Any:
    return np.asarray(value.addressable_data(0))[0]
