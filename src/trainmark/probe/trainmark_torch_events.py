"""Writes events from what the hooks of torch report: steps, the rank of this process, and the end of training.

No call waits for the device or reads a tensor, except at block edges.
"""

from __future__ import annotations

import json
import os
from time import monotonic_ns
from typing import Any, Callable

import trainmark_diagnose  # type: ignore[import-not-found]
import trainmark_probe  # type: ignore[import-not-found]
from trainmark_step_counter import LoaderState, OptimizerChoice, StepCounter, samples_in  # type: ignore[import-not-found]

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_FIRST_CHECK = 16  # steps; the count is written again each time it has doubled


class HookRecorder(trainmark_probe._Recorder):  # type: ignore[misc]
    """Writes events as the probe does, without the losses of steps that the gradient scaler skipped."""

    def __init__(self, path: str, rank: int) -> None:
        super().__init__(path, rank)
        self._losses: list[tuple[int, Any]] = []
        self.overflows: dict[int, Any] = {}  # step → a tensor that is not 0 when its update was skipped
        self.skipped: list[int] = []

    def skip(self) -> None:
        """The last step was skipped."""
        self.skipped.append(self._step)
        self._losses = [pair for pair in self._losses if pair[0] != self._step]

    def _edge(self) -> None:
        self.skipped += [step for step, found in self.overflows.items() if float(found)]
        self.overflows = {}
        if self.skipped:
            self._losses = [pair for pair in self._losses if pair[0] not in self.skipped]
            skipped, self.skipped = self.skipped, []
            self.note("skipped", skipped)
        super()._edge()

    def step_of_unknown_size(self, loss: Any) -> None:
        """The number of samples is not known, and 0 would be wrong."""
        self._step += 1
        if loss is not None:
            self._losses.append((self._step, loss))
        self._emit("STEP_END", step=self._step)
        if self._step - self._edge_step >= trainmark_probe.BLOCK_STEPS:
            self._edge()

    def data(self, waited_ns: int) -> None:
        """The next step waited so long for its data."""
        self._spans[b',"data":'] = waited_ns

    def began(self, at_ns: int) -> None:
        self._edge()
        self._training = True
        self._emit("TRAIN_START", at_ns)

    def was_evaluating(self, began_ns: int, ended_ns: int) -> None:
        self._emit("PHASE_BEGIN", began_ns, name="evaluate")
        self._emit("PHASE_END", ended_ns, name="evaluate")

    def continue_from(self, path: str) -> None:
        """Continues the step numbers of an earlier process of this rank."""
        with open(path, "rb") as file:
            done = file.read().count(b'"k":"STEP_END"')
        if done:
            self._step = self._edge_step = done


