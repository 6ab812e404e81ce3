"""Waiting for nodes, and what others decide about them: queues, scancel, an allocation that is there already."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.lab import Lab, wait_for
from lab.layout import HEAD
from tests.conftest import TRAINMARK, Cli
from tests.slurm.conftest import Going, jobs, running
from trainmark import api
from trainmark.i18n.speaker import say

LONG = {"STEPS": "1000", "STEP_SECONDS": "0.1"}
TWO = "  - thing:none:cpu:2:1:1\n  - thing:none:cpu:1:1:1"


def test_scancel_is_obeyed(cluster: Lab, go: Callable[..., Going]) -> None:
    """Whoever cancels the job of a run means the run: nothing is submitted again until `resume`."""
    going = go(env=LONG, cases=TWO, retries=2)
    going.training(1)
    cluster.on(HEAD, "scancel", running(cluster))
    code, said = going.end()
    tried = sorted([*going.attempts(0), *going.attempts(1)])
    assert code == 130 and len(tried) == 1, said
    assert tried[0][0] == "CANCELLED" and "cancelled by root" in tried[0][1], said
    assert "trainmark resume" in said and going.cli("status").stdout.split()[2] == "CANCELLED"
    assert jobs(cluster) == []
    going.soon()
    going.cli("resume")
    assert [one[-1][0] for one in (going.attempts(0), going.attempts(1))] == ["SUCCEEDED", "SUCCEEDED"]


@pytest.mark.lab
def test_scancel_of_a_waiting_job(cluster: Lab, go: Callable[..., Going]) -> None:
    """While it waits it says so, with Slurm's reason; cancelled by then, it is not asked for again."""
    cluster.on(HEAD, "sbatch", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600")
    holder = running(cluster)
    going = go(retries=2)
    waiting = "(Resources)"
    wait_for(lambda: _status(going)["what"].endswith(waiting), "the reason of the queue")
    assert _status(going)["state"] == "PENDING" and "left" not in _status(going)["what"]
    run = api.open(going.cli.run_id(), runs=going.cli.runs)
    assert run.state == "PENDING" == run.status().rounds[0].state
    assert waiting in going.cli("top", "--once").stdout
    mine = next(job for job in jobs(cluster) if job != holder)
    cluster.on(HEAD, "scancel", mine)
    code, said = going.end()
    cluster.on(HEAD, "scancel", holder)
    assert (code, [state for state, _ in going.attempts()]) == (130, ["CANCELLED"]), said
    assert f"PENDING: Slurm job {mine}" in said or f"waiting: Slurm job {mine}" in said
    assert "  starting" not in said and "0 s left" not in said
    wait_for(lambda: jobs(cluster) == [], "an empty queue")


def _status(going: Going) -> dict[str, Any]:
    if not list(going.cli.runs.glob("*/journal.jsonl")):
        return {"what": ""}
    found: dict[str, Any] = json.loads(going.cli("status", "--json").stdout)["rounds"][0]
    return found


@pytest.mark.lab
@pytest.mark.parametrize(("command", "asked"), [("salloc", {"nodes": 2}), ("sbatch", {"nodes": None})])
def test_inside_an_allocation(
    cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path], command: str, asked: dict[str, Any]
) -> None:
    """Its nodes are used, no other job is asked for, and it is still there afterwards."""
    where = slurm_site({**asked, "conf": None})
    content = json.loads(where.read_text())
    content.pop("hosts", None)
    where.write_text(json.dumps(content))
    shown = slurm_cli.folder / "after.txt"
    script = slurm_cli.folder / "inside.sh"
    script.write_text(
        f"#!/bin/bash\ncd {slurm_cli.folder}\nexport TRAINMARK_RUNS={slurm_cli.runs}\n"
        f"{' '.join(TRAINMARK)} run noop:none:cpu:2:1:2 --site {where} > said.txt 2>&1\necho $? > code.txt\n"
        f"squeue -h -o '%i %T' > {shown}\n"
    )
    script.chmod(0o755)
    options = ["-N2", "--exclusive", "--mem=0", "-p", "main"]
    more = [str(script)] if command == "salloc" else ["--wait", "-o", "/dev/null", str(script)]
    cluster.on(HEAD, command, *options, *more)
    said = (slurm_cli.folder / "said.txt").read_text()
    assert (slurm_cli.folder / "code.txt").read_text().strip() == "0", said
    assert len(shown.read_text().splitlines()) == 1 and "RUNNING" in shown.read_text(), "no other job, and it is there"
    (job,) = shown.read_text().split()[:1]
    report = json.loads(slurm_cli("report", slurm_cli.run_id(), "--format", "json").stdout)
    assert [one["hosts"] for one in report["cases"][0]["runs"]] == [["node1", "node2"]] * 2
    assert f"slurm://{content['name']}/{job}/" in (slurm_cli.runs / slurm_cli.run_id() / "journal.jsonl").read_text()


