"""Processes on a host are stopped (SIGSTOP) and never continued: only agents and ranks count as signs of life, not what
watches over them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import site
from lab.lab import Lab
from tests.conftest import Cli
from tests.lab.conftest import only_case, soon_clean
from tests.lab.test_faults import ENDLESS, SLOW, agent_pids, ended, running, steps
from trainmark.i18n.speaker import say

__all__ = ["running"]
RELAY = "pyz relay"


def relay_pids(lab: Lab, host: str) -> list[str]:
    return lab.on(host, "pgrep", "-f", RELAY, check=False).stdout.split()


def rank_pid(cli: Cli, host: str) -> str:
    (status,) = cli.runs.glob(f"*/*/round1/attempt1/{host}_*/status.json")
    return str(json.loads(status.read_text())["ranks"][0]["pid"])


@pytest.mark.lab
@pytest.mark.parametrize("who", ["rank", "agent", "all"])
def test_a_frozen_node_is_lost(
    cli: Cli, hosts: Lab, running: Callable[..., subprocess.Popen[str]], pair: Path, who: str
) -> None:
    """The other node is stopped, nothing is left on either, and `resume` finishes."""
    suite = pair.read_text() + "\ndeadlines: {step: 600, total: 3000, start: 600}\n"
    pair.write_text(suite)
    brake = hosts.layout.shared / f"brake-{who}"
    here: dict[str, Any] = {"config": str(hosts.layout.ssh_config), "lost_seconds": 5}
    process = running({**ENDLESS, "BRAKE": str(brake)}, ssh=here)
    pids = {
        "rank": [rank_pid(cli, "node2")],
        "agent": agent_pids(hosts, "node2")[:1],
        "all": [*relay_pids(hosts, "node2"), *agent_pids(hosts, "node2"), rank_pid(cli, "node2")],
    }[who]
    hosts.on("node2", "kill", "-STOP", *pids)
    assert ended(process, 120) == 1
    case = only_case(cli)
    said = "node2: rank 1 was stopped by a signal" if who == "rank" else "node2: no sign of life for"
    assert case["state"] == "LOST" and say(case["reason"]).startswith(said), case["reason"]
    soon_clean(hosts)
    assert [relay_pids(hosts, host) for host in hosts.nodes] == [[], []]
    assert steps(cli, "node2") > 0
    brake.touch()
    cli.process("resume", cli.run_id())
    assert only_case(cli)["state"] == "SUCCEEDED"
    soon_clean(hosts)


@pytest.mark.lab
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_frozen_agent_in_a_container_is_lost(
    cli: Cli, hosts: Lab, running: Callable[..., subprocess.Popen[str]], engine: str
) -> None:
    """Its container goes with it."""
    here: dict[str, Any] = {"config": str(hosts.layout.ssh_config), "lost_seconds": 5}
    process = running(ENDLESS, ssh=here, container=site.container(engine))
    hosts.on("node2", "kill", "-STOP", *agent_pids(hosts, "node2"))
    assert ended(process, 120) == 1
    case = only_case(cli)
    assert case["state"] == "LOST" and say(case["reason"]).startswith("node2: no sign of life for"), case["reason"]
    soon_clean(hosts)


@pytest.mark.lab
def test_a_frozen_relay_costs_nothing(cli: Cli, hosts: Lab, running: Callable[..., subprocess.Popen[str]]) -> None:
    """Another one takes its place and goes on where it stopped; it is not left there."""
    process = running({**SLOW, "STEPS": "150"}, ssh={"config": str(hosts.layout.ssh_config), "lost_seconds": 20})
    hosts.on("node2", "kill", "-STOP", *relay_pids(hosts, "node2"))
    assert ended(process) == 0 and only_case(cli)["state"] == "SUCCEEDED"
    assert steps(cli, "node1") == steps(cli, "node2") == 150
    soon_clean(hosts)
    assert relay_pids(hosts, "node2") == []
