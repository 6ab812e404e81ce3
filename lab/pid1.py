"""The first process of a host: leaves for namespaces of its own, furnishes them, starts sshd, and reaps.

Started by path with the Python of the machine. It says its pid, waits for the word that its cable is plugged in, and
says `ready`. When it is killed, the kernel ends everything in the host.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from trainmark.agent import linux

_NEW = linux.CLONE_NEWNS | linux.CLONE_NEWPID | 0x04000000 | 0x08000000 | 0x40000000  # and UTS, IPC, network
_BIND, _PRIVATE = 1 << 12, 1 << 18
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse")


def main(spec_file: str) -> None:
    spec = json.loads(Path(spec_file).read_text())
    linux.unshare(_NEW)
    pid = os.fork()
    if pid:
        print(pid, flush=True)  # noqa: T201 - the pid as the machine knows it, for whoever started us
        os._exit(0)
    os.setsid()
    if sys.stdin.readline().strip() != "go":
        os._exit(1)
    furnish(spec)
    print("ready", flush=True)  # noqa: T201
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    reap()


def furnish(spec: dict[str, Any]) -> None:
    kept = [(path, os.open(path, os.O_PATH)) for path in spec["keep"]]
    hierarchies = _cgroups()
    linux.mount("none", "/", "none", linux.MS_REC | _PRIVATE)  # private: nothing reaches the machine
    _do("hostname", spec["host"])
    _do("mount", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", "/proc")
    _mount_sys(hierarchies)
    _mount_devices(Path(spec["dev"]), spec["gpus"])
    _do("mount", "--bind", spec["etc"], "/etc")
    for source, target in spec["files"]:
        _do("mount", "--bind", source, target)
    _do("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name in ("sshd", "lock", "mysqld", "munge"):
        (Path("/run") / name).mkdir()
    for source, target in spec["folders"]:
        Path(target).mkdir(parents=True, exist_ok=True)
        _do("mount", "--bind", source, target)
    for path, handle in kept:
        Path(path).mkdir(parents=True, exist_ok=True)
        # By descriptor: the path leads into the host's own folder by now, and mount(8) would follow it.
        linux.mount(f"/proc/self/fd/{handle}", path, "none", _BIND)
        os.close(handle)
    _do("ip", "addr", "add", spec["address"], "dev", "eth0")
    for device in ("lo", "eth0"):
        _do("ip", "link", "set", device, "up")
    os.umask(0o022)
    _do(spec["sshd"], "-f", spec["sshd_config"], "-E", "/var/log/sshd.log")


def _cgroups() -> list[str] | None:
    """The version 1 hierarchies of the machine; None where there is only version 2."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    names = [Path(fields[1]).name for fields in lines if fields[2] == "cgroup"]
    found = [name for name in names if name in _CONTROLLERS]
    return found or (None if any(fields[2] == "cgroup2" for fields in lines) else [])


def _mount_sys(hierarchies: list[str] | None) -> None:
    """/sys shows this host's network; container engines need the cgroups. Of a hybrid only version 1 is taken: crun
    refuses the mixture."""
    _do("mount", "-t", "sysfs", "sysfs", "/sys")
    if hierarchies is None:
        _do("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
        return
    _do("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/sys/fs/cgroup")
    for name in hierarchies:
        (Path("/sys/fs/cgroup") / name).mkdir()
        _do("mount", "-t", "cgroup", "-o", name, "cgroup", f"/sys/fs/cgroup/{name}")


def _mount_devices(new: Path, gpus: int) -> None:
    """A /dev of the host's own. Its GPUs are stand-ins that act as /dev/null: enough to be counted and handed out."""
    _do("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(new))
    for name in _DEVICES:
        if Path("/dev", name).exists():
            (new / name).touch()
            _do("mount", "--bind", f"/dev/{name}", str(new / name))
    for number in range(gpus):
        os.mknod(new / f"fakegpu{number}", 0o020666, os.makedev(1, 3))
        (new / f"fakegpu{number}").chmod(0o666)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        (new / name).symlink_to(f"/proc/self/fd{target}")
    for name in ("pts", "shm", "mqueue"):
        (new / name).mkdir()
    _do("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620,gid=5", "devpts", str(new / "pts"))
    (new / "ptmx").symlink_to("pts/ptmx")
    _do("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(new / "shm"))
    _do("mount", "--move", str(new), "/dev")


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")


def reap() -> None:
    """Until the end of the host. Orphans come to the first process of their namespace."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    while True:
        if signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) == signal.SIGTERM:
            os._exit(0)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    main(sys.argv[1])