class TorchEvents:
    """The events of this process; `trainmark_torch_hooks` calls its public methods."""

    def __init__(self, torch: Any, spools: str, config: str) -> None:
        self._torch = torch
        self._spools = spools
        self._config = _read(config)
        self._settings = dict(self._config.get("exec") or {})
        self._optimizers = OptimizerChoice()
        self._counter = StepCounter(self._settings.get("batch"))
        self._recorder: HookRecorder | None = None
        self._names: dict[int, tuple[str, int]] = {}  # optimizers: class and number of parameters
        self._device = "cpu"
        self._last_stepped: int | None = None
        self._fresh = True  # a batch came since an optimizer stepped; always true without a loader
        self._loads = False
        self._loss: Any = None
        self._unscaled: Any = None
        self._next_check = _FIRST_CHECK
        self._limit: int | None = self._settings.get("steps")
        self._diagnostic: Any = None
        self.training_mode = True
        self.on = True

    # ---- what the hooks report

    def made(self, optimizer: Any) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        size = sum(parameter.numel() for parameter in parameters)
        if size >= max([known for _, known in self._names.values()], default=0):
            self._device = parameters[0].device.type
        self._names[id(optimizer)] = (type(optimizer).__name__, size)
        self._optimizers.made(id(optimizer), size)

    def fetch(self, loader: LoaderState) -> bool:
        """A batch is asked for: whether it looks like one to train on."""
        if self._optimizers.settle():
            self._count()
        learning = self.training_mode and self._torch.is_grad_enabled()
        if not learning and not loader.passed and self._recorder is not None:
            self._recorder._edge()  # work queued before an evaluation belongs to training
        return bool(learning)

    def fetched(self, loader: LoaderState, batch: Any, learning: bool, asked_ns: int) -> None:
        now = monotonic_ns()
        if learning and self._recorder is None and self._names:
            self._open(asked_ns)
        self._fresh = self._loads = True
        self._counter.fetched(loader, samples_in(batch, loader), learning, now, now - asked_ns)

    def ended(self, loader: LoaderState) -> None:
        self._counter.ended(loader, monotonic_ns())

    def backward(self, tensors: Any) -> None:
        if self._recorder is None:
            self._open(monotonic_ns())
        self._counter.backward()
        loss, self._unscaled = self._unscaled, None
        loss = tensors if loss is None else loss
        if isinstance(loss, self._torch.Tensor) and loss.dim() == 0:
            self._loss = loss.detach().clone()  # the program may overwrite it

    def scaled(self, outputs: Any) -> None:
        self._unscaled = outputs

    def stepped(self, optimizer: Any, skipped: bool = False) -> None:
        """An optimizer has stepped, or the scaler has skipped its step."""
        self._last_stepped = key = id(optimizer)
        if key not in self._names:
            self.made(optimizer)
        found = getattr(optimizer, "found_inf", None)  # set while the scaler lets the optimizer skip by itself
        fresh, self._fresh = self._fresh, not self._loads
        for _ in range(self._optimizers.stepped(key, fresh)):
            self._count(skipped, found)

    def scaler_steps(self) -> None:
        self._last_stepped = None

    def scaler_stepped(self, optimizer: Any) -> None:
        if self._last_stepped != id(optimizer):
            self.stepped(optimizer, True)

    def finish(self) -> None:
        """The process ends."""
        if self._optimizers.settle():
            self._count()
        recorder = self._recorder
        if recorder is None or not self.on:
            return
        self.on = False
        self._counter.close()
        self._write_idle(recorder)
        self._write_count(recorder)
        recorder.train_end()
        recorder.finish()

    # ---- how it is written

    def _count(self, skipped: bool = False, overflow: Any = None) -> None:
        if self._recorder is None:
            self._open(monotonic_ns())
        recorder = self._recorder
        found = self._counter.step()
        if found is None or recorder is None:
            return
        samples, waited = found
        self._write_idle(recorder)
        if overflow is not None:
            recorder.overflows[recorder._step + 1] = overflow
        loss, self._loss = None if skipped else self._loss, None
        if samples:
            recorder.data(waited)
            recorder.step(samples, loss)
        else:
            recorder.step_of_unknown_size(loss)
        if skipped:
            recorder.skip()
        if self._counter.steps >= self._next_check:
            self._next_check *= 2
            self._write_count(recorder)
        if self._diagnostic is not None and self._diagnostic.stepped():
            self.on = False
            self._write_count(recorder)
            trainmark_diagnose.end(recorder, self._diagnostic)
        if self._limit is not None and self._counter.steps >= self._limit:
            self._end_as_asked(recorder)

    def _write_idle(self, recorder: HookRecorder) -> None:
        for began_ns, ended_ns in self._counter.idle:
            if self._counter.steps > 1:
                recorder.was_evaluating(began_ns, ended_ns)
        self._counter.idle = []

    def _write_count(self, recorder: HookRecorder) -> None:
        name, size = self._names.get(self._optimizers.chosen or 0, ("?", 0))
        chosen = {"optimizer": name, "parameters": size, "optimizers": self._optimizers.used}
        chosen["trainings"] = self._optimizers.trainings
        recorder.note("counted", dict(self._counter.counted(), **chosen))

    def _end_as_asked(self, recorder: HookRecorder) -> None:
        """The number of steps that was asked for is done."""
        self.on = False
        self._write_count(recorder)
        recorder.train_end()
        recorder.finish(ended_after=self._counter.steps)
        trainmark_diagnose.end_process()

    def _open(self, began_ns: int) -> None:
        """At the first sign of training: this process is a rank from now on, unless another process is that rank."""
        if self._torch.utils.data.get_worker_info() is not None or trainmark_probe._recorder._fd >= 0:
            self.on = False  # a worker of a loader, or a program that calls the probe itself
            return
        rank, world = self._rank_and_world()
        path = os.path.join(self._spools, "rank%d.jsonl" % rank)
        if not self._claim(path):
            self.say("taken %d %d" % (os.getpid(), rank))
            self.on = False
            return
        self.say("rank %d %d" % (os.getpid(), rank))
        recorder = HookRecorder(path, rank)
        device = self._device
        sync = getattr(getattr(self._torch, device, None), "synchronize", None)
        if sync is None:
            device = "cpu"
        recorder.init(self._settings.get("unit") or "samples", device, sync if device != "cpu" else None, world)
        recorder.continue_from(path)
        recorder.began(began_ns)
        self._recorder = recorder
        if os.environ.get(trainmark_diagnose.VARIABLE):
            workdir = self._config.get("workdir") or os.path.dirname(self._spools)
            self._diagnostic = trainmark_diagnose.Diagnostic(os.environ[trainmark_diagnose.VARIABLE], rank, workdir)
            self._diagnostic.begin()
        _at_end(self.finish)

    def _rank_and_world(self) -> tuple[int, int]:
        """Rank and number of ranks, from torch.distributed or from the variables of a launcher."""
        distributed = self._torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return _number(_RANKS, 0), _number(_WORLDS, 1)

    def _claim(self, path: str) -> bool:
        """Whether this process may write `path`: a rank is one process at a time."""
        owner = path + ".pid"
        try:
            file = os.open(owner, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            if _alive(owner):
                return False
            file = os.open(owner, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(file, b"%d" % os.getpid())
        finally:
            os.close(file)
        return True

    def say(self, text: str) -> None:
        """A line for the agent that is not an event."""
        file = os.open(os.path.join(self._spools, "hello"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(file, text.encode() + b"\n")
        finally:
            os.close(file)

    def forked(self) -> None:
        """In a forked child: children of a rank are not ranks."""
        if self._recorder is not None:
            self._recorder.mute()
            self.on = False


def _read(config: str) -> dict[str, Any]:
    with open(config, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def _alive(owner: str) -> bool:
    """Whether the process named in the file is another one than this, and lives."""
    try:
        with open(owner) as file:
            pid = int(file.read() or 0)
        if pid and pid != os.getpid():
            os.kill(pid, 0)
            return True
    except (OSError, ValueError):
        pass  # gone
    return False


def _number(names: tuple[str, ...], default: int) -> int:
    for name in names:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return default


def _at_end(call: Callable[[], None]) -> None:
    """Children of `multiprocessing` leave without `atexit`, but they do run its own finalizers."""
    from multiprocessing import util

    util.Finalize(None, call, exitpriority=1000)
