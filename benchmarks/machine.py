"""What a reader must know to judge figures: the machine, its load, and the versions measured."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import distributions
from pathlib import Path

from harness import HERE, PEERS

OURS = ("trainmark", "torch")
THEIRS = ("torchx", "ReFrame-HPC", "mlperf-logging")


def circumstances() -> dict[str, str]:
    """Taken before a measurement, whose own load is not what a reader asks for."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return {"when": when, "load": load(), "machine": describe(), "versions": versions()}


def describe() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def versions() -> str:
    peers = [str(folder) for folder in PEERS.glob("lib/python*/site-packages")]
    found = {**_versions(peers, THEIRS), **_versions(sys.path, OURS)}
    parts = [f"commit {_commit()}", f"Python {platform.python_version()}"]
    parts += [f"{name} {found.get(name.lower(), 'missing')}" for name in (*OURS, *THEIRS)]
    return ", ".join(parts)


def _commit() -> str:
    """What was measured; results that are being written are no change of it."""
    found = _git("rev-parse", "--short", "HEAD").stdout.strip()
    changed = _git("diff", "--quiet", "HEAD", "--", "src", "benchmarks/*.py", "benchmarks/peers").returncode == 1
    return f"{found or 'unknown'}{', changed' if changed else ''}"


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(HERE.parent), *words], capture_output=True, text=True, check=False)


def _versions(path: list[str], names: tuple[str, ...]) -> dict[str, str]:
    wanted = {name.lower() for name in names}
    named = [(one.metadata["Name"].lower(), one.version) for one in distributions(path=path)]
    return {name: version for name, version in named if name in wanted}
