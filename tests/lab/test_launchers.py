"""The same suite on this machine, on two hosts over ssh, and on two hosts in containers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import site
from lab.lab import Lab
from tests.conftest import Cli
from tests.lab.conftest import attempt_dirs, only_case, soon_clean

ODD_PROGRAM = """
import os
import trainmark_probe as probe

probe.init(unit="things")
print(os.environ["ODD"])
probe.finish()
"""


def notes(cli: Cli, name: str) -> dict[int, Any]:
    """rank → value of a note, over all nodes of the newest attempt."""
    found = {}
    for file in attempt_dirs(cli)[-1].glob("*/events.jsonl"):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["k"] == "NOTE" and event["name"] == name:
                found[event["rank"]] = event["value"]
    return found


def trains_on_both(cli: Cli, where: Path, case: str, data: Path | str) -> None:
    """DDP over two hosts: every rank ends with the same weights, and each host had the ranks it should."""
    cli("run", case, "--preset", "smoke", "--set", f"data={data}", "--site", str(where))
    assert only_case(cli)["state"] == "SUCCEEDED"
    nproc = int(case.split(":")[4])
    weights = notes(cli, "weights_sha256")
    assert sorted(weights) == list(range(2 * nproc)) and len(set(weights.values())) == 1
    started = {}
    for node in (0, 1):
        (folder,) = attempt_dirs(cli)[-1].glob(f"*_noderank{node}")
        assert folder.name == f"node{node + 1}_noderank{node}"
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        started[folder.name] = sorted(event["rank"] for event in events if event["k"] == "INIT_START")
        assert {event["host"] for event in events if event["k"] == "INIT_START"} == {f"node{node + 1}"}
    assert list(started.values()) == [list(range(nproc)), list(range(nproc, 2 * nproc))]


def test_ssh(cli: Cli, hosts: Lab, digits: Path, site_file: Callable[..., Path]) -> None:
    trains_on_both(cli, site_file(), "mnist:pytorch:cpu:2:1:1", digits)
    soon_clean(hosts)


def test_ssh_and_docker(cli: Cli, hosts: Lab, digits: Path, site_file: Callable[..., Path]) -> None:
    trains_on_both(cli, site_file(container=site.container("docker")), "mnist:pytorch:cpu:2:1:1", digits)
    soon_clean(hosts)


@pytest.mark.lab
def test_ssh_and_podman(cli: Cli, hosts: Lab, digits: Path, site_file: Callable[..., Path]) -> None:
    trains_on_both(cli, site_file(container=site.container("podman")), "mnist:pytorch:cpu:2:1:1", digits)
    soon_clean(hosts)


@pytest.mark.lab
@pytest.mark.parametrize("engine", [None, "docker", "podman"])
def test_resnet50(cli: Cli, hosts: Lab, site_file: Callable[..., Path], engine: str | None) -> None:
    """Two ranks on each host; one where containers are what is tried."""
    more = {"container": site.container(engine)} if engine else {}
    trains_on_both(cli, site_file(**more), f"resnet50:pytorch:cpu:2:{1 if engine else 2}:1", "synthetic")
    soon_clean(hosts)


@pytest.mark.lab
def test_reports_have_the_same_shape(cli: Cli, hosts: Lab, digits: Path, site_file: Callable[..., Path]) -> None:
    options = ("--preset", "smoke", "--set", f"data={digits}")
    cli("run", "mnist:pytorch:cpu:1:2:1", *options)
    here = only_case(cli)
    cli("run", "mnist:pytorch:cpu:2:1:1", *options, "--site", str(site_file()))
    there = only_case(cli)
    assert set(here) == set(there) and set(here["measurements"]) == set(there["measurements"])


def test_a_workload_the_hosts_do_not_see_is_sent(
    cli: Cli, pair: Path, hosts: Lab, site_file: Callable[..., Path]
) -> None:
    cli("run", str(pair), "--site", str(site_file()))
    for number in (0, 1):
        (log,) = attempt_dirs(cli)[-1].glob(f"*/rank{number}.out.log")
        assert log.read_text() == f"host node{number + 1} rank {number} of 2\n"
    soon_clean(hosts)


@pytest.mark.lab
def test_hostile_names(
    cli: Cli, hosts: Lab, make_workload: Any, make_suite: Any, site_file: Callable[..., Path]
) -> None:
    """The work folder on the hosts, values of variables: nothing is read by a shell."""
    make_workload(
        "import os\nimport trainmark_probe as probe\nprobe.init(unit='x')\nprint(os.environ['ODD'])\nprobe.finish()"
    )
    odd = "a 'b' \"c\" $(touch /tmp/oops) `id` \\ \n* ;&|"
    where = site_file(work_dir="/tmp/odd 'work' $(touch oops) \"dir\"", env={"ODD": odd})
    cli("run", str(make_suite("  - thing:none:cpu:2:1:1")), "--site", str(where))
    logs = [file.read_text() for file in attempt_dirs(cli)[-1].glob("*/rank*.out.log")]
    assert logs == [odd + "\n"] * 2
    for host in hosts.nodes:
        assert hosts.on(host, "find", "/tmp", "/root", "-maxdepth", "1", "-name", "oops").stdout == ""
        assert "odd 'work' $(touch oops) \"dir\"" in hosts.on(host, "ls", "/tmp").stdout
