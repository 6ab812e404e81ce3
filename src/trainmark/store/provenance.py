"""What a result must say of where it came from: code, packages, environment. Without secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainmark.agent.secrets import may_keep
from trainmark.devices.cpu import node as host

_GIT_SECONDS = 5.0


def collect(folder: Path | None) -> dict[str, Any]:
    """Everything about the control side; each node writes the same facts of itself beside its results. `folder`: the
    one whose git checkout, if it is in one, is recorded."""
    return {
        "git": None if folder is None else git_state(folder),
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
    return {name: value if may_keep(name, value) else None for name, value in sorted(variables.items())}


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
    try:
        filters = _git(directory, "config", "--name-only", "--get-regexp", _PROGRAMS, allowed=(0, 1)).split("\n")
        if any("=" in name for name in filters):
            return None  # cannot be switched off by its name
        quiet = [word for name in filters if name for word in ("-c", f"{name}=")]
        # Only looks: no lock is taken that somebody else's git would meet, and nothing is computed that is not kept.
        what = ["status", "--porcelain=v2", "--branch", "--untracked-files=no", "--no-ahead-behind", "--no-renames"]
        lines = _git(directory, *quiet, *what, "--ignore-submodules=dirty").splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    head = {line.split()[1]: line.split(maxsplit=2)[2] for line in lines if line.startswith("# branch.")}
    return {
        "commit": head.get("branch.oid"),
        "branch": head.get("branch.head"),
        "dirty": any(not line.startswith("#") for line in lines),
    }


# Programs that git would start for files that seem changed, as the repository's own configuration says.
_PROGRAMS = r"^filter\..*\.(clean|process|smudge|required)$"


def _git(directory: Path, *words: str, allowed: tuple[int, ...] = (0,)) -> str:
    """Asks git without letting the repository start anything: no monitor, no hooks, no filters, no fetching of what a
    partial clone lacks. The repository may be a stranger's that somebody has just unpacked."""
    argv = ["git", "--no-optional-locks", "-C", str(directory), "-c", "core.fsmonitor=false"]
    argv += ["-c", "core.hooksPath=/dev/null", "-c", "core.sshCommand=false", *words]
    env = {**os.environ, "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(argv, env=env, capture_output=True, timeout=_GIT_SECONDS, check=False)
    if done.returncode not in allowed:
        raise subprocess.CalledProcessError(done.returncode, argv)
    return done.stdout.decode(errors="replace")
