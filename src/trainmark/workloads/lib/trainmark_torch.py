"""What training programs on PyTorch share: joining the other ranks, number formats, the steps of the timed loop."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import trainmark_checkpoint
import trainmark_job
import trainmark_probe as probe
import trainmark_weights
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from trainmark_checkpoint import Parts
from trainmark_job import InputError, check_dtype
from trainmark_loop import TimedLoop
from trainmark_weights import Weight

# To find the other ranks; and to wait for a slower one, which the agent's own deadlines end much earlier.
JOIN_SECONDS = 120
COLLECTIVE_SECONDS = 1800

# Shorter trainings give no speed, so there is nothing to hold against what the machine could do.
WORTH_A_PEAK_SECONDS = 8.0
# The measured peak: matrices of this many rows, products between two looks at the clock, seconds in all.
MATMUL_SIZE = {"cpu": 2048, "other": 8192}
MATMUL_REPEATS = 2
MATMUL_SECONDS = 1.0
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
GIB = 2.0**30
# Of a number in fp32.
BYTES = 4


@dataclass(frozen=True)
class Ranks:
    """The processes that train together, which of them this is, and the device it trains on."""

    device: torch.device
    rank: int
    world: int
    local_rank: int

    def tensor(self, array: Any) -> Tensor:
        """An array on the device."""
        return torch.from_numpy(array).to(self.device, non_blocking=True)

    def total(self, *values: float) -> list[float]:
        """Each value summed over all ranks."""
        return self._reduce(dist.ReduceOp.SUM, values)

    def least(self, *values: float) -> list[float]:
        """The smallest of each value over all ranks."""
        return self._reduce(dist.ReduceOp.MIN, values)

    def barrier(self) -> None:
        self.total(0.0)

    def align(self, model: nn.Module) -> None:
        """Give all ranks the running statistics of rank 0; parameters are equal already."""
        if self.world > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)

    def _reduce(self, operation: Any, values: tuple[float, ...]) -> list[float]:
        if self.world == 1:
            return list(values)
        # Some accelerators have no 64-bit floats; counts here stay far below the 2^24 that 32 bits hold.
        wide = torch.float64 if self.device.type in ("cpu", "cuda") else torch.float32
        together = torch.tensor(values, dtype=wide, device=self.device)
        dist.all_reduce(together, operation)
        return [float(value) for value in together.tolist()]


def join(config: dict[str, Any]) -> Ranks:
    """Choose the device and meet the other ranks."""
    probe.note("imported", torch.__version__)
    rank, world = int(os.environ.get("RANK", "0")), config["world"]
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    ranks = Ranks(_device(config["device"], local_rank), rank, world, local_rank)
    timer = probe.torch_event(torch, ranks.device.type)
    if timer is not None:
        trainmark_job.events.append(timer)
    if world > 1:
        _rendezvous(config.get("backend") or "gloo", rank, world)
    probe.note("joined", world)
    return ranks


def leave(ranks: Ranks) -> None:
    """Leave the process group when all ranks are here."""
    if ranks.world > 1:
        ranks.barrier()
        dist.destroy_process_group()
        # Gloo's threads drop a Python object after their last collective. Without the interpreter's lock for a moment
        # they would find it ending, and PyTorch would abort the process.
        time.sleep(0.05)


def _device(vendor: str, local_rank: int) -> torch.device:
    if vendor == "cpu":
        return torch.device("cpu")
    if hasattr(torch, "accelerator"):
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        kind, count = (found.type, torch.accelerator.device_count()) if found else ("", 0)
    else:
        kind, count = "cuda", torch.cuda.device_count()
    if not count:
        raise InputError(f"PyTorch {torch.__version__} sees no {vendor} device here")
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if local > count > 1:
        raise InputError(f"{local} ranks here have {count} {vendor} devices; start as many ranks as there are devices")
    device = torch.device(kind, local_rank % count)
    # Shapes do not change here, so the search for the fastest algorithm pays.
    torch.backends.cudnn.benchmark = True
    if hasattr(torch, "accelerator"):
        torch.accelerator.set_device_index(device.index)
    else:
        torch.cuda.set_device(device)
    return device


def _rendezvous(backend: str, rank: int, world: int) -> None:
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if not address or not port:
        raise InputError(f"{world} ranks need MASTER_ADDR and MASTER_PORT in the environment")
    try:
        store = dist.TCPStore(address, int(port), world, rank == 0, timedelta(seconds=JOIN_SECONDS))  # type: ignore[attr-defined]
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise SystemExit(
            f"error: rank {rank} of {world} did not meet the others at {address}:{port}: {reason}"
        ) from None
    limit = timedelta(seconds=COLLECTIVE_SECONDS)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)


class Precision:
    """Trains in fp32, tf32, bf16 or fp16; refuses a format this device would only emulate."""

    def __init__(self, dtype: str, device: torch.device) -> None:
        self._type = DTYPES.get(dtype)
        self._device = device.type
        check_dtype(dtype, device.type)
        _check_units(dtype, device)
        # Of the matrices that large products have in this format.
        self.stored = self._type or torch.float32
        if device.type == "cuda":
            # fp32 shall mean fp32: PyTorch would take TF32 in convolutions by itself.
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        # fp16 has a small range: losses are scaled up as far as gradients stay finite.
        self.scaler = torch.amp.GradScaler(device.type) if dtype == "fp16" else None

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self._type is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device, self._type)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of `loss`."""
        (self.scaler.scale(loss) if self.scaler else loss).backward()  # type: ignore[no-untyped-call]

    def unscaled(self, norm: float) -> float:
        """The norm of gradients as they are without the scale of the loss."""
        return norm / self.scaler.get_scale() if self.scaler else norm

    def update(self, optimizer: torch.optim.Optimizer, clip: float) -> None:
        """One step of the optimizer, with gradients of the norm `clip` at most, if it is given."""
        if clip:
            if self.scaler:
                self.scaler.unscale_(optimizer)
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            nn.utils.clip_grad_norm_(weights, clip)
        if self.scaler:
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            optimizer.step()


