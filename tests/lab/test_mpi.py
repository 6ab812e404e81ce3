"""Ranks that a launcher starts on two real hosts: mpirun, and horovodrun in its way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import site
from lab.lab import Lab
from tests.conftest import Cli
from tests.faults.conftest import wait_for
from tests.lab.conftest import attempt_dirs, only_case, scraps, soon_clean

CASE = "allreduce:mpi:cpu:2:2:1"


def ranks_by_host(cli: Cli) -> dict[str, list[int]]:
    """Which ranks said they began on which host, from the events that each node's own agent has kept."""
    found: dict[str, list[int]] = {}
    for folder in sorted(attempt_dirs(cli)[-1].glob("*_noderank*")):
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        begun = [event for event in events if event["k"] == "INIT_START"]
        assert {event["host"] for event in begun} == {folder.name.partition("_")[0]}
        for event in begun:
            found.setdefault(event["host"], []).append(event["rank"])
    return {host: sorted(ranks) for host, ranks in found.items()}


def test_mpirun(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    cli("run", CASE, "--preset", "smoke", "--site", str(site_file()))
    case = only_case(cli)
    assert case["state"] == "SUCCEEDED" and case["measurements"]
    assert ranks_by_host(cli) == {"node1": [0, 1], "node2": [2, 3]}
    for host, ranks in (("node1", (0, 1)), ("node2", (2, 3))):
        for rank in ranks:
            (log,) = attempt_dirs(cli)[-1].glob(f"{host}_*/rank{rank}/env.log")
            assert f"OMPI_COMM_WORLD_RANK={rank}\n" in log.read_text()
    soon_clean(hosts)


@pytest.mark.usefixtures("lab")  # for its packages
def test_mpirun_on_this_machine(cli: Cli) -> None:
    cli("run", "allreduce:mpi:cpu:1:2:1", "--preset", "smoke")
    assert only_case(cli)["state"] == "SUCCEEDED"
    (node,) = attempt_dirs(cli)[-1].glob("*/node.json")
    token = json.loads(node.read_text())["token"]
    assert not [place for top in ("/tmp", "/dev/shm") for place in Path(top).glob(f"trainmark-{token}*")]


@pytest.fixture
def going(
    cli: Cli, hosts: Lab, site_file: Callable[..., Path], make_suite: Callable[..., Path]
) -> Iterator[subprocess.Popen[str]]:
    """A long MPI program that has made steps on both hosts."""
    suite = make_suite(f"  - {{case: '{CASE}', set: {{steps: 100000000}}}}", extra="retries: 0")
    where = site_file(ssh={"config": str(hosts.layout.ssh_config), "lost_seconds": 10})
    process = cli.start("run", str(suite), "--site", str(where))

    def stepping() -> bool:
        files = list(cli.runs.glob("*/*/round1/attempt1/*/events.jsonl"))
        return len([file for file in files if b"STEP_END" in file.read_bytes()]) == 2

    wait_for(stepping, process=process)
    yield process
    process.kill()
    process.communicate()


def kill(lab: Lab, host: str, *pattern: str) -> None:
    pids = lab.on(host, "pgrep", "-o", *pattern).stdout.split()
    lab.on(host, "kill", "-9", *pids)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("host", "pattern"),
    [
        ("node1", ("-f", "trainmark-node.*node.json")),
        ("node2", ("-f", "trainmark-node.*node.json")),
        ("node1", ("-x", "mpirun")),
        ("node2", ("-x", "orted")),
        ("node2", ("-f", "^[^ ]+ -u .*allreduce/mpi.py")),
        ("node1", ("-f", "pyz mpi-head ")),
        ("node2", ("-f", "pyz mpi-member ")),
    ],
    ids=["agent of the head", "agent of the other", "mpirun", "orted", "a rank", "head", "member"],
)
def test_killed_anywhere(cli: Cli, hosts: Lab, going: Any, host: str, pattern: tuple[str, ...]) -> None:
    kill(hosts, host, *pattern)
    out, err = going.communicate(timeout=240)
    assert going.returncode == 1, out + err
    soon_clean(hosts)


