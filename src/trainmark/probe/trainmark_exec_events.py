"""Writes the events of an unmodified program: which rank this process is, its steps, its evaluations, its end.

The hooks of each framework use it. No call waits for the device or reads a tensor, except at block edges.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import deque
from statistics import median
from time import monotonic_ns
from typing import Any, Callable

import trainmark_diagnose  # type: ignore[import-not-found]
import trainmark_probe  # type: ignore[import-not-found]
from trainmark_step_counter import StepCounter, Updates  # type: ignore[import-not-found]

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_FIRST_CHECK = 16  # steps; the count is written again each time it has doubled
_SHORTEST_NS = 1_000_000  # stretches without gradients that are shorter are no evaluation
_MOST_PROCESSES = 4096
TOKENS = "tokens"


_open_here: list[ExecEvents] = []  # the one framework of this process that trains


class HookRecorder(trainmark_probe._Recorder):  # type: ignore[misc]
    """Writes events as the probe does, without the losses of steps that the gradient scaler skipped."""

    def __init__(self, path: str, rank: int) -> None:
        super().__init__(path, rank)
        self._losses: list[tuple[int, Any]] = []
        self.overflows: dict[int, Any] = {}  # step → a tensor that is not 0 when its update was skipped
        self.skipped: list[int] = []
        self._idle_until = 0

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
        if self._event is not None:
            self._events.append((self._step, self._event()))
        if self._blocks.ends(self._step, monotonic_ns()):
            self._edge()

    def data(self, waited_ns: int) -> None:
        """The next step waited so long for its data."""
        self._spans[b',"data":'] = waited_ns

    def began(self, at_ns: int) -> None:
        self._edge()
        self._last_event = None if self._event is None else self._event()
        self._training = True
        self._idle_until = at_ns
        self._emit("TRAIN_START", at_ns)

    def were_evaluating(self, spans: list[tuple[int, int]]) -> None:
        """Stretches of time, which may overlap, in which nothing was trained."""
        for began_ns, ended_ns in sorted(spans):
            began_ns = max(began_ns, self._idle_until)
            if ended_ns > began_ns:
                self._emit("PHASE_BEGIN", began_ns, name="evaluate")
                self._emit("PHASE_END", ended_ns, name="evaluate")
                self._idle_until = ended_ns

    def continue_from(self, path: str) -> None:
        """Continues the step numbers of an earlier process of this rank."""
        with open(path, "rb") as file:
            done = file.read().count(b'"k":"STEP_END"')
        if done:
            self._step = self._blocks.step = done


class QuietSpans:
    """Stretches without gradients outside of any loader: evaluation, where they last at least half as long as a step
    and are not in neighbouring steps, so they are told when the step after them is known. `declared` ones are from
    `eval()` to `train()`; others (`no_grad`) are no evaluation where most steps have one, such as a teacher's."""

    def __init__(self) -> None:
        self._now: list[tuple[int, int]] = []  # since the last step
        self._last: list[tuple[int, int]] = []  # of the step before
        self._before = False  # the step before that one had such a stretch
        self._at_ns = 0  # the end of the last step
        self._plain: deque[int] = deque(maxlen=31)  # how long the last steps without one took
        self._others: list[tuple[int, int]] = []  # since the last step, not declared
        self._common: deque[bool] = deque(maxlen=31)  # whether the last steps had some that were not declared
        self.in_steps = 0  # steps that such a stretch is a part of

    def add(self, began_ns: int, ended_ns: int, declared: bool) -> None:
        (self._now if declared else self._others).append((began_ns, ended_ns))

    def stepped(self, now_ns: int) -> list[tuple[int, int]]:
        """A step has ended: the stretches of the step before it that were evaluation."""
        now, others, self._now, self._others = self._now, self._others, [], []
        self._common.append(bool(others))
        if 2 * sum(self._common) <= len(self._common):
            now += others
        elif others:
            self.in_steps += 1
        took = sum(end - begin for begin, end in now)
        # The first steps prepare much; how long a step is, is not known there.
        if now and (took < _SHORTEST_NS or not self._plain or 2 * took < median(self._plain)):
            now = []
        if not now and self._at_ns:
            self._plain.append(now_ns - self._at_ns)
        self._at_ns = now_ns
        last, self._last = self._last, now
        alone = bool(last) and not self._before and not now
        self.in_steps += bool(last) and not alone
        self._before = bool(last)
        return last if alone else []

    def close(self) -> list[tuple[int, int]]:
        found = self.stepped(monotonic_ns())
        return found if self._before else found + self._last


