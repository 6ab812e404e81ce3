"""Traces of PyTorch's profiler (Chrome's trace format), read into spans."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.spec.columns import Collectives, Trace
from trainmark.store.files import BROKEN

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats

FOLDER = "trace"
SUFFIX = ".json.gz"
# A trace of a few dozen steps; more is not read into memory.
_MOST_BYTES = 4 << 30
_MICRO = 1e-6
_STEP = "ProfilerStep#"
_DATA = ("trainmark:data", "enumerate(DataLoader)#")
# As the profiler of PyTorch marks it.
_OPTIMIZER = "Optimizer.step#"
_PAUSE = "trainmark:phase"
# Libraries of collectives, by how their work on a device, or on threads of their own, is called.
_ON_HOST = ("gloo:", "mpi:", "ucc:")
_ON_DEVICE = ("nccl", "rccl", "hccl", "mccl", "cncl", "xccl")
_PAIRS = ("send", "recv")
_COPIES = ("gpu_memcpy", "gpu_memset")
_GRAPHS = ("cudaGraphLaunch", "hipGraphLaunch")


class _Args(msgspec.Struct):
    correlation: int | None = None
    group: str | None = msgspec.field(default=None, name="Process Group Name")
    collective: str | None = msgspec.field(default=None, name="Collective name")


class _Event(msgspec.Struct):
    ph: str
    name: str = ""
    cat: str = ""
    tid: int | str = 0
    ts: float | str = 0.0
    dur: float = 0.0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _File(msgspec.Struct):
    trace_events: list[_Event] = msgspec.field(name="traceEvents")


_ARGS = msgspec.json.Decoder(_Args, strict=False)


def find(attempt: Path) -> dict[int, Path]:
    """The traces of an attempt, by rank."""
    files = sorted(attempt.glob(f"*/{FOLDER}/rank*{SUFFIX}"))
    numbers = [(file.name.removeprefix("rank").removesuffix(SUFFIX), file) for file in files]
    return {int(number): file for number, file in numbers if number.isdigit()}


def read(path: Path, rank: int, steps: int | None = None) -> Trace | Reason:
    """A rank's trace, or why it cannot be used. `steps`: how many it must have."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            return reason("trace-too-large", file=path.name, gib=_MOST_BYTES >> 30)
        events = msgspec.json.decode(content, type=_File).trace_events
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return reason("trace-unreadable", file=path.name, error=str(error))
    return _trace([event for event in events if event.ph == "X" and isinstance(event.ts, float)], rank, steps)


def _trace(events: list[_Event], rank: int, wanted: int | None) -> Trace | Reason:
    import numpy as np

    marks = [event for event in events if event.cat == "user_annotation" and event.name.startswith(_STEP)]
    if not marks:
        return reason("trace-without-steps", rank=rank)
    zero = min(float(event.ts) for event in marks)
    steps = _spans(sorted(marks, key=lambda event: float(event.ts)), zero)
    if wanted is not None and len(steps) < wanted:
        return reason("few-steps-traced", rank=rank, steps=len(steps), wanted=wanted)
    device = any(event.cat == "kernel" for event in events)
    kinds = _sorted(events, device)
    groups: dict[tuple[str, bool], list[_Event]] = {}
    for event in kinds["communication"]:
        groups.setdefault(_group(event), []).append(event)
    collectives = [Collectives(name, _spans(found, zero), joint) for (name, joint), found in groups.items()]
    launches = np.empty(0)
    if device:
        asked = _asked(events)
        ordered = [*kinds["compute"], *kinds["copies"], *(event for found in groups.values() for event in found)]
        launches = np.array([asked.get(_args(event).correlation or -1, np.nan) for event in ordered])
        launches = (launches - zero) * _MICRO
    return Trace(
        rank=rank,
        steps=steps,
        pauses=_spans(kinds["pauses"], zero),
        data=_spans(kinds["data"], zero),
        compute=_spans(kinds["compute"], zero),
        copies=_spans(kinds["copies"], zero),
        collectives=collectives,
        launches=launches,
        operators=_operators(kinds["operators"], zero, steps),
        graphs=any(event.name in _GRAPHS for event in events),
        optimizer=_optimizer(events, device, zero, steps),
    )


