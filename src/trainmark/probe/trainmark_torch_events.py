"""What the hooks of torch report, as steps, losses and evaluations."""

from __future__ import annotations

from time import monotonic_ns
from typing import Any, Callable

from trainmark_batch_size import BatchSize  # type: ignore[import-not-found]
from trainmark_exec_events import ExecEvents  # type: ignore[import-not-found]
from trainmark_probe import torch_event  # type: ignore[import-not-found]
from trainmark_step_counter import LoaderState, Source  # type: ignore[import-not-found]

# How a batch that is asked for looks: gradients are off, the model is in evaluation mode, neither.
_QUIET, _EVALUATING, _LEARNING = 0, 1, 2


class LoaderIterator(LoaderState):  # type: ignore[misc]
    """An iterator of a DataLoader, and how large its batches are."""

    def __init__(self, source: Source | None, size: BatchSize) -> None:
        super().__init__(source)
        self.size = size


class TorchEvents(ExecEvents):  # type: ignore[misc]
    """The events of this process; `trainmark_torch_hooks` calls its public methods."""

    def __init__(self, torch: Any, spools: str, config: str, began_ns: int = 0) -> None:
        super().__init__(torch, spools, config, began_ns)
        self._torch = torch
        self._made: dict[int, int] = {}  # optimizers: number of parameters
        self._device = "cpu"
        self._last_stepped: int | None = None
        self._losses: list[Any] = []  # of the backward passes since the last step: the last, and the sum of all
        self._division: float | None = None  # what the loss that came last was divided by
        self._accumulation: float | None = None  # the divisor, once it was the number of batches in a step
        self._unscaled: Any = None
        self._first_sizes = [0, 0]
        self.training_mode = True
        self._mode_since = 0  # when the model went into evaluation mode; 0: it is not, or was trained in it
        self._quiet_depth = 0
        self._quiet_since = 0
        self._read = False  # a loader was read in this stretch
        self._trained_in_mode = False  # a model is trained while another one is in evaluation mode

    def device(self) -> tuple[str, Callable[[], Any] | None]:
        sync = getattr(getattr(self._torch, self._device, None), "synchronize", None)
        return ("cpu", None) if sync is None or self._device == "cpu" else (self._device, sync)

    def event(self) -> Callable[[], Any] | None:
        found: Callable[[], Any] | None = torch_event(self._torch, self._device)
        return found

    def world(self) -> tuple[int | None, int]:
        distributed = self._torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        found: tuple[int | None, int] = super().world()
        return found

    def silent(self) -> bool:
        return self._torch.utils.data.get_worker_info() is not None

    # ---- what the hooks report

    def made(self, optimizer: Any) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        size = sum(parameter.numel() for parameter in parameters)
        if size >= max(self._made.values(), default=0):
            self._device = parameters[0].device.type
        self._made[id(optimizer)] = size
        self._updates.made(id(optimizer), type(optimizer).__name__, size)

    def fetch(self, loader: LoaderIterator) -> int:
        """A batch is asked for: whether it looks like one to train on."""
        look = _QUIET
        if self._torch.is_grad_enabled():
            look = _LEARNING if self.training_mode else _EVALUATING
        if look != _LEARNING:
            self._read = True
            if not loader.passed and self._recorder is not None:
                self._recorder._edge()  # work queued before an evaluation belongs to training
        return look

    def fetched(self, loader: LoaderIterator, batch: Any, look: int, asked_ns: int) -> None:
        now = monotonic_ns()
        if look == _LEARNING and self._recorder is None and self._made:
            self.open(asked_ns)
        samples, sure = loader.size.of(batch)
        if loader.size.other_sizes:
            self._more["first_sizes"] = self._first_sizes
            self._first_sizes[0] += loader.size.other_sizes
            self._first_sizes[1] += loader.size.first_sizes
            loader.size.other_sizes = loader.size.first_sizes = 0
        self._counter.fetched(loader, samples, look == _LEARNING, now, now - asked_ns, sure, look != _QUIET)

    def ended(self, loader: LoaderIterator) -> None:
        self._counter.ended(loader, monotonic_ns())

    def restarted(self, loader: LoaderIterator) -> None:
        if loader.size.drawn is not None:
            loader.size.drawn.clear()
        self._counter.restarted(loader)

    def backward(self, tensors: Any) -> None:
        if self._recorder is None:
            self.open(monotonic_ns())
        if self._mode_since:
            self._mode_since, self._trained_in_mode = 0, True
        self._counter.backward()
        loss, self._unscaled = self._unscaled, None
        loss = tensors if loss is None else loss
        if isinstance(loss, self._torch.Tensor) and loss.dim() == 0:
            self._division = _division(loss)
            loss = loss.detach().clone()  # the program may overwrite it
            self._losses = [loss, self._losses[1] + loss if self._losses else loss]

    def scaled(self, outputs: Any) -> None:
        self._unscaled = outputs

    def stepped(self, optimizer: Any, skipped: bool = False) -> None:
        """An optimizer has stepped, or the scaler has skipped its step."""
        self._last_stepped = key = id(optimizer)
        if key not in self._made:
            self.made(optimizer)
        found = getattr(optimizer, "found_inf", None)  # set while the scaler lets the optimizer skip by itself
        fresh = self._counter.take_step()
        for _ in range(self._updates.updated(key, fresh, self._counter.loads)):
            if self._recorder is None:
                self.open(monotonic_ns())
            samples, waited, accumulated = self._counter.step()
            loss = None if skipped else self._loss_of_step(accumulated, samples)
            self._losses = []
            self.write_step(samples, waited, loss, skipped, found)

    def scaler_steps(self) -> None:
        self._last_stepped = None

    def scaler_stepped(self, optimizer: Any) -> None:
        if self._last_stepped != id(optimizer):
            self.stepped(optimizer, True)

    def mode(self, training: bool) -> None:
        """A model goes into training mode or leaves it."""
        self.training_mode = training
        if training:
            since, self._mode_since = self._mode_since, 0
            if since and not self._read:
                self._quiet.add(since, monotonic_ns(), True)
        else:
            self._read = False
            if self._recorder is not None and not self._trained_in_mode:
                self._recorder._edge()  # as before any phase
            self._mode_since = monotonic_ns()

    def quiet(self) -> None:
        """`no_grad` or `inference_mode` begins."""
        self._quiet_depth += 1
        if self._quiet_depth == 1:
            self._quiet_since = monotonic_ns()
            if not self._mode_since:
                self._read = False

    def loud(self) -> None:
        self._quiet_depth -= 1
        if self._quiet_depth == 0 and not self._mode_since and not self._read:
            self._quiet.add(self._quiet_since, monotonic_ns(), False)

    def _loss_of_step(self, accumulated: int, samples: int) -> Any:
        """The loss, not what a program that accumulates gradients divides it by."""
        if not self._losses:
            return None
        last, whole = self._losses
        if accumulated > 1 and self._division is not None:
            if abs(self._division - accumulated) < 1e-6 * accumulated:
                self._accumulation = self._division
            elif self._accumulation is None and self._division >= samples:
                return whole  # it was divided by the number of samples or tokens of all batches
        if self._division is not None and self._division == self._accumulation:
            return last * self._accumulation
        return last


def _division(loss: Any) -> float | None:
    """What the last operation divided the loss by: infinity where that is a tensor of the device, None if nothing."""
    made = loss.grad_fn
    name = made.name() if made is not None else ""
    other = getattr(made, "_saved_other", None) if name in ("DivBackward0", "MulBackward0") else None
    if other is None or other.dim():
        return None
    if name == "DivBackward0":
        return float(other) if other.device.type == "cpu" else float("inf")
    factor = float(other) if other.device.type == "cpu" else 0.0
    return 1 / factor if 1e-4 < factor < 1 else None
