"""What goes wrong on a cluster, caused for real: the right state, a reason, and nothing left in the queue."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest

from lab import slurm
from lab.lab import Lab, wait_for
from lab.layout import HEAD
from tests.lab.conftest import scraps
from tests.slurm.conftest import Going, jobs, running

LONG = {"STEPS": "1000", "STEP_SECONDS": "0.1"}
TWO = "  - thing:none:cpu:2:1:1\n  - thing:none:cpu:1:1:1"


def test_controller_killed_then_resumed(cluster: Lab, go: Callable[..., Going]) -> None:
    going = go(env={"STEPS": "60", "STEP_SECONDS": "0.1"})
    going.training()
    job = running(cluster)
    going.process.kill()
    going.end()
    said = going.cli("resume").stdout
    assert "following attempt 1" in said
    assert going.attempts() == [("SUCCEEDED", "all ranks ended well")]
    assert jobs(cluster) == []
    assert job in (going.cli.runs / going.cli.run_id() / "journal.jsonl").read_text()


@pytest.mark.lab
def test_over_its_memory(cluster: Lab, go: Callable[..., Going]) -> None:
    going = go({"memory": "300M"}, env={"HOG": "1", "STEPS": "100", "STEP_SECONDS": "0.2"})
    code, said = going.end()
    ((state, reason),) = going.attempts()
    assert (code, state) == (1, "FAILED") and "memory limit" in reason, said


@pytest.mark.lab
def test_put_back_into_the_queue(cluster: Lab, go: Callable[..., Going]) -> None:
    going = go(env={"STEPS": "40", "STEP_SECONDS": "0.1"}, retries=1)
    going.training()
    job = running(cluster)
    cluster.on(HEAD, "scontrol", "requeue", job)
    wait_for(lambda: "BeginTime" in cluster.on(HEAD, "squeue", "-h", "-o", "%r").stdout, "the requeue")
    cluster.on(HEAD, "scontrol", "update", f"jobid={job}", "starttime=now")
    code, said = going.end()
    first, second = going.attempts()
    assert first[0] == "PREEMPTED" and "put back into the queue" in first[1], said
    assert (code, second[0]) == (0, "SUCCEEDED"), said


@pytest.mark.lab
def test_preempted(cluster: Lab, go: Callable[..., Going]) -> None:
    going = go({"partition": "spare"}, env=LONG)
    going.training()
    cluster.on(HEAD, "sbatch", "-p", "main", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 3")
    code, said = going.end()
    ((state, reason),) = going.attempts()
    assert (code, state) == (1, "PREEMPTED") and "another job took its nodes" in reason, said
    wait_for(lambda: jobs(cluster) == [], "the end of the other job")


@pytest.mark.lab
def test_slurmctld_restarted(cluster: Lab, go: Callable[..., Going]) -> None:
    going = go(env={"STEPS": "80", "STEP_SECONDS": "0.1"})
    going.training()
    # Not by kill -9: it would forget a job that it started since it last wrote its state.
    cluster.on(HEAD, "pkill", "-x", "slurmctld")
    wait_for(lambda: cluster.on(HEAD, "pgrep", "-x", "slurmctld", check=False).returncode == 1, "its end")
    cluster.on(HEAD, "slurmctld")
    code, said = going.end()
    assert (code, going.attempts()) == (0, [("SUCCEEDED", "all ranks ended well")]), said


@pytest.mark.lab
@pytest.mark.parametrize(("host", "asked"), [("node2", {}), ("node1", {"nodes": 2})])
def test_host_powered_off(cluster: Lab, go: Callable[..., Going], host: str, asked: dict[str, int]) -> None:
    """The lost node is named, be it the one with the batch job, and what needs only the other is done there."""
    going = go({"queue_seconds": 60, "lost_seconds": 12, **asked}, env=LONG, cases=TWO)
    going.training(1)
    if not (going.cli.runs / going.cli.run_id() / "thing+none+cpu+2+1+1").exists():
        going.soon()  # the case on one node came first
        wait_for(lambda: going.attempts(1)[-1:] == [("SUCCEEDED", "all ranks ended well")], "the first case")
        going.again()
        going.training(3)
    cluster.poweroff(host)
    wait_for(lambda: going.attempts(0)[-1:] and going.attempts(0)[-1][0] != "RUNNING", "the end of the round")
    going.soon()
    code, said = going.end()
    assert code == 1 and going.attempts(0)[-1][0] == "LOST" and host in going.attempts(0)[-1][1], said
    assert going.attempts(1)[-1][0] == "SUCCEEDED", said


@pytest.mark.lab
def test_a_host_that_comes_back_keeps_nothing(cluster: Lab, go: Callable[..., Going]) -> None:
    """Its spool outlives a power cut. The next run that uses the node clears it, and what had not been shipped is in
    the events of the round that was lost."""
    going = go({"lost_seconds": 12}, env=LONG)
    going.training()
    cluster.poweroff("node2")
    code, said = going.end()
    assert code == 1 and going.attempts()[-1][0] == "LOST", said
    cluster.boot("node2")
    slurm.start(cluster)
    (spool,) = scraps(cluster, "node2")
    held = cluster.on("node2", "cat", f"{spool}/rank1.jsonl").stdout.splitlines()
    lost = going.cli.run_id()
    wait_for(lambda: jobs(cluster) == [], "the end of the lost job", 240)
    other = go(env={"STEPS": "3"})
    code, said = other.end()
    assert code == 0, said
    assert scraps(cluster, "node2") == [] == scraps(cluster, "node1")
    (events,) = (going.cli.runs / lost).glob("*/round1/attempt1/node2_*/events.jsonl")
    kept = [json.loads(line)["seq"] for line in events.read_text().splitlines()]
    assert len(held) > 3 and kept == list(range(len(held))), "each event once"


@pytest.mark.lab
def test_a_controller_that_never_comes_back(cluster: Lab, go: Callable[..., Going]) -> None:
    """The round is brought to its end, the nodes are given back, and the result is there for whoever resumes."""
    going = go({"idle_seconds": 5}, env=LONG)
    going.training()
    going.process.kill()
    going.end()
    going.soon()
    wait_for(lambda: jobs(cluster) == [], "the job to end by itself")
    going.cli("resume")
    assert going.attempts() == [("SUCCEEDED", "all ranks ended well")]


@pytest.mark.lab
def test_slurmd_killed(cluster: Lab, go: Callable[..., Going]) -> None:
    """A step outlives its slurmd, but Slurm gives up the node, and takes the job's end for a failed node."""
    going = go(env=LONG)
    going.training()
    cluster.on("node2", "pkill", "-9", "-x", "slurmd")
    code, said = going.end()
    ((state, reason),) = going.attempts()
    assert (code, state) == (1, "LOST") and "node failed" in reason, said


