"""The suite that runs on this machine and over ssh, on two nodes of a real Slurm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from tests.conftest import Cli
from tests.lab.conftest import only_case
from tests.lab.test_launchers import trains_on_both
from tests.workloads.conftest import write_digits


def test_mnist_on_two_nodes(cluster: Lab, slurm_cli: Cli, shared: Path, slurm_site: Callable[..., Path]) -> None:
    (shared / "digits").mkdir()
    digits = write_digits(shared / "digits")
    trains_on_both(slurm_cli, slurm_site(), "mnist:pytorch:cpu:2:1:1", digits)


@pytest.mark.lab
def test_resnet50_on_two_nodes(cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path]) -> None:
    trains_on_both(slurm_cli, slurm_site(), "resnet50:pytorch:cpu:2:1:1", "synthetic")


@pytest.mark.lab
@pytest.mark.parametrize("allocation", ["block", "round"])
def test_nodes_that_slurm_chooses(
    cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path], shared: Path, allocation: str
) -> None:
    """No host is named: the plan's stand-ins get the names of the nodes that were given. Two rounds, two jobs."""
    where = str(slurm_site({"nodes": 2, "allocation": allocation}))
    case = "mnist:pytorch:cpu:2:1:2"
    (shared / "digits").mkdir()
    data = write_digits(shared / "digits")
    slurm_cli("run", case, "--preset", "smoke", "--set", f"data={data}", "--site", where)
    assert only_case(slurm_cli)["state"] == "SUCCEEDED"
    run = slurm_cli.runs / slurm_cli.run_id()
    hosts = [json.loads(file.read_text())["host"] for file in sorted(run.glob("*/round1/attempt1/*/agent.json"))]
    assert hosts == ["node1", "node2"]
    asked = {json.loads(file.read_text())["job"] for file in run.glob("slurm/*/job.json")}
    assert len(asked) == 2