def _optimizer(events: list[_Event], device: bool, zero: float, steps: Floats) -> float:
    """Seconds of the device inside the optimizer's step. The host's own mark says nothing of a device behind it."""
    low, high = zero + float(steps[0, 0]) / _MICRO, zero + float(steps[-1, 1]) / _MICRO
    kind = "gpu_user_annotation" if device else "user_annotation"
    marked = (event for event in events if event.cat == kind and event.name.startswith(_OPTIMIZER))
    return sum(float(event.dur) for event in marked if low <= float(event.ts) <= high) * _MICRO


def _spans(events: list[_Event], zero: float) -> Floats:
    import numpy as np

    begins = np.array([float(event.ts) - zero for event in events])
    lasted = np.array([event.dur for event in events])
    return np.column_stack((begins, begins + lasted)) * _MICRO if events else np.empty((0, 2))


def _sorted(events: list[_Event], device: bool) -> dict[str, list[_Event]]:
    """Events by what they mean here. On a CPU an operator is its own work; elsewhere only kernels are."""
    found: dict[str, list[_Event]] = {
        name: [] for name in ("compute", "communication", "copies", "data", "pauses", "operators")
    }
    for event in events:
        if event.cat in ("user_annotation", "cpu_op") and event.name.startswith(_ON_HOST):
            found["communication"].append(event)
        elif event.cat == "user_annotation" and event.name.startswith(_DATA):
            found["data"].append(event)
        elif event.cat == "user_annotation" and event.name == _PAUSE:
            found["pauses"].append(event)
        elif event.cat == "kernel":
            communicates = event.name.lower().startswith(_ON_DEVICE)
            found["communication" if communicates else "compute"].append(event)
            found["operators"].append(event)
        elif event.cat in _COPIES:
            found["copies"].append(event)
        elif event.cat == "cpu_op" and not device and not event.name.startswith("c10d::"):
            found["compute"].append(event)
            found["operators"].append(event)
    return found


def _args(event: _Event) -> _Args:
    try:
        return _ARGS.decode(event.args)
    except BROKEN:
        return _Args()


def _group(event: _Event) -> tuple[str, bool]:
    """Which calls are counted together, and whether all ranks take part in each."""
    args = _args(event)
    kind = args.collective or event.name.partition("(")[0]
    joint = not any(word in kind.lower() for word in _PAIRS)
    return f"{args.group or ''} {kind}".strip(), joint


def _asked(events: list[_Event]) -> dict[int, float]:
    """When the host asked for the work that has this number."""
    found: dict[int, float] = {}
    for event in events:
        if event.cat in ("cuda_runtime", "cuda_driver", "privateuse1_runtime", "xpu_runtime"):
            number = _args(event).correlation
            if number is not None:
                found[number] = float(event.ts)
    return found


def _operators(events: list[_Event], zero: float, steps: Floats) -> dict[str, tuple[float, int]]:
    """Seconds of each operator in the steps without those it calls: on a thread they lie inside each other."""
    low, high = zero + float(steps[0, 0]) / _MICRO, zero + float(steps[-1, 1]) / _MICRO
    threads: dict[Any, list[_Event]] = {}
    for event in events:
        if low <= float(event.ts) < high:
            threads.setdefault(event.tid, []).append(event)
    found: dict[str, tuple[float, int]] = {}
    for thread in threads.values():
        thread.sort(key=lambda event: (float(event.ts), -event.dur))
        stack: list[tuple[float, str]] = []
        for event in thread:
            begin, end = float(event.ts), float(event.ts) + event.dur
            while stack and stack[-1][0] <= begin:
                stack.pop()
            if stack:
                seconds, count = found[stack[-1][1]]
                found[stack[-1][1]] = seconds - event.dur * _MICRO, count
            seconds, count = found.get(event.name, (0.0, 0))
            found[event.name] = seconds + event.dur * _MICRO, count + 1
            stack.append((end, event.name))
    return found