@pytest.mark.lab
def test_the_names_of_chosen_nodes(cluster: Lab, go: Callable[..., Going]) -> None:
    """Slurm chose them; the results say which they were."""
    going = go({"nodes": 2}, cases="  - thing:none:cpu:2:1:2")
    code, said = going.end()
    assert code == 0, said
    (case,) = json.loads(going.cli("report", going.cli.run_id(), "--format", "json").stdout)["cases"]
    assert [one["hosts"] for one in case["runs"]] == [["node1", "node2"]] * 2
    assert "node1–node2" in say(case["variance_level"]), case["variance_level"]


@pytest.mark.lab
def test_a_node_list_and_a_partition(cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path]) -> None:
    for nodes in ("node[1-2]", "all"):
        where = slurm_site({"nodes": nodes})
        shown = slurm_cli("plan", "noop:none:cpu:2:1:1", "--site", str(where)).stdout
        assert "node1" in shown and "--nodelist=node1,node2" in shown, shown


OLD = """#!/bin/sh
if [ "$1" = -c ]; then
    code=$2; shift 2
    exec python3 -c 'import sys
sys.version_info, sys.version = (3, 6, 8), "3.6.8 (old)"
exec(sys.argv.pop(1))' "$code" "$@"
fi
exec python3 "$@"
"""


@pytest.mark.lab
def test_nodes_that_cannot_be_used(
    cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path], tmp_path: Path
) -> None:
    """Refused before anything is submitted, with the cure; unchecked, the job says why in a log that is shown."""
    python = slurm_cli.folder / "old-python"
    python.write_text(OLD)
    python.chmod(0o755)
    old = slurm_site(node_python=str(python))
    said = slurm_cli("run", "noop:none:cpu:2:1:1", "--site", str(old), code=3)
    assert "is 3.6.8, 3.7 is needed" in said.stderr and "set `node_python`" in said.stderr, said.stderr
    content = json.loads(old.read_text())
    old.write_text(json.dumps({**content, "node_python": "/no/python"}))
    said = slurm_cli("run", "noop:none:cpu:2:1:1", "--site", str(old), code=3)
    assert "there is no /no/python on the nodes" in said.stderr
    old.write_text(json.dumps({**content, "node_python": "python3", "shared_dir": str(tmp_path)}))
    said = slurm_cli("run", "noop:none:cpu:2:1:1", "--site", str(old), "--runs", str(tmp_path / "runs"), code=3)
    assert "node1" in said.stderr and "is not seen there" in said.stderr and "mount shared_dir" in said.stderr
    wait_for(lambda: jobs(cluster) == [], "the end of the looks")
    assert not slurm_cli.runs.exists() and not (tmp_path / "runs").exists()
    old.write_text(json.dumps(content))
    said = slurm_cli("run", "noop:none:cpu:2:1:1", "--site", str(old), "--no-check", code=1)
    assert "is Python 3.6.8; the node side needs 3.7: set node_python" in said.stdout
    assert "attempt 2" not in said.stdout, "another attempt would end the same way"
    assert "the node side needs 3.7" in slurm_cli("logs", "--what", "job").stdout


def _pid(lab: Lab, going: Going, who: str) -> str:
    """On the first node, where the batch job is, too."""
    if who in ("batch job", "srun"):
        pattern = {"batch job": "pyz slurm-job", "srun": "^srun .*slurm-step"}[who]
        return lab.on("node1", "pgrep", "-o", "-f", pattern).stdout.strip()
    statuses = going.cli.runs.glob("*/*/round1/attempt1/node1_*/status.json")
    newest = max(statuses, key=lambda file: file.stat().st_mtime)
    if who == "agent":
        return str(json.loads(newest.with_name("agent.json").read_text())["pid"])
    return str(json.loads(newest.read_text())["ranks"][0]["pid"])


@pytest.mark.lab
@pytest.mark.parametrize("who", ["rank", "agent", "batch job", "srun"])
def test_a_frozen_process(cluster: Lab, go: Callable[..., Going], who: str) -> None:
    """An agent or a rank is lost; a frozen batch job or srun costs no result, and another job does the rest."""
    going = go({"lost_seconds": 8}, env={"STEPS": "80", "STEP_SECONDS": "0.1"}, cases=TWO)
    going.training(1)
    cluster.on("node1", "kill", "-STOP", _pid(cluster, going, who))
    code, said = going.end()
    states = sorted(state for state, _ in [*going.attempts(0), *going.attempts(1)])
    if who in ("batch job", "srun"):
        assert (code, states) == (0, ["SUCCEEDED", "SUCCEEDED"]), said
        return
    assert (code, states) == (1, ["LOST", "SUCCEEDED"]), said
    going.cli("resume")
    assert [one[-1][0] for one in (going.attempts(0), going.attempts(1))] == ["SUCCEEDED", "SUCCEEDED"]
