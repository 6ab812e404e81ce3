"""The machine's side of a lab: bridge and cables, and the cgroups that engines leave."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from lab import packages
from lab.layout import Layout
from trainmark.errors import SiteError


def ensure_bridge(plan: Layout) -> None:
    ip("link", "add", plan.bridge, "type", "bridge", check=False)
    ip("addr", "replace", f"{plan.gateway}/24", "dev", plan.bridge)
    ip("link", "set", plan.bridge, "up")


def ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, env={"PATH": packages.PATH}, check=False)
    if check and done.returncode:
        raise SiteError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done


def remove_cgroup(folder: Path) -> None:
    """From the leaves up; a process that is just being reaped keeps its group for a moment."""
    for inner, _, _ in os.walk(folder, topdown=False):
        for _ in range(50):
            try:
                Path(inner).rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.05)