class ExecEvents:
    """The events of this process. `sync` waits for the device; a framework fills in what `_device` and `_sync` are."""

    def __init__(self, framework: Any, spools: str, config: str, began_ns: int = 0) -> None:
        self._framework = framework
        self._spools = spools
        self._began_ns = began_ns or monotonic_ns()  # the command
        self._config = _read(config)
        self._settings = dict(self._config.get("exec") or {})
        self.tokens = self._settings.get("unit") == TOKENS
        self._counter = StepCounter(self._settings.get("batch"))
        self._updates = Updates()
        self._quiet = QuietSpans()
        self._recorder: HookRecorder | None = None
        self._next_check = _FIRST_CHECK
        self._limit: int | None = self._settings.get("steps")
        self._diagnostic: Any = None
        self._path = ""
        self._more: dict[str, Any] = {}  # added to the count
        self.on = True

    # ---- what a framework tells

    def device(self) -> tuple[str, Callable[[], Any] | None]:
        """What is trained on, and a call that waits for it; None where the program itself waits."""
        raise NotImplementedError

    def event(self) -> Callable[[], Any] | None:
        """Puts an event into the queue of the device, which times steps; None where there is no such thing."""
        return None

    def world(self) -> tuple[int | None, int]:
        """Rank and number of ranks; the rank is None where nobody has said one."""
        return _number(_RANKS, None), _number(_WORLDS, None) or 1

    def silent(self) -> bool:
        """Whether this process is a helper of one that trains."""
        return False

    # ---- how it is written

    def write_step(self, samples: int, waited_ns: int, loss: Any, skipped: bool = False, overflow: Any = None) -> None:
        """A step has been counted. `overflow`: a tensor that tells later whether its update was skipped."""
        recorder = self._recorder
        if recorder is None:
            return
        self._write_idle(recorder, self._quiet.stepped(monotonic_ns()))
        if overflow is not None:
            recorder.overflows[recorder._step + 1] = overflow
        if samples:
            recorder.data(waited_ns)
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

    def finish(self) -> None:
        """The process ends."""
        recorder = self._recorder
        if recorder is None or not self.on:
            return
        self.on = False
        self._counter.close()
        self._write_idle(recorder, self._quiet.close())
        self._write_count(recorder)
        recorder.train_end()
        recorder.finish()

    def _write_idle(self, recorder: HookRecorder, quiet: list[tuple[int, int]]) -> None:
        idle, self._counter.idle = self._counter.idle + quiet, []
        if self._counter.steps > 1 and idle:
            recorder.were_evaluating(idle)

    def _write_count(self, recorder: HookRecorder) -> None:
        counted = self._counter.counted()
        counted.update(self._updates.counted(self._counter.steps, self._counter.loads))
        counted.update(self._more)
        if self._quiet.in_steps:
            counted["quiet_steps"] = self._quiet.in_steps
        others = self._others()
        if others:
            counted["others"] = others
        recorder.note("counted", counted)

    def _end_as_asked(self, recorder: HookRecorder) -> None:
        """The number of steps that was asked for is done."""
        self.on = False
        self._write_count(recorder)
        recorder.train_end()
        recorder.finish(ended_after=self._counter.steps)
        trainmark_diagnose.end_process()

    # ---- which rank this process is

    def open(self, began_ns: int) -> None:
        """At the first sign of training: this process is a rank from now on, unless another process is that rank."""
        if self._recorder is not None:
            return
        if self.silent() or trainmark_probe._recorder._fd >= 0 or _open_here:
            self.on = False  # a worker of a loader, a program that calls the probe itself, or another framework's
            return
        told, world = self.world()
        rank = self._claim(told)
        if rank is None:
            self.on = False
            return
        self.say("rank %d %d" % (os.getpid(), rank))
        recorder = HookRecorder(self._path, rank)
        device, sync = self.device()
        recorder.init(self._settings.get("unit") or "samples", device, sync, world, self._began_ns, self.event())
        recorder.continue_from(self._path)
        if rank and told is None:
            recorder.note("beside", rank)
        recorder.began(began_ns)
        self._recorder = recorder
        _open_here.append(self)
        if os.environ.get(trainmark_diagnose.VARIABLE):
            workdir = self._config.get("workdir") or os.path.dirname(self._spools)
            self._diagnostic = trainmark_diagnose.Diagnostic(os.environ[trainmark_diagnose.VARIABLE], rank, workdir)
            self._diagnostic.begin()
        _at_end(self.finish)

    def _claim(self, told: int | None) -> int | None:
        """The rank of this process: a rank is one process at a time. Those that nobody has told a rank, such as the
        processes of a hogwild training, take the first one that is free."""
        for rank in range(_MOST_PROCESSES) if told is None else [told]:
            self._path = os.path.join(self._spools, "rank%d.jsonl" % rank)
            if _take(self._path + ".pid"):
                return rank
        self.say("taken %d %d" % (os.getpid(), told or 0))
        _append(self._path + ".others", b"%d\n" % os.getpid())
        return None

    def _others(self) -> int:
        """How many processes trained as this rank beside this one, and were not measured."""
        try:
            with open(self._path + ".others", "rb") as file:
                return len(set(file.read().split()))
        except OSError:
            return 0

    def say(self, text: str) -> None:
        """A line for the agent that is not an event."""
        _append(os.path.join(self._spools, "hello"), text.encode("utf-8", "replace") + b"\n")

    def forked(self) -> None:
        """In a forked child: children of a rank are not ranks."""
        if self._recorder is not None:
            self._recorder.mute()
            self.on = False


def _append(path: str, text: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, text)
    finally:
        os.close(file)


def _take(owner: str) -> bool:
    """Whether this process may be the owner named in the file. One process asks at a time."""
    lock = os.open(owner + ".lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _alive(owner):
            return False
        with open(owner, "w") as file:
            file.write("%d" % os.getpid())
        return True
    finally:
        os.close(lock)


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


def _number(names: tuple[str, ...], default: int | None) -> int | None:
    for name in names:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return default


def _at_end(call: Callable[[], None]) -> None:
    """Children of `multiprocessing` leave without `atexit`, but they do run its own finalizers."""
    from multiprocessing import util

    util.Finalize(None, call, exitpriority=1000)
