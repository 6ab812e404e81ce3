"""Reports to trainmark what a training process does: one file, standard library only, Python 3.7 and later.

    import trainmark_probe as probe

    config = probe.config(batch=64)              # parameters; these defaults when trainmark is not there
    probe.init(unit="images")
    ...                                          # load data, build the model
    probe.init_end()
    probe.train_start()
    for ...:
        with probe.span("data"):
            batch = next(batches)
        ...                                      # forward, backward, update
        probe.step(len(batch), loss)             # a number, or a tensor that is read later
    with probe.phase("evaluate"):
        accuracy = ...
    probe.evaluate(accuracy=accuracy)
    probe.train_end()
    probe.finish(converged=True)

Each event is one JSON line in the file named by TRAINMARK_SPOOL and is there when the call returns, so it
survives `kill -9`. Without trainmark around it every call does nothing. A write that fails raises OSError: a lost
number must not pass for a whole result. The probe belongs to one thread; it has no locks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from os import write
from time import monotonic_ns, time_ns
from typing import Any, Callable

_Wait = Callable[[], Any]

__all__ = [
    "active", "config", "epoch_begin", "epoch_end", "evaluate", "finish", "init", "init_end", "note", "phase",
    "rank", "resume", "span", "step", "train_end", "train_start",
]  # fmt: skip

# Steps of a block, between two synchronisations of the device: the fewest that take BLOCK_NS, else the most. Each
# number divides the next, and blocks end at its multiples.
BLOCKS = (1, 5, 10)
BLOCK_STEPS = BLOCKS[-1]
BLOCK_NS = 1_000_000_000
# "pid:path" of the process that writes this rank's events; its children inherit the variable and write nothing.
OWNER = "TRAINMARK_PROBE_PID"
# What PyTorch and plug-ins of vendors call their devices; older releases do not tell which one is there.
TORCH_DEVICES = ["cuda", "npu", "mlu", "musa", "xpu"]
# Keys of a STEP_END event, which spans are added to.
RESERVED = frozenset(("k", "rank", "seq", "t", "step", "n", "loss"))


def config(**defaults: Any) -> dict[str, Any]:
    """The configuration of this process: {"params": {...}, "data", "checkpoint", "workdir", "seed", "device", ...}.

    `checkpoint` is a file to start from, `checkpoints` the folder to write them to and to go on from. `params` is
    `defaults`, updated by what trainmark chose; without trainmark it is `defaults`.
    """
    found: dict[str, Any] = {"data": None, "checkpoint": None, "seed": 0, "device": "cpu"}
    found["workdir"] = os.getcwd()
    found["checkpoints"] = os.path.join(os.getcwd(), "checkpoints")
    path = os.environ.get("TRAINMARK_CONFIG")
    if path:
        with open(path, encoding="utf-8") as file:
            found.update(json.load(file))
    found["params"] = dict(defaults, **found.get("params", {}))
    return found


def rank() -> int:
    """The number of this process among all that train together."""
    return int(os.environ.get("TRAINMARK_RANK") or os.environ.get("RANK") or 0)


class Blocks:
    """After which steps a block ends: at multiples of a number of steps that follows from the pace.

    Ranks do not ask each other, and their clocks differ. Whatever each finds its pace to be, all end a block at every
    multiple of the largest number that any of them chose, and never less often than every BLOCK_STEPS steps.
    """

    __slots__ = ("ns", "step", "steps")

    def __init__(self) -> None:
        self.step = 0  # the last of the block before, and when it was done
        self.ns = 0
        self.steps = BLOCK_STEPS

    def ends(self, step: int, now: int) -> bool:
        """Whether one ends after `step`. Of a device that runs behind the host only the last block's pace is known."""
        return step % min(self.steps, _steps_of_block(step - self.step, now - self.ns)) == 0

    def ended(self, step: int, now: int) -> None:
        """A block ended, or whatever came after it."""
        if step > self.step:
            self.steps = _steps_of_block(step - self.step, now - self.ns)
        self.step = step
        self.ns = now


def _steps_of_block(made: int, ns: int) -> int:
    for steps in BLOCKS:
        if steps * ns >= made * BLOCK_NS:
            return steps
    return BLOCK_STEPS


