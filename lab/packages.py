"""The packages a lab is made of: which are missing, and their installation where that is asked for."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from lab.layout import Options
from trainmark.errors import SiteError

_HOSTS = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ip": "iproute2",
    "nsenter": "util-linux",
    # For a host whose clock is wrong.
    "faketime": "faketime",
    "mpirun": "openmpi-bin",
    # What `trainmark monitor` is tried with, and the compiler of the tests' own NVML.
    "prometheus": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter",
    "cc": "gcc",
}
_SLURM = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sinfo": "slurm-client",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
    # Slurm's own plug-in for MPI looks for it under this name.
    "libpmix.so": "libpmix-dev",
}
_DOCKER = {"dockerd": "docker.io", "runc": "runc", "podman": "podman", "docker-registry": "docker-registry"}
# Programs of the system's administrator are not on everybody's PATH.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOCK = Path("/run/lock/trainmark-lab-install")
_POLICY = Path("/usr/sbin/policy-rc.d")


def missing(options: Options) -> dict[str, str]:
    """Programs that are not there, and the Debian package of each."""
    wanted = {**_HOSTS, **(_SLURM if options.slurm else {}), **(_DOCKER if options.docker else {})}
    return {program: package for program, package in wanted.items() if not _there(program)}


def _there(name: str) -> bool:
    if name.endswith(".so"):
        return any(Path("/usr").glob(f"lib*/{name}")) or any(Path("/usr/lib").glob(f"*/{name}"))
    return shutil.which(name, path=PATH) is not None


def hindrance() -> str | None:
    """Why this process can make no hosts at all, whatever is installed."""
    if os.geteuid() != 0:
        return 'needs root: hosts are namespaces with a network of their own (`sudo "$(command -v python)" -m lab …`)'
    if shutil.which("unshare", path=PATH) is None:
        return "needs Linux with util-linux"
    return None


def need(options: Options, *, install: bool) -> None:
    """All programs are there afterwards, or it is said which are not and how to get them."""
    why = hindrance()
    if why:
        raise SiteError(f"the lab {why}")
    lacking = missing(options)
    if not lacking:
        return
    names = sorted(set(lacking.values()))
    if not install:
        raise SiteError(
            f"the lab lacks {', '.join(sorted(lacking))}; `--install` gets them by apt-get, "
            f"or do it yourself: apt-get install {' '.join(names)}"
        )
    with _LOCK.open("w") as lock:  # two labs may be made at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing(options):
            _install(names)
    lacking = missing(options)
    if lacking:
        raise SiteError(f"installed {', '.join(names)}, and there is still no {', '.join(sorted(lacking))}")


def _install(names: list[str]) -> None:
    if shutil.which("apt-get", path=PATH) is None:
        raise SiteError(f"there is no apt-get here; install by hand what Debian calls {', '.join(names)}")
    made = not _POLICY.exists()
    if made:  # no daemon may start by itself: the hosts start their own
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
    try:
        _apt("update", "-qq")
        _apt("install", "-y", "-qq", "--no-install-recommends", *names)
    finally:
        if made:
            _POLICY.unlink(missing_ok=True)


def _apt(*words: str) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Somebody else may be installing: wait for the lock instead of failing at once.
    argv = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = (done.stdout + done.stderr).strip().splitlines()[-5:]
        raise SiteError(f"apt-get {words[0]} failed: {' / '.join(tail) or 'it said nothing'}")
