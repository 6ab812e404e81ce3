"""Processes of this machine, named so that a pid used again later is not taken for the old one."""

from __future__ import annotations

import os

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