class _Recorder:
    """Writes events into the file `path`, which the first call opens; its public methods are the calls."""

    def __init__(self, path: str, rank: int) -> None:
        self._path = path
        self._rank = rank
        self._fd = -1
        self._open = False  # init() was called, or this process must not write
        self._seq = 0
        self._step = 0
        self._training = False
        self._sync: _Wait | None = None
        self._spans: dict[bytes, int] = {}  # nanoseconds since the last step, by `,"name":`
        self._span_keys: dict[str, bytes] = {}
        self._losses: list[tuple[int, Any]] = []
        self._blocks = Blocks()
        self._event: Callable[[], Any] | None = None
        self._memory: Callable[[], int | None] | None = None
        self._last_event: Any = None
        self._events: list[tuple[int, Any]] = []  # since the last block ended, by step
        head = b'{"k":"STEP_END","rank":%d,"seq":%%d,"t":%%d,"step":%%d,"n":%%d' % rank
        self._line = head + b"}\n"
        self._line_loss = head + b',"loss":%r}\n'
        self._line_more = head + b"%b}\n"

    def active(self) -> bool:
        """Whether events are written, now or as soon as init() is called."""
        return bool(self._path) and (self._fd >= 0 or not self._open)

    def init(
        self,
        unit: str = "samples",
        device: str = "cpu",
        sync: _Wait | None = None,
        world: int = 1,
        began: int | None = None,
        event: Callable[[], Any] | None = None,
        memory: Callable[[], int | None] | None = None,
    ) -> None:
        """The process has begun, now or at `began` on the monotonic clock. `unit` is what a sample is called.

        A device other than `cpu` runs behind the program, so `sync` must be given: a call that returns when
        the device has done all its work. `event` puts an event into the device's queue and returns it, or None where
        there is no such thing; `first.elapsed_time(second)` are milliseconds, as in PyTorch. With it the device itself
        times each step. `memory` gives the most bytes that the device's allocator ever held, or None; it is asked at
        the end. `world` is the number of processes that train together.
        """
        if self._open:
            return
        if device != "cpu" and sync is None:
            raise ValueError("device %r needs sync=, a call that waits for the device" % device)
        self._open = True
        if _owned_by_another(self._path):
            return
        os.environ[OWNER] = "%d:%s" % (os.getpid(), self._path)
        self._sync = sync
        self._event = event if sync is not None else None
        self._memory = memory
        self._blocks.ns = monotonic_ns()
        self._attach()
        self._dump_stacks_on_signal()
        self._emit(
            "INIT_START",
            began,
            wall=time_ns() - (0 if began is None else monotonic_ns() - began),
            pid=os.getpid(),
            host=os.uname().nodename,
            python="%d.%d.%d" % sys.version_info[:3],
            prefix=sys.prefix,
            unit=unit,
            device=device,
            timing="host" if device == "cpu" else "host-enqueue",
            world=world,
        )

    def init_end(self) -> None:
        """Data and model are ready."""
        self._emit("INIT_END")

    def resume(self, step: int) -> None:
        """Training goes on after `step`, from a checkpoint: the next step is `step` + 1."""
        self._step = self._blocks.step = int(step)
        self.note("resumed_from_step", int(step))

    def train_start(self) -> None:
        """Training begins: the first step lasts from here to the first `step()`."""
        self._edge()
        self._last_event = None if self._event is None else self._event()
        self._training = True
        self._emit("TRAIN_START")

    def epoch_begin(self, epoch: int) -> None:
        self._emit("EPOCH_BEGIN", epoch=int(epoch))

    def epoch_end(self, epoch: int) -> None:
        self._emit("EPOCH_END", epoch=int(epoch))

    def step(self, samples: int, loss: Any = None) -> None:
        """A step has ended in which this process trained `samples` samples.

        Never waits for the device: a loss that is a tensor, and the device's own time, are written when a block ends.
        """
        now = monotonic_ns()
        fd = self._fd
        if fd < 0:
            if not self._open:
                self.init()
                self.step(samples, loss)
            return
        self._step = step = self._step + 1
        seq = self._seq
        self._seq = seq + 1
        if loss is not None and type(loss) is not float:
            loss = self._plain_loss(step, loss)
        if self._spans or (loss is not None and loss - loss != 0):
            line = self._line_more % (seq, now, step, samples, self._extras(loss))
        elif loss is None:
            line = self._line % (seq, now, step, samples)
        else:
            line = self._line_loss % (seq, now, step, samples, loss)
        try:
            done = write(fd, line)
        except OSError as error:
            raise self._lost(error) from error
        if done != len(line):
            self._write(line[done:])
        if self._event is not None:
            self._events.append((step, self._event()))
        blocks = self._blocks
        if (not step % blocks.steps or now - blocks.ns >= BLOCK_NS) and blocks.ends(step, now):
            self._edge()

    def span(self, name: str) -> Any:
        """`with span("data"):` its time is added to the next step's record under `name`."""
        return _Span(self._spans, self._span_keys.get(name) or self._span_key(name))

    def phase(self, name: str) -> Any:
        """`with phase("evaluate"):` work that is not training; its time is out of the step throughput."""
        return _Phase(self, name)

    def evaluate(self, **values: Any) -> None:
        """What the model reaches after the last step; before train_start() it is the starting point."""
        kind = "EVALUATE" if self._training else "INIT_EVALUATION"
        self._emit(kind, step=self._step, values=values)

    def note(self, name: str, value: Any) -> None:
        """A fact about this run."""
        self._emit("NOTE", name=name, value=value)

    def train_end(self) -> None:
        self._edge()
        self._emit("TRAIN_END")

    def finish(self, converged: bool | None = None, **values: Any) -> None:
        """All is done. `converged`: whether the target was reached, None if there was none."""
        self._edge()
        held = self._memory() if self._memory is not None else None
        self.note("peak_memory_bytes", _peak_memory() if held is None else held)
        self._emit("FINISHED", values=dict(values, converged=converged))

    # -- what the calls share

    def mute(self) -> None:
        """In a forked child, such as a data loader's worker: never write, never touch the device."""
        self._fd = -1
        self._open = True
        self._sync = None
        self._event = None
        self._events, self._losses = [], []

    def _attach(self) -> None:
        """Opens the file. What an earlier process of this rank wrote stays, and its numbers go on."""
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._fd).st_size
            tail = os.pread(self._fd, 1 << 16, max(0, size - (1 << 16)))
        except OSError as error:
            raise self._lost(error) from error
        if not tail:
            return
        if not tail.endswith(b"\n"):
            self._write(b"\n")
        for line in reversed(tail.split(b"\n")):
            try:
                self._seq = json.loads(line)["seq"] + 1
                return
            except (ValueError, KeyError, TypeError):
                continue

    def _dump_stacks_on_signal(self) -> None:
        """SIGUSR1 prints the stack of every thread, to explain a hang."""
        try:
            import faulthandler

            # A program may have a use for it, such as to save before it is preempted.
            if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
                faulthandler.register(signal.SIGUSR1, all_threads=True)
        except (ImportError, AttributeError, ValueError, OSError, RuntimeError):
            pass  # standard error is not a file here, or the system has no such signal

    def _edge(self) -> None:
        """The end of a block: waits for the device, writes a BLOCK event, and the times and losses that are ready."""
        if self._sync is not None:
            self._sync()
            if self._step > self._blocks.step:
                self._emit("BLOCK", step=self._step)
        self._blocks.ended(self._step, monotonic_ns())
        if self._events:
            self._write_times()
        if self._losses:
            losses, self._losses = self._losses, []
            self._emit("LOSS", steps=[at for at, _ in losses], values=[float(loss) for _, loss in losses])

    def _write_times(self) -> None:
        """What the device says of the steps of a block: nanoseconds from the end of one to the end of the next."""
        steps, values, last = [], [], self._last_event
        events, self._events = self._events, []
        try:
            for step, event in events:
                if last is not None and event is not None:
                    values.append(round(1e6 * last.elapsed_time(event)))
                    steps.append(step)
                last = event
        except Exception as error:  # whatever a vendor's plug-in raises: training goes on without these times
            self._event = None
            self.note("no_device_times", "%s: %s" % (type(error).__name__, error))
        self._last_event = last
        if steps:
            self._emit("TIMES", steps=steps, values=values)

    def _span_key(self, name: str) -> bytes:
        if name in RESERVED:
            raise ValueError("a span cannot be called %r, which a step has already" % name)
        self._span_keys[name] = key = b",%b:" % json.dumps(name).encode()
        return key

    def _plain_loss(self, step: int, loss: Any) -> float | None:
        """A number that is not a float as one; a tensor is kept for later.

        Where a device runs behind the program, reading any framework's tensor would wait for it.
        """
        if hasattr(loss, "detach"):
            loss = loss.detach()
        elif self._sync is None or isinstance(loss, int):
            return float(loss)
        self._losses.append((step, loss))
        return None

    def _extras(self, loss: float | None) -> bytes:
        """The rarer fields of a step: spans, and a loss that is not finite."""
        parts = [b"%b%d" % pair for pair in self._spans.items()]
        self._spans.clear()
        if loss is not None:
            parts.append(b',"loss":' + _dumps(loss).encode())
        return b"".join(parts)

    def _emit(self, kind: str, at: int | None = None, **fields: Any) -> None:
        if not self._open:
            self.init()
        if self._fd < 0:
            return
        now = monotonic_ns() if at is None else at
        head = '{"k":%s,"rank":%d,"seq":%d,"t":%d' % (json.dumps(kind), self._rank, self._seq, now)
        more = "".join(",%s:%s" % (json.dumps(name), _dumps(value)) for name, value in fields.items())
        self._seq += 1
        self._write((head + more + "}\n").encode())

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[write(self._fd, line) :]
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> OSError:
        reason = "trainmark's probe could not write to %s: %s" % (self._path, error.strerror)
        return OSError(error.errno, reason)


