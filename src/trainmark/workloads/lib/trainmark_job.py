"""How every reference program begins and ends, and what it refuses, before any framework is imported."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import trainmark_probe as probe

BAD_INPUT = 2
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "GLOG_v": "3"}
# CPU flags, x86 and Arm, of units that compute in a number format. Without them it is emulated, ~50 times slower.
CPU_UNITS = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16", "svebf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
# When the program began to count, before any framework was imported.
began = time.monotonic()
# Calls that wait for the accelerator, of frameworks other than PyTorch.
waits: list[Callable[[], Any]] = []
# Of the framework that was imported, if it has them: puts an event that times steps into the accelerator's queue; most
# bytes that its allocator ever held.
events: list[Callable[[], Any]] = []
memories: list[Callable[[], int | None]] = []


class InputError(Exception):
    """Something the user can put right; the message names it and the cure, in one line."""


def run(main: Callable[[], None]) -> NoReturn:
    """Run `main`. Bad input is one line on standard error and exit code 2, not a traceback.

    After any other error nothing follows its traceback: what frameworks print while they are taken down would be taken
    for the reason.
    """
    code = 0
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        code = BAD_INPUT
    except SystemExit as error:
        code = _exit_code(error.code)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is written. Taking frameworks down costs time, and a failure there must not spoil the run.
    os._exit(code)


def _exit_code(given: Any) -> int:
    """As Python has it: a text is printed, and means 1."""
    if given is None or isinstance(given, int):
        return int(given or 0)
    print(given, file=sys.stderr)
    return 1


def begin(unit: str, defaults: dict[str, Any]) -> dict[str, Any]:
    """Read the configuration and report the start. Importing a framework after this counts as initialisation."""
    config = probe.config(**defaults)
    # Read by frameworks when they are imported: warnings and worse only, unless the user asks for more.
    for name, level in QUIET.items():
        os.environ.setdefault(name, level)
    config["world"] = int(os.environ.get("WORLD_SIZE", "1"))
    sync = None if config["device"] == "cpu" else synchronise
    probe.init(unit=unit, device=config["device"], sync=sync, world=config["world"], event=_event, memory=_peak_memory)
    return config


def _event() -> Any:
    return events[-1]() if events else None


def _peak_memory() -> int | None:
    return memories[-1]() if memories else None


def synchronise() -> None:
    """Wait for the accelerator. Nothing can run on it before a framework is imported."""
    for wait in waits:
        wait()
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if hasattr(torch, "accelerator"):
        torch.accelerator.synchronize()
    else:
        torch.cuda.synchronize()


def check_dtype(dtype: str, device: str) -> None:
    """Refuse a number format that `device` (cpu, cuda, nvidia, …) would only emulate."""
    if dtype == "tf32" and device not in ("cuda", "nvidia"):
        raise InputError("dtype tf32 is a format of NVIDIA devices; set dtype=fp32")
    if dtype in CPU_UNITS and device == "cpu" and not CPU_UNITS[dtype] & cpu_flags():
        wanted = " or ".join(sorted(CPU_UNITS[dtype]))
        raise InputError(f"this CPU has no {dtype} units ({wanted}) and would emulate them; set dtype=fp32")


def cpu_flags(path: str = "/proc/cpuinfo") -> set[str]:
    """What the first core can do, as Linux names it; empty where that is not known."""
    try:
        text = Path(path).read_text()
    except OSError:
        return set()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()