@pytest.mark.lab
def test_over_its_time(cluster: Lab, go: Callable[..., Going]) -> None:
    """Slurm's limits are whole minutes; an operator may change the end of a job that runs to the second."""
    going = go({"time": "1"}, env={"STEPS": "3000", "STEP_SECONDS": "0.1"})
    going.training()
    cluster.on(HEAD, "scontrol", "update", f"jobid={running(cluster)}", "endtime=now+5")
    code, said = going.end()
    ((state, reason),) = going.attempts()
    assert (code, state) == (1, "TIMEOUT") and "time limit" in reason, said


@pytest.mark.lab
def test_stopped_by_its_user(cluster: Lab, go: Callable[..., Going]) -> None:
    """`stop` returns when nothing is left, and touches nobody else's job."""
    going = go(env=LONG)
    going.training()
    cluster.on(HEAD, "sbatch", "-N1", "-H", "-o", "/dev/null", "--wrap", "sleep 3")
    mine = running(cluster)
    os.kill(going.process.pid, signal.SIGINT)
    code, said = going.end()
    left = jobs(cluster)
    for job in left:
        cluster.on(HEAD, "scancel", job)
    assert code == 130 and len(left) == 1 and left != [mine], said
    assert going.attempts()[0][0] == "CANCELLED"
