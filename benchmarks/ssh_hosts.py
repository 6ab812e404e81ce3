"""What ssh costs a controller: one client process per host, on real hosts of a lab with an sshd each.

Two runs of one round, on few hosts and on many: the difference over the number of hosts is what one more costs. CPU
time of the controller and of its ssh clients, which other work on the machine does not change much; as root.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from figures import at_most, show

from lab.lab import Lab
from lab.layout import Options
from trainmark.launch.protocol import REGISTRY
from trainmark.launch.sites import load_site
from trainmark.launch.ssh.launcher import SshLauncher
from trainmark.run import planning, session
from trainmark.run.observers import Observer
from trainmark.spec import suite as suites
from trainmark.spec.states import JobState

FEW, MANY = 10, 200
# Hosts without a word for so long would be given up; all of them share this machine's cores.
_PATIENCE = 600.0


def measure(lab: Lab, hosts: int, folder: Path) -> dict[str, float]:
    """One round on the first hosts: CPU seconds of this process and of the ssh clients it started."""
    site = load_site(lab.layout.base / "site.yaml", "here")
    site = msgspec.structs.replace(
        site, launcher_options={**site.launcher_options, "connect_seconds": _PATIENCE, "lost_seconds": _PATIENCE}
    )
    loaded = suites.single(f"noop:none:cpu:{hosts}:1:1", "quick")
    plan = planning.plan_suite(loaded, site, {}, 1)
    own, ssh, began = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN), time.monotonic()
    launcher = SshLauncher()
    real, REGISTRY.get = REGISTRY.get, lambda *_: launcher  # type: ignore[method-assign]
    try:
        run = session.create(plan, folder)
        state = session.drive(run, plan, Observer())
    finally:
        REGISTRY.get = real  # type: ignore[method-assign]
        launcher.connections.close()  # a client's time is known when it has ended
    wall = time.monotonic() - began
    if state is not JobState.SUCCEEDED:
        raise SystemExit(f"{hosts} hosts: {state}, see {run.path}")
    return {
        "controller_cpu_s": _cpu(resource.RUSAGE_SELF) - own,
        "ssh_cpu_s": _cpu(resource.RUSAGE_CHILDREN) - ssh,
        "wall_s": wall,
        "open_files": float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    }


def _cpu(who: int) -> float:
    found = resource.getrusage(who)
    return found.ru_utime + found.ru_stime


def main() -> None:
    few, many = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (FEW, MANY)
    name = f"scale{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRAINMARK_CACHE"] = f"{folder}/cache"
        began = time.monotonic()
        lab = Lab.make(Options(name=name, nodes=many, gpus=0))
        up = time.monotonic() - began
        try:
            found: dict[int, Any] = {hosts: measure(lab, hosts, Path(folder) / "runs") for hosts in (few, many)}
        finally:
            lab.down()
    per_host = {
        what: (found[many][what] - found[few][what]) / (many - few) for what in ("controller_cpu_s", "ssh_cpu_s")
    }
    how = (
        f"one round of `noop` on {few} and on {many} lab hosts, each with its own sshd, network and host key, on this "
        "machine; CPU seconds of the controller and of its ssh clients, difference over the number of hosts"
    )
    figures = [
        at_most("ssh client, CPU per host and round with its connection", "s", per_host["ssh_cpu_s"], 0.2),
        at_most("controller, CPU per host and round", "s", per_host["controller_cpu_s"], 0.1),
    ]
    details = {"hosts": {str(hosts): one for hosts, one in found.items()}, "per_host": per_host, "lab_up_s": up}
    show("ssh_hosts", how, figures, details)


if __name__ == "__main__":
    sys.exit(main())