@pytest.mark.lab
def test_killed_with_its_controller(cli: Cli, hosts: Lab, going: Any) -> None:
    """Nobody is left to clear up but the agents themselves."""
    going.kill()
    kill(hosts, "node1", "-f", "trainmark-node.*node.json")
    wait_for(lambda: not hosts.on("node2", "pgrep", "-f", "allreduce/mpi.py", check=False).stdout)
    wait_for(lambda: not hosts.on("node1", "pgrep", "-f", "allreduce/mpi.py|mpirun", check=False).stdout)
    cli("stop", cli.run_id())
    soon_clean(hosts)


@pytest.mark.lab
def test_a_host_that_comes_back_keeps_nothing(cli: Cli, hosts: Lab, going: Any) -> None:
    """What ranks share on their node lies outside the attempt's folder, and is cleared with it."""
    hosts.poweroff("node2")
    out, err = going.communicate(timeout=240)
    assert going.returncode == 1, out + err
    hosts.boot("node2")
    assert scraps(hosts, "node2")
    cli("stop", cli.run_id())
    soon_clean(hosts)


HOROVOD = """\
import numpy
import trainmark_probe as probe
from mpi4py import MPI

probe.init(unit="things")
total = numpy.zeros(4)
probe.init_end()
probe.train_start()
for _ in range(5):
    MPI.COMM_WORLD.Allreduce(numpy.ones(4), total)
    probe.step(4, loss=1.0 / total[0])
probe.train_end()
probe.finish()
"""
HOROVOD_YAML = """\
schema: 1
name: {name}
title: made for a test
unit: things
entry: {{horovod: main.py}}
parameters: {{}}
presets: {{smoke: {{}}}}
deadlines: {{start: 60, step: 20, total: 120, stop: 2}}
"""


@pytest.mark.lab
@pytest.mark.parametrize("starter", ["horovodrun", "mpirun"])
def test_horovod(
    cli: Cli, hosts: Lab, site_file: Callable[..., Path], make_workload: Any, make_suite: Any, starter: str
) -> None:
    folder = hosts.layout.shared / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "horovodrun").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lab.horovodrun "$@"\n')
    (folder / "horovodrun").chmod(0o755)
    make_workload(HOROVOD, yaml=HOROVOD_YAML)
    suite = make_suite("  - thing:horovod:cpu:2:2:1", extra="retries: 0")
    where = site_file(env={"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin"}, mpi_starter=starter)
    cli("run", str(suite), "--site", str(where))
    assert only_case(cli)["state"] == "SUCCEEDED"
    assert ranks_by_host(cli) == {"node1": [0, 1], "node2": [2, 3]}
    soon_clean(hosts)


@pytest.mark.lab
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_mpirun_in_containers(cli: Cli, hosts: Lab, site_file: Callable[..., Path], engine: str) -> None:
    """Head, doors and ranks are all inside. An image without mpirun is found out before anything is started."""
    container = site.container(engine)
    said = cli("run", CASE, "--preset", "smoke", "--site", str(site_file(container=container)), code=3).stderr
    assert "mpirun  BAD  not in the container" in said and not list(cli.runs.glob("*/*/round1"))
    # The lab's image has /usr of the machine; what Debian's mpirun is, and its settings, lies in /etc.
    container["mounts"] += ["/etc/alternatives:/etc/alternatives:ro", "/etc/openmpi:/etc/openmpi:ro"]
    cli("run", CASE, "--preset", "smoke", "--site", str(site_file(container=container)))
    assert only_case(cli)["state"] == "SUCCEEDED"
    assert ranks_by_host(cli) == {"node1": [0, 1], "node2": [2, 3]}
    soon_clean(hosts)
