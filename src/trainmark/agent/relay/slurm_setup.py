"""Makes a host part of a Slurm cluster: facts about it, files to write, daemons to start."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
from typing import Any

from trainmark.agent.linux import Proc
from trainmark.devices.cpu.node import detect

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = ("munged", "slurmd", "slurmctld", "srun")
_SECONDS = 30.0
_KEY = "/etc/munge/munge.key"
_SERVICES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd"}
_LOGS = {"munged": "/var/log/munge/munged.log", "slurmctld": "/var/log/slurmctld.log", "slurmd": "/var/log/slurmd.log"}


def facts(asked: dict[str, Any]) -> dict[str, Any]:
    """Nothing is changed. `gres`: kind → pattern of its device files."""
    found = detect()
    return {
        "hostname": os.uname().nodename.split(".")[0],
        "cpus": len(found["cpu"]["allowed"]),
        "memory_mb": (found["memory_bytes"] or 0) >> 20,
        "node_line": _node_line(),
        "programs": {name: shutil.which(name, path=_PATH) for name in _PROGRAMS},
        "version": _ask("slurmd", "-V"),
        "root": os.getuid() == 0,
        "accounts": {name: _uid(name) for name in ("slurm", "munge")},
        "systemd": os.path.isdir("/run/systemd/system"),
        "cgroups": _cgroups(),
        "munge_key": os.path.exists(_KEY),
        "devices": {kind: sorted(glob.glob(pattern), key=_number) for kind, pattern in asked["gres"].items()},
        "running": [name for name in _SERVICES if _runs(name)],
    }


def put(asked: dict[str, Any]) -> dict[str, Any]:
    """One file or folder, with its owner and mode; a file is there whole or not at all."""
    path, owner = asked["path"], _uid(asked["owner"])
    if owner is None:
        return {"ok": False, "why": "there is no account %s" % asked["owner"]}
    if asked["folder"]:
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        draft = "%s.%d.part" % (path, os.getpid())
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(asked["payload"])
        os.replace(draft, path)
    os.chmod(path, asked["mode"])
    os.chown(path, owner, pwd.getpwuid(owner).pw_gid)
    return {}


def start(asked: dict[str, Any]) -> dict[str, Any]:
    """One daemon, by systemd where that rules, else by itself."""
    name = asked["name"]
    if os.path.isdir("/run/systemd/system"):
        argv = ["systemctl", "restart", _SERVICES[name]]
    elif name == "munged":
        for folder in ("/run/munge", "/var/log/munge", "/var/lib/munge"):
            put({"path": folder, "owner": "munge", "mode": 0o755, "folder": True})
        argv = ["runuser", "-u", "munge", "--", "munged"]
    else:
        argv = [name]
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ, PATH=_PATH),
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip() or "exit code %d" % done.returncode
        return {"ok": False, "why": "%s: %s" % (" ".join(argv), said.splitlines()[-1])}
    return {}


def daemon_state(asked: dict[str, Any]) -> dict[str, Any]:
    """Whether a daemon runs, and the last errors of its log."""
    name = asked["name"]
    try:
        with open(_LOGS[name], "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16384))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    bad = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return {"running": _runs(name), "said": bad[-2:]}


def states(asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Name, state and reason of every node, once the controller knows them."""
    lines = (_ask("sinfo", "-h", "-N", "-o", "%N|%T|%E") or "").splitlines()
    return {"nodes": [line.split("|", 2) for line in lines if line.count("|") >= 2]}


VERBS = {
    "slurm_facts": facts,
    "slurm_put": put,
    "slurm_start": start,
    "slurm_states": states,
    "slurm_daemon": daemon_state,
}


def _node_line() -> str | None:
    """The line of slurm.conf that slurmd prints for this host."""
    said = _ask("slurmd", "-C")
    return said.splitlines()[0] if said else None


def _ask(*argv: str) -> str | None:
    program = shutil.which(argv[0], path=_PATH)
    if program is None:
        return None
    words = [program, *argv[1:]]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() or None


def _cgroups() -> str | None:
    """`v2`, `v1` with the controllers that Slurm needs, or None."""
    with open("/proc/mounts") as file:
        mounts = [line.split() for line in file]
    names = {os.path.basename(fields[1]) for fields in mounts if fields[2] == "cgroup"}
    if {"freezer", "memory", "cpuset"} <= names:
        return "v1"
    return "v2" if any(fields[2] == "cgroup2" and fields[1] == "/sys/fs/cgroup" for fields in mounts) else None


def _uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _runs(name: str) -> bool:
    for pid in Proc().pids():
        try:
            with open("/proc/%d/comm" % pid) as file:
                if file.read().strip() == name:
                    return True
        except OSError:
            continue
    return False


def _number(path: str) -> tuple[int, str]:
    digits = "".join(letter for letter in os.path.basename(path) if letter.isdigit())
    return int(digits or 0), path
