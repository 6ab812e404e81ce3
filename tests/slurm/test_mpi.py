"""An MPI program as a second step beside the agents' own, on two nodes of a real Slurm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.lab import Lab, wait_for
from tests.conftest import Cli
from tests.faults import conftest as faults
from tests.lab.conftest import _LEFT, only_case, scraps
from tests.lab.test_mpi import CASE, ranks_by_host

pytestmark = pytest.mark.lab


def left(lab: Lab) -> list[str]:
    """Processes that belong to some attempt."""
    return [line for host in lab.nodes for line in lab.on(host, sys.executable, "-c", _LEFT).stdout.splitlines()]


@pytest.mark.parametrize("asked", [None, {"nodes": 2}], ids=["named nodes", "any nodes"])
def test_two_nodes(cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path], asked: dict[str, int] | None) -> None:
    slurm_cli("run", CASE, "--preset", "smoke", "--site", str(slurm_site(asked)))
    assert only_case(slurm_cli)["state"] == "SUCCEEDED"
    if asked is None:
        assert ranks_by_host(slurm_cli) == {"node1": [0, 1], "node2": [2, 3]}
    assert left(cluster) == []


def strewn(lab: Lab) -> set[tuple[str, str]]:
    return {(node, path) for node in lab.nodes for path in scraps(lab, node)}


@pytest.fixture
def before(cluster: Lab) -> set[tuple[str, str]]:
    """Spools of hosts that earlier tests switched off in the middle of a round: nobody has come back to them."""
    return strewn(cluster)


@pytest.fixture
def going(
    cluster: Lab,
    slurm_cli: Cli,
    slurm_site: Callable[..., Path],
    make_suite: Callable[..., Path],
    before: set[tuple[str, str]],
) -> Iterator[subprocess.Popen[str]]:
    """A long MPI program that has made steps on both nodes."""
    suite = make_suite(f"  - {{case: '{CASE}', set: {{steps: 100000000}}}}", extra="retries: 0")
    process = slurm_cli.start("run", str(suite), "--site", str(slurm_site()))

    def stepping() -> bool:
        files = list(slurm_cli.runs.glob("*/*/round1/attempt1/*/events.jsonl"))
        return len([file for file in files if b"STEP_END" in file.read_bytes()]) == 2

    faults.wait_for(stepping, process=process)
    yield process
    process.terminate()
    process.communicate(timeout=120)


@pytest.mark.parametrize(
    ("host", "pattern"),
    [
        ("node1", "pyz slurm-step"),
        ("node2", "pyz slurm-step"),
        ("node1", "srun --mpi=pmix"),
        ("node2", "^[^ ]+ -u .*allreduce/mpi.py"),
    ],
    ids=["agent of the head", "agent of the other", "srun", "a rank"],
)
def test_killed_anywhere(
    cluster: Lab, before: set[tuple[str, str]], going: subprocess.Popen[str], host: str, pattern: str
) -> None:
    """Ranks are no children of agents here, and are found all the same."""
    assert len([line for line in left(cluster) if line.split()[1] == "-u"]) == 4
    cluster.on(host, "kill", "-9", *cluster.on(host, "pgrep", "-o", "-f", pattern).stdout.split())
    out, err = going.communicate(timeout=240)
    assert going.returncode == 1, out + err
    wait_for(lambda: not left(cluster), "an end of all processes")
    wait_for(lambda: strewn(cluster) <= before, "an end of its files")


def test_the_dry_run_shows_the_step(cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path]) -> None:
    plan = json.loads(slurm_cli("plan", CASE, "--site", str(slurm_site()), "--json").stdout)
    words = plan["cases"][0]["nodes"][0]["ranks"][0]["argv"]
    assert "--mpi=pmix" in words and "--overlap" in words
