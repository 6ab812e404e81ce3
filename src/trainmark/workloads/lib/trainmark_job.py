"""How every reference program begins and ends, before any framework is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import trainmark_probe as probe

BAD_INPUT = 2
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "GLOG_v": "3"}
# Calls that wait for the accelerator, of frameworks other than PyTorch.
waits: list[Callable[[], Any]] = []


class InputError(Exception):
    """Something the user can put right; the message names it and the cure, in one line."""


def run(main: Callable[[], None]) -> NoReturn:
    """Run `main`. Bad input is one line on standard error and exit code 2, not a traceback."""
    code = 0
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        code = BAD_INPUT
    sys.stdout.flush()
    sys.stderr.flush()
    # All is told and written. Taking frameworks down costs time, and a failure there must not spoil the run.
    os._exit(code)


def begin(unit: str, defaults: dict[str, Any]) -> dict[str, Any]:
    """Read the configuration and tell trainmark that the process lives; frameworks are imported after this."""
    config = probe.config(**defaults)
    # Before a framework is imported: its own news are not the user's, unless asked for.
    for name, level in QUIET.items():
        os.environ.setdefault(name, level)
    config["world"] = int(os.environ.get("WORLD_SIZE", "1"))
    sync = None if config["device"] == "cpu" else synchronise
    probe.init(unit=unit, device=config["device"], sync=sync, world=config["world"])
    return config


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
