"""Processes of this machine, named so that a pid used again later is not taken for the old one."""

from __future__ import annotations

import os
import signal
from typing import Any

from trainmark.agent import linux


def boot_id() -> str:
    return linux.boot_id() or ""


def start_ticks(pid: int) -> int | None:
    """When the process began; None when there is none, or only its unread exit code."""
    proc = linux.Proc()
    try:
        fields = proc.stat(pid)
    finally:
        os.close(proc.fd)
    return int(fields[19]) if fields and fields[0] != b"Z" else None


def name(pid: int) -> dict[str, Any]:
    """What tells this process from every other one, as a record may hold it."""
    return {"host": os.uname().nodename, "pid": pid, "start_ticks": start_ticks(pid), "boot_id": boot_id()}


def is_alive(record: Any) -> bool:
    """Whether the process of such a record lives; one of another machine, or none at all, is taken to be gone."""
    if not isinstance(record, dict):
        return False
    same = record.get("boot_id") == boot_id() and record.get("host") == os.uname().nodename
    return same and start_ticks(int(record["pid"])) == record.get("start_ticks")


def wake(record: Any) -> None:
    """Continues a process that was stopped."""
    if is_alive(record):
        os.kill(int(record["pid"]), signal.SIGCONT)
