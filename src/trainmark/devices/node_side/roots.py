"""Where the kernel's files are."""

from __future__ import annotations

import os


def sysfs() -> str:
    """`/sys`; another place in a container that has the host's elsewhere, and in tests."""
    return os.environ.get("TRAINMARK_SYS") or "/sys"