def _check_units(dtype: str, device: torch.device) -> None:
    """Refuse bf16 where the device, or its plug-in, says that it has no units for it."""
    asked = getattr(getattr(torch, device.type, None), "is_bf16_supported", None)
    if dtype != "bf16" or device.type == "cpu" or asked is None:
        return
    try:
        has_units = asked(including_emulation=False)
    except TypeError:  # vendors' plug-ins and older releases do not count emulation
        has_units = asked()
    if not has_units:
        raise InputError("this device has no bf16 units and would emulate them; set dtype=fp16 or dtype=fp32")


def share(model: nn.Module, ranks: Ranks, parallel: str = "ddp", precision: Precision | None = None) -> nn.Module:
    """The model, training together with those of all other ranks when there are several.

    `ddp`: each rank has all weights. `fsdp`: each has a share of them, and of the optimizer's state; the layers that
    are gathered one after the other are the model's `blocks`, in the number format of `precision`; gradients are added
    up in fp32.
    """
    if ranks.world == 1:
        return model
    if parallel == "fsdp":
        return _shard(model, ranks, precision)
    devices = None if ranks.device.type == "cpu" else [ranks.device.index]
    return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)


def _shard(model: nn.Module, ranks: Ranks, precision: Precision | None) -> nn.Module:
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    except ImportError:
        raise InputError(f"PyTorch {torch.__version__} has no fully_shard; set parallel=ddp") from None
    # Every rank draws the same first weights, so that each may keep its own share of them.
    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    narrow = precision is not None and precision.stored is not torch.float32
    policy = MixedPrecisionPolicy(precision.stored, torch.float32) if precision and narrow else MixedPrecisionPolicy()
    for block in model.get_submodule("blocks").children():
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def sharing(model: nn.Module, last: bool) -> contextlib.AbstractContextManager[Any]:
    """Around forward and backward pass of a batch: ranks share gradients once a step, with those of its last batch."""
    if isinstance(model, DistributedDataParallel):
        return contextlib.nullcontext() if last else model.no_sync()
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(last)  # type: ignore[operator]
    return contextlib.nullcontext()


