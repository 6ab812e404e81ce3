"""`doctor` on a real Slurm: the nodes tell of their health by a job of a moment, and no job is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from tests.conftest import Cli
from tests.slurm.conftest import jobs

pytestmark = pytest.mark.lab


def test_health_of_nodes(cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path], shared: Path) -> None:
    cluster.on("node2", "ip", "link", "set", "eth0", "mtu", "1400")
    try:
        found = slurm_cli.json("doctor", "--site", str(slurm_site()))
    finally:
        cluster.on("node2", "ip", "link", "set", "eth0", "mtu", "1500")
    assert {one["host"] for one in found if one["code"] == "mount"} == {"node1", "node2"}
    assert {one["host"] for one in found if one["code"] == "nodes-differ"} == {"node1", "node2"}
    assert jobs(cluster) == [] and not list(cluster.layout.shared.glob("**/.trainmark-*"))
    assert shared.is_dir()
