"""What a result must say of where it came from: code, packages, environment. Without secrets."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainmark.devices import host
from trainmark.spec.secrets import looks_secret

# Values are kept only for variables that change how training runs; of all others only the name is.
_TELLING = frozenset(("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LANG", "LC_ALL", "TZ", "HOSTNAME"))
# fmt: off
_TELLING_STARTS = (
    "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "MALLOC_", "TCMALLOC_", "GLIBC_", "LD_",
    "CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "UCX_", "FI_", "HIP_", "ROCR_", "HSA_", "ASCEND_", "HCCL_", "MLU_", "XPU_",
    "MUSA_", "MACA_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_", "TF_", "XLA_", "JAX_", "MS_", "GLOG_", "SLURM_",
    "TRAINMARK_", "PYTHON",
)
# fmt: on
_GIT_SECONDS = 5.0


def collect(directory: Path) -> dict[str, Any]:
    """Everything about the control side; each node writes the same facts of itself beside its results."""
    return {
        "git": git_state(directory),
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "packages": packages(sys.path),
        "environment": environment(os.environ),
        "host": os.uname().nodename,
        "user": os.geteuid(),
        "facts": host.detect(),
    }


def environment(variables: Mapping[str, str]) -> dict[str, str | None]:
    """Names of all variables, values of the telling ones. None: a value that is not kept."""
    return {name: value if _may_keep(name, value) else None for name, value in sorted(variables.items())}


def _may_keep(name: str, value: str) -> bool:
    if name not in _TELLING and not name.startswith(_TELLING_STARTS):
        return False
    return not looks_secret(name, value)


def packages(path: list[str]) -> dict[str, str]:
    """Installed packages, from the names of their metadata folders: reading each file takes 50 times as long."""
    found: dict[str, str] = {}
    for folder in path:
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(".dist-info")]
        except OSError:
            continue
        for name in names:
            package, _, version = name[: -len(".dist-info")].rpartition("-")
            found.setdefault(package, version)
    return dict(sorted(found.items()))


def git_state(directory: Path) -> dict[str, Any] | None:
    """Commit and whether tracked files differ from it; None outside a checkout."""
    if not any((parent / ".git").exists() for parent in (directory, *directory.parents)):
        return None
    # Only looks: no lock is taken that somebody else's git would meet, and nothing is computed that is not kept.
    argv = ["git", "--no-optional-locks", "-C", str(directory), "status", "--porcelain=v2", "--branch"]
    argv += ["--untracked-files=no", "--no-ahead-behind", "--no-renames"]
    said = _output(argv, _GIT_SECONDS)
    if said is None:
        return None
    lines = said.decode(errors="replace").splitlines()
    head = {line.split()[1]: line.split(maxsplit=2)[2] for line in lines if line.startswith("# branch.")}
    return {
        "commit": head.get("branch.oid"),
        "branch": head.get("branch.head"),
        "dirty": any(not line.startswith("#") for line in lines),
    }


def _output(argv: list[str], seconds: float) -> bytes | None:
    """What a program prints, or None if it fails or is late. (`subprocess` would cost more than git does.)"""
    source, sink = os.pipe()
    deadline = time.monotonic() + seconds
    try:
        null = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, sink, 1), null])
    except OSError:
        os.close(source)
        os.close(sink)
        return None
    os.close(sink)
    parts: list[bytes] = []
    while select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(source, 65536)
        if not part:
            break
        parts.append(part)
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(source)
    _, status = os.waitpid(pid, 0)
    return b"".join(parts) if status == 0 else None