def can_fuse(ranks: Ranks) -> bool:
    """Whether an optimizer may make one pass over the weights instead of one per operation."""
    return ranks.device.type in ("cpu", "cuda")


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = value


def decayed(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Groups of an optimizer: matrices decay; biases and the scales of normalisations, of one dimension, do not."""
    weights = list(model.parameters())
    return [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0},
    ]


class TorchLoop(TimedLoop):
    """The timed loop on PyTorch. A program's step is

    for step in loop:
        optimizer.zero_grad(set_to_none=True)
        for batch in loop.batches():
            loss = …
            loop.backward(loss, samples)
        loop.update()

    `facts` are what the weights do not tell, such as a vocabulary: a checkpoint with other facts is refused.
    """

    def __init__(
        self,
        config: dict[str, Any],
        ranks: Ranks,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        precision: Precision,
        facts: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(config, ranks, **more)
        self._network, self._optimizer, self._precision = network, optimizer, precision
        self._clip: float = config["params"].get("clip", 0.0)
        self._model = network.module if isinstance(network, DistributedDataParallel) else network
        self._parts = Parts(self._model, optimizer, precision.scaler, facts or {})

    # -- a step

    def seed(self) -> None:
        """For models that draw random numbers: each step of each rank has a seed of its own, the same in any run."""
        drawn = (self.config["seed"] * self.steps + self.step) * self.ranks.world + self.ranks.rank
        torch.manual_seed(drawn % (1 << 63))

    def batches(self) -> Iterator[Any]:
        """The `accumulate` batches of a step; ranks share their gradients with the last."""
        self._samples, self._loss = 0, torch.zeros((), device=self.ranks.device)
        for number in range(1, self.accumulate + 1):
            batch = self.batch()
            with sharing(self._network, last=number == self.accumulate):
                yield batch

    def backward(self, loss: Tensor, samples: int) -> None:
        """Add the gradients of a batch, whose part of the step's loss is one in `accumulate`."""
        loss = loss / self.accumulate
        self._precision.backward(loss)
        self._loss += loss.detach()
        self._samples += samples

    def update(self) -> None:
        """The optimizer's step, with gradients of the norm `clip` at most, if there is such a parameter."""
        # With fsdp each rank has a share of the gradients.
        if self.step == 0 and not hasattr(self._model, "set_requires_gradient_sync"):
            gradients = [weight.grad.float().norm() for weight in self._model.parameters() if weight.grad is not None]
            # The seed is that of the round, so machines that are alike compute the same.
            norm = self._precision.unscaled(float(torch.stack(gradients).norm()))
            probe.note("first_step", {"loss": float(self._loss), "gradient_norm": norm})
        self._precision.update(self._optimizer, self._clip)

    # -- between steps

    def _parameters(self) -> int:
        return parameter_count(self._model)

    def _resume(self) -> int:
        """Weights come from a checkpoint of an earlier process in this folder, else from a given one."""
        if self.config.get("checkpoint"):
            trainmark_checkpoint.start_from(self.config["checkpoint"], self._parts, self.ranks)
        begin = time.monotonic()
        done = trainmark_checkpoint.resume(self.checkpoints, self._parts, self.ranks)
        if done:
            probe.note("checkpoint_load_seconds", time.monotonic() - begin)
        return done

    def _save(self, done: int) -> None:
        trainmark_checkpoint.save(self.checkpoints, done, self._parts, self.ranks)

    def _evaluated_by(self, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
        self.ranks.align(self._model)
        self._model.eval()
        # Not inference mode: weights that are gathered for a forward pass may be used by the next backward pass.
        with torch.no_grad(), self._precision.autocast():
            values = evaluate()
        self._model.train()
        return values

    def _last_notes(self, trained: float) -> None:
        probe.note("weights_sha256", weights_sha256(self._model))
        if trained >= WORTH_A_PEAK_SECONDS:
            probe.note("matmul_flops_per_s", matmul_flops(self._precision, self.ranks))

    def _leave(self) -> None:
        leave(self.ranks)


def check_memory(build: Callable[[], nn.Module], ranks: Ranks, parallel: str = "ddp", moments: int = 2) -> None:
    """Refuse a model that cannot fit, before it is built: fp32 weights, their gradients, and what the optimizer
    keeps of each weight, the two moments of Adam for example.

    What activations need comes on top of it, so a model that passes may still be too large.
    """
    with torch.device("meta"):
        count = parameter_count(build())
    shares = ranks.world if parallel == "fsdp" else 1
    needed, room = BYTES * (2 + moments) * count / shares, _room(ranks)
    if room is None or needed <= room:
        return
    cure = "train on more ranks" if shares > 1 else "set parallel=fsdp where the model has it, and more ranks"
    raise InputError(
        f"{count / 1e9:.1f} billion parameters need about {needed / GIB:.0f} GiB on each rank for weights, gradients "
        f"and optimizer, before any activation; a rank has {room / GIB:.0f} GiB here: {cure}, or train a smaller model"
    )


def _room(ranks: Ranks) -> float | None:
    """Bytes of memory of this rank's device, or its share of the host's; None where that is not known."""
    if ranks.device.type == "cpu":
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return whole / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    asked = getattr(getattr(torch, ranks.device.type, None), "mem_get_info", None)
    return float(asked()[1]) if asked is not None else None


def set_first_weights(model: nn.Module, layout: Sequence[Weight]) -> None:
    """Give the model the weights that every framework begins with."""
    first = trainmark_weights.first(layout)
    probe.note("first_weights_sha256", trainmark_weights.sha256(first))
    own = dict(model.named_parameters())
    if set(own) != set(first):
        raise AssertionError(f"weights and model differ: {sorted(set(own) ^ set(first))}")
    with torch.no_grad():
        for name, value in first.items():
            own[name].copy_(torch.from_numpy(np.array(value)))


def parameter_count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def training_flops(build: Callable[[], nn.Module], inputs: Callable[[], tuple[Tensor, ...]]) -> float:
    """Operations to train on one sample, forward and backward; counted without computing anything.

    The first of the inputs has the samples along its first dimension.
    """
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        given = inputs()
        build()(*given).sum().backward()
    return float(counter.get_total_flops()) / len(given[0])


def matmul_flops(precision: Precision, ranks: Ranks) -> float:
    """Operations per second of large matrix products in this number format: what the model's speed is held against.

    All ranks measure at the same time, as they trained, on square matrices of a size that keeps the units busy.
    """
    size = MATMUL_SIZE["cpu" if ranks.device.type == "cpu" else "other"]
    # In the format already: autocast would convert them inside the time of each product.
    left, right = (torch.randn(size, size, device=ranks.device).to(precision.stored) for _ in range(2))
    ranks.barrier()
    best, begin = 0.0, time.perf_counter()
    with torch.no_grad():
        left @ right
        wait(ranks.device)
        # At least once, however slow: no speed of 0 is noted.
        while not best or time.perf_counter() < begin + MATMUL_SECONDS:
            start = time.perf_counter()
            for _ in range(MATMUL_REPEATS):
                left @ right
            wait(ranks.device)
            best = max(best, MATMUL_REPEATS * 2 * size**3 / (time.perf_counter() - start))
    return best


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
    elif device.type != "cpu":
        torch.accelerator.synchronize()


def weights_sha256(model: nn.Module) -> str:
    """A hash over all parameters: ranks that trained together have the same."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype};".encode())
        values = trainmark_checkpoint.whole(parameter.detach()).cpu().flatten().contiguous()
        digest.update(values.view(torch.uint8).numpy().data)
    return digest.hexdigest()
