"""Acceptance on a real Slurm: the slow node is named, whoever is killed on the way, and good nodes are not blamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import slowness
from lab.lab import Lab
from lab.layout import HEAD
from tests.conftest import Cli
from tests.faults.conftest import wait_for
from tests.lab.conftest import processes
from tests.lab.test_accept import BURN, LINKS, words
from tests.slurm.conftest import jobs

pytestmark = [pytest.mark.lab, pytest.mark.alone]


@pytest.fixture
def asked(
    four: Lab,
    slurm_site_for: Callable[[Lab, Path], Path],
    make_workload: Callable[..., Path],
    make_suite: Callable[..., Path],
) -> Iterator[tuple[Cli, list[str]]]:
    """The command line of an acceptance of all four nodes; its runs lie where they see them."""
    shared = four.layout.shared / f"accept-{os.getpid()}"
    shared.mkdir()
    make_workload(BURN)
    suite = make_suite("  - thing:none:cpu:1:1:5")
    site = slurm_site_for(four, shared)
    slowness.ahead(four)
    yield Cli(shared), ["accept", "--site", str(site), "--case", str(suite), "--one-at-a-time", "--json"]
    slowness.as_before(four)
    assert jobs(four) == [] and not any(processes(four, host) for host in four.nodes)
    shutil.rmtree(shared)


def test_a_slow_node_is_named_though_the_controller_is_killed(four: Lab, asked: tuple[Cli, list[str]]) -> None:
    cli, argv = asked
    slowness.slow_host(four, "node3", 0.3)
    try:
        killed = cli.start(*argv, "--looks", "1", "--preset", "smoke", "--link-case", LINKS.replace(":2:1:2", ":2:1:1"))
        second = "*/*/round2/attempt1/*/result.json"
        wait_for(lambda: len(list(cli.runs.glob(second))) > 1, 300, process=killed)
        killed.kill()
        killed.communicate()
        found: Any = json.loads(cli("resume", cli.run_id(), "--json", code=1).stdout)
    finally:
        slowness.slow_host(four, "node3", None)
    assert {node for node, word in words(found).items() if word == "bad"} == {"node3"} == set(found["drain"])
    assert "NodeName=node3 State=DRAIN" in found["scontrol"]
    assert len(found["links"]["bandwidth"]) == 6 and len(found["runs"]) == 2, "it went on to the links"
    again = json.loads(cli("accept", "--from", found["runs"][1], "--json", code=1).stdout)
    assert again == found, "the same rounds, the same verdict, from whichever of its runs"


def test_good_nodes_are_not_blamed_and_one_that_is_down_is_untested(four: Lab, asked: tuple[Cli, list[str]]) -> None:
    """Of a partition whose nodes nobody has named: Slurm is asked for them."""
    cli, argv = asked
    site = Path(argv[argv.index("--site") + 1])
    content = json.loads(site.read_text())
    del content["hosts"]
    content["slurm"]["nodes"] = "all"
    site.write_text(json.dumps(content))
    four.on(HEAD, "scontrol", "update", "nodename=node4", "state=down", "reason=broken")
    try:
        found = json.loads(cli(*argv, "--no-links", "--looks", "1", code=None).stdout)
    finally:
        four.on(HEAD, "scontrol", "update", "nodename=node4", "state=resume")
    assert "bad" not in words(found).values() and found["drain"] == []
    assert {node for node, word in words(found).items() if word == "untested"} == {"node4"}
