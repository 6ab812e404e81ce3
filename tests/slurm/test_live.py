"""`trainmark compare --live` where rounds are not on this machine: over ssh, on a Slurm, and between the two."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import site
from lab.lab import Lab
from tests.conftest import Cli
from tests.slurm.conftest import jobs
from trainmark.store import journal

CASE = "noop:none:cpu:1:1:2@seconds=0.05,steps=20"


def in_turns(cli: Cli, found: Any, blocks: int) -> None:
    """Both sides have all their rounds, and no block begins before both had their turn in the one before."""
    (case,) = found["cases"]
    assert "paired" in case["verdict"]["method"]["code"] and case["notes"][0]["code"] == "taken-in-turns"
    assert (case["verdict"]["n_a"], case["verdict"]["n_b"]) == (blocks, blocks)
    begun = sorted(
        (one.wall, side)
        for side in "ab"
        for one in journal.read(cli.runs / found[side]).records
        if one.k == journal.ATTEMPT
    )
    assert [{side for _, side in begun[block : block + 2]} for block in range(0, 2 * blocks, 2)] == [
        {"a", "b"}
    ] * blocks


@pytest.mark.lab
def test_over_ssh_and_on_slurm(cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path], shared: Path) -> None:
    queued, over_ssh = str(slurm_site()), shared / "ssh.yaml"
    over_ssh.write_text(json.dumps(site.content(cluster.layout)))
    live = ("compare", "--live", CASE, "--rounds", "2")
    slower = slurm_cli.json(*live, "--set-b", "seconds=0.4", "--site", str(over_ssh), code=None)
    in_turns(slurm_cli, slower, 2)
    assert 0.1 < slower["cases"][0]["verdict"]["ratio"] < 0.2 and slower["notes"] == []
    queue = slurm_cli.json(*live, CASE, "--site", queued, code=None)
    in_turns(slurm_cli, queue, 2)
    both = slurm_cli.json(*live, "--site", str(over_ssh), "--site-b", queued, code=None)
    in_turns(slurm_cli, both, 2)
    changed = {one["what"]: (one["before"], one["after"]) for one in (note["arguments"] for note in both["notes"])}
    assert changed["launcher"] == ("ssh", "slurm"), changed
    assert jobs(cluster) == []
