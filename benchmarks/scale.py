"""A run on a thousand hosts with eight ranks each: what the controller costs. The hosts only speak (see
`lab.fake_hosts`), in a process of their own whose time does not count; everything on the controller's
side is real: plan, run loop, ssh launcher, run directory, report.

Left out is ssh itself, one client process per host: `benchmarks/ssh_hosts.py` measures it on real hosts.
"""

from __future__ import annotations

import os
import resource
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import at_most, show

from lab.fake_hosts import FakeHosts
from trainmark.launch.protocol import REGISTRY
from trainmark.launch.slurm.queue import QueueWatch
from trainmark.launch.ssh.launcher import SshLauncher
from trainmark.plan.records import Plan
from trainmark.report import build
from trainmark.report.show import show as shown
from trainmark.run import planning, session
from trainmark.run.observers import Observer
from trainmark.spec import suite as suites
from trainmark.spec.site import Site
from trainmark.spec.states import JobState

HOSTS, RANKS, STEPS, SECONDS = 1000, 8, 100, 10.0
JOBS = 1000
HOW = (
    f"one round of a case on {HOSTS} made-up hosts with {RANKS} ranks each, {STEPS} steps a rank, {SECONDS:g} s of "
    "heartbeats, events, samples and logs each second, an env.log per rank; without ssh; CPU seconds and most memory "
    "of the controller's process, from the plan to the printed report; squeue is asked about 1 job and about "
    f"{JOBS}, by a program that counts its calls"
)


class Costs:
    """CPU seconds of this process since the last look."""

    def __init__(self) -> None:
        self._at = time.process_time()

    def since(self) -> float:
        now = time.process_time()
        spent, self._at = now - self._at, now
        return spent


def plan(hosts: int, ranks: int) -> Plan:
    names = [f"host{number:04}" for number in range(hosts)]
    site = Site(name="made-up", launcher="ssh", hosts=names)
    loaded = suites.single(f"noop:pytorch:cpu:{hosts}:{ranks}:1", "quick")
    return planning.plan_suite(loaded, site, {}, 1)


def measure(folder: Path, hosts: int = HOSTS, ranks: int = RANKS, steps: int = STEPS, seconds: float = SECONDS) -> Any:
    """What each part cost, and what came out."""
    made_up = FakeHosts([f"host{number:04}" for number in range(hosts)], seconds=seconds, steps=steps)
    costs, begin = Costs(), time.monotonic()
    planned = plan(hosts, ranks)
    spent = {"plan": costs.since()}
    real, REGISTRY.get = REGISTRY.get, lambda *_: SshLauncher(made_up)  # type: ignore[method-assign]
    try:
        run = session.create(planned, folder)
        state = session.drive(run, planned, Observer())
    finally:
        REGISTRY.get = real  # type: ignore[method-assign]
        made_up.close()
    spent["run"] = costs.since()
    report = build.build(run)
    printed = shown(report)
    spent["report"] = costs.since()
    if state is not JobState.SUCCEEDED:
        raise SystemExit(printed)
    throughput = report.cases[0].measurements["throughput"]
    return {
        **spent,
        "wall": time.monotonic() - begin,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "samples_per_s": throughput.value,
        "files": sum(len(files) for _, _, files in os.walk(run.path)),
    }


def squeue_calls(folder: Path, jobs: int, looks: int = 3) -> int:
    """How often squeue is started while so many jobs are watched over so many looks."""
    for name in ("squeue", "sacct"):
        file = folder / name
        file.write_text(f"#!/bin/sh\necho x >> {folder}/{name}.calls\ncat {folder}/{name}.out\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        (folder / f"{name}.calls").write_text("")
    (folder / "squeue.out").write_text("".join(f"{job}|RUNNING|None|N/A|n{job}\n" for job in range(1, jobs + 1)))
    (folder / "sacct.out").write_text("")
    path, os.environ["PATH"] = os.environ["PATH"], f"{folder}:{os.environ['PATH']}"
    try:
        watch = QueueWatch(None)
        for job in range(1, jobs + 1):
            watch.want(str(job))
        for _ in range(looks):
            seen = watch.moment
            watch.hurry()
            deadline = time.monotonic() + 30
            while watch.moment == seen and time.monotonic() < deadline:
                watch.step()
                time.sleep(0.02)
    finally:
        os.environ["PATH"] = path
    return len((folder / "squeue.calls").read_text().splitlines())


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TRAINMARK_CACHE"] = str(folder / "cache")
        found = measure(folder / "runs")
        calls = {jobs: squeue_calls(folder, jobs) for jobs in (1, JOBS)}
    figures = [
        at_most(f"plan for {HOSTS} hosts × {RANKS} ranks", "s", found["plan"], 2),
        at_most("the same run and its report, CPU of the controller", "s", found["run"] + found["report"], 60),
        at_most("the same, largest memory", "MiB", found["mib"], 1024),
        at_most(f"squeue calls for {JOBS} jobs, over those for 1", "calls", float(calls[JOBS] - calls[1]), 0),
    ]
    show("scale", HOW, figures, {**found, "squeue_calls": {str(jobs): count for jobs, count in calls.items()}})


if __name__ == "__main__":
    sys.exit(main())