class _Span:
    """Adds the time of a `with` block to the spans of the next step."""

    __slots__ = ("_key", "_spans", "_start")

    def __init__(self, spans: dict[bytes, int], key: bytes) -> None:
        self._spans = spans
        self._key = key

    def __enter__(self) -> None:
        self._start = monotonic_ns()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._spans[self._key] = self._spans.get(self._key, 0) + monotonic_ns() - self._start


class _Phase:
    """Marks a `with` block; the device is idle at both edges, so the times are exact."""

    __slots__ = ("_name", "_recorder")

    def __init__(self, recorder: _Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name

    def __enter__(self) -> None:
        self._recorder._edge()
        self._recorder._emit("PHASE_BEGIN", name=self._name)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # After an error the device may be broken, too: the first error must be the one that is seen.
        if kind is None:
            self._recorder._edge()
        self._recorder._emit("PHASE_END", name=self._name)


def _owned_by_another(path: str) -> bool:
    """Whether a live process that is not this one writes into `path`."""
    owner, _, owned = os.environ.get(OWNER, "").partition(":")
    if owned != path or not owner.isdigit() or int(owner) == os.getpid():
        return False
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _dumps(value: Any) -> str:
    """`value` as JSON: NaN and infinities as strings, a tensor of one element as its number."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else _odd(value)
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (json.dumps(str(key)), _dumps(inner)) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(map(_dumps, value))
    if hasattr(value, "item"):
        return _dumps(value.item())
    raise TypeError("trainmark's probe cannot write %r as JSON" % (value,))


def _odd(value: float) -> str:
    """A number that JSON does not have."""
    return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'


def torch_event(torch: Any, kind: str) -> Callable[[], Any] | None:
    """For `init(event=…)`: events of the device that PyTorch calls `kind` (cuda, npu, mlu, musa, xpu, …)."""
    made = getattr(getattr(torch, kind, None), "Event", None)
    if made is None:
        return None

    def event() -> Any:
        found = made(enable_timing=True)
        found.record()
        return found

    return event


def _torch_memory() -> int | None:
    """Most bytes that PyTorch, or a vendor's plug-in, ever allocated on a device in use."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    found = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    for kind in ([] if found is None else [found.type]) + TORCH_DEVICES:
        device: Any = getattr(torch, kind, None)
        if hasattr(device, "max_memory_allocated") and getattr(device, "is_initialized", bool)():
            return int(device.max_memory_allocated())
    return None


def _peak_memory() -> int | None:
    """Most bytes ever held: what PyTorch allocated on a device in use, else what the process held."""
    held = _torch_memory()
    if held is not None:
        return held
    try:
        # Not `ru_maxrss`: on Linux that begins with what the process held that started this one.
        with open("/proc/self/status", "rb") as status:
            lines = [line for line in status if line.startswith(b"VmHWM:")]
        return int(lines[0].split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        return None


class _Nothing:
    """A `with` block that is not measured."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None


_NOTHING = _Nothing()


def _no_step(samples: int, loss: Any = None) -> None:  # noqa: ARG001
    return None


def _no_call(*_: Any, **__: Any) -> Any:
    return None


def _no_block(name: str) -> Any:  # noqa: ARG001
    return _NOTHING


def _spool() -> str:
    """The file of this process; below a command that trainmark did not split into ranks, its rank names it."""
    folder = os.environ.get("TRAINMARK_SPOOLS")
    own = os.path.join(folder, "rank%d.jsonl" % rank()) if folder else ""
    return os.environ.get("TRAINMARK_SPOOL") or own


_path = _spool()
_recorder = _Recorder(_path, rank())
active = _recorder.active
init = _recorder.init
init_end = _recorder.init_end
resume = _recorder.resume
train_start = _recorder.train_start
epoch_begin = _recorder.epoch_begin
epoch_end = _recorder.epoch_end
step = _recorder.step
span = _recorder.span
phase = _recorder.phase
evaluate = _recorder.evaluate
note = _recorder.note
train_end = _recorder.train_end
finish = _recorder.finish

if _path:
    os.register_at_fork(after_in_child=_recorder.mute)
    if os.environ.get("TRAINMARK_DIAGNOSE"):  # never set in a timed round
        import trainmark_diagnose  # type: ignore[import-not-found]

        globals().update(trainmark_diagnose.calls(_recorder, os.environ["TRAINMARK_DIAGNOSE"], config()["workdir"]))
else:  # a program that runs without trainmark pays nothing
    init = init_end = resume = train_start = epoch_begin = epoch_end = _no_call
    evaluate = note = train_end = finish = _no_call
    step = _no_step
    span = phase = _no_block
