"""Jobs of the server on a Slurm site: Slurm is the queue, and its states, reasons and faults are seen in the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import site, slurm
from lab.lab import Lab, wait_for
from lab.layout import HEAD
from tests.lab.test_jobs import check_same
from tests.slurm.conftest import jobs, running
from tests.web.conftest import Person, admin, app, kept, server, visit  # noqa: F401
from tests.web.test_jobs import ended, submit, until
from trainmark.web.server import Server
from trainmark.web.service.rules import Rules, SiteRules

pytestmark = pytest.mark.lab


@pytest.fixture
def tmp_path(shared: Path) -> Path:
    """The server's folder is one that all nodes see."""
    return shared


@pytest.fixture
def named(cluster: Lab, kept: Server) -> Callable[..., str]:  # noqa: F811
    def write(**options: Any) -> str:
        content = site.slurm_content(cluster.layout, options)
        (kept.home.sites / "slurm.yaml").write_text(json.dumps(content))
        return "slurm"

    return write


def state(admin: Person, job: str) -> dict[str, Any]:  # noqa: F811
    found: dict[str, Any] = admin.ask("GET", f"/jobs/{job}", status=200).json()["job"]
    return found


def logs(admin: Person, job: str) -> str:  # noqa: F811
    return str(admin.ask("GET", f"/jobs/{job}/logs", status=200).text)


def test_a_distributed_command(admin: Person, cluster: Lab, named: Callable[..., str]) -> None:  # noqa: F811
    command = (
        "echo worker $DLWS_ROLE_IDX on $(uname -n) in $PWD; ssh worker-1 'echo entered $(uname -n)'; cat ~/hostfile"
    )
    spec = {"command": command, "site": named(), "distributed": True, "nodes": 2, "devices": 2, "time_limit": 300}
    planned = admin.ask("POST", "/jobs/plan", json={"name": "job", **spec, "priority": 150}, status=200).json()
    (asked,) = [line for line in planned["launcher"] if "sbatch" in line]
    assert "--nice=5000" in asked and "--time=7" in asked and "--no-requeue" in asked
    job = submit(admin, **spec)
    found = ended(admin, job)
    text = logs(admin, job)
    assert found["state"] == "SUCCEEDED", (found["reason"], text)
    workers = sorted(line for line in text.splitlines() if line.startswith("worker "))
    assert [line.split(" in ")[0] for line in workers] == ["worker 0 on node1", "worker 1 on node2"]
    assert len({line.split(" in ")[1] for line in workers}) == 2, "each worker has a folder of its own"
    assert text.count("entered node2") == 2 and text.count("node1 slots=2\nnode2 slots=2\n") == 2
    assert jobs(cluster) == []


def test_the_same_job_as_anywhere(admin: Person, named: Callable[..., str]) -> None:  # noqa: F811
    check_same(admin, named())


def test_waiting_says_what_slurm_says(admin: Person, cluster: Lab, named: Callable[..., str]) -> None:  # noqa: F811
    cluster.on(HEAD, "sbatch", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600")
    holder = running(cluster)
    job = submit(admin, command="true", site=named())
    waiting = until(lambda: (lambda one: one if "(Resources)" in one["reason"] else None)(state(admin, job)))
    assert waiting["state"] == "PENDING"
    other = submit(admin, command="true", site=named())
    until(lambda: "Slurm" in state(admin, other)["reason"])
    admin.ask("POST", f"/jobs/{other}/stop", status=202)
    assert ended(admin, other)["state"] == "CANCELLED"
    cluster.on(HEAD, "scancel", holder)
    assert ended(admin, job)["state"] == "SUCCEEDED"


def test_a_preemptible_job_makes_way_and_comes_back(
    admin: Person,  # noqa: F811
    cluster: Lab,
    named: Callable[..., str],
) -> None:
    command = "echo x >> ~/mark; echo going; [ $(wc -l < ~/mark) -gt 1 ] || sleep 600"
    job = submit(admin, command=command, site=named(preemptible=["--partition=spare"]), preemptible=True)
    until(lambda: state(admin, job)["run"] and "going" in logs(admin, job))
    cluster.on(HEAD, "sbatch", "-p", "main", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 2")
    waiting = until(lambda: (lambda one: one if one["state"] == "PENDING" else None)(state(admin, job)), 90.0)
    assert waiting["reason"]
    # Slurm itself waits two minutes before it starts such a job again.
    wait_for(lambda: "BeginTime" in cluster.on(HEAD, "squeue", "-h", "-o", "%r").stdout, "the requeue")
    number = cluster.on(HEAD, "squeue", "-h", "-t", "PD", "-o", "%i").stdout.split()[0]
    cluster.on(HEAD, "scontrol", "update", f"jobid={number}", "starttime=now")
    found = ended(admin, job, 120.0)
    assert found["state"] == "SUCCEEDED", found["reason"]
    admin_file = admin.ask("GET", f"/jobs/{job}/files/work/mark", status=200).text
    assert admin_file == "x\nx\n"
    wait_for(lambda: jobs(cluster) == [], "the end of the other job")


def test_time_limit_and_quality_of_service(admin: Person, kept: Server, named: Callable[..., str]) -> None:  # noqa: F811
    job = submit(admin, command="sleep 600", site=named(), time_limit=2)
    assert ended(admin, job)["state"] == "TIMEOUT"
    spec = {"name": "job", "command": "true", "site": "slurm", "qos": "normal"}
    assert "normal" in admin.ask("POST", "/jobs/plan", json=spec, status=403).json()["detail"]
    kept.rules = Rules(sites={"slurm": SiteRules(qos=["normal"])})
    planned = admin.ask("POST", "/jobs/plan", json=spec, status=200).json()
    assert "--qos=normal" in " ".join(planned["launcher"])


def test_slurmctld_away(admin: Person, cluster: Lab, named: Callable[..., str]) -> None:  # noqa: F811
    """A job that runs goes on; it is not lost while nobody can be asked."""
    job = submit(admin, command="echo going; sleep 8", site=named())
    until(lambda: state(admin, job)["run"] and "going" in logs(admin, job))
    cluster.on(HEAD, "pkill", "-x", "slurmctld")
    wait_for(lambda: cluster.on(HEAD, "pgrep", "-x", "slurmctld", check=False).returncode == 1, "its end")
    assert state(admin, job)["state"] == "RUNNING"
    late = submit(admin, command="true", site="slurm")
    refused = ended(admin, late)
    assert refused["state"] == "FAILED" and "Unable to contact slurm controller" in refused["reason"], refused
    cluster.on(HEAD, "slurmctld")
    assert ended(admin, job)["state"] == "SUCCEEDED"


def test_a_node_without_power(admin: Person, cluster: Lab, named: Callable[..., str]) -> None:  # noqa: F811
    """The attempt is lost, and says which node; the job waits for another, and is finished when there is one."""
    command = "echo x >> mark; echo going; [ $(wc -l < mark) -gt 1 ] || sleep 600"
    job = submit(admin, command=command, site=named(), distributed=True, nodes=2)
    until(lambda: state(admin, job)["state"] == "RUNNING" and logs(admin, job).count("going") == 2)
    cluster.poweroff("node2")
    waiting = until(lambda: (lambda one: one if one["state"] == "PENDING" else None)(state(admin, job)), 150.0)
    assert "Slurm" in waiting["reason"], waiting
    (run,) = (kept_run for kept_run in cluster.layout.shared.glob(f"*/home/runs/*/{waiting['run']}"))
    lost = [line for line in (run / "journal.jsonl").read_text().splitlines() if '"LOST"' in line]
    assert lost and "node2" in lost[0]
    cluster.boot("node2")
    slurm.start(cluster)
    found = ended(admin, job, 150.0)
    assert found["state"] == "SUCCEEDED", found


def test_quotas_are_slurms(admin: Person, cluster: Lab, named: Callable[..., str]) -> None:  # noqa: F811
    site_name = named()
    wanted = {
        "account": "trainers",
        "user": "bench",
        "max_jobs": 2,
        "max_submitted": None,
        "max_minutes": 1500,
        "resources": {"cpu": 4, "gres/gpu": 1},
    }
    assert admin.ask("PUT", f"/sites/{site_name}/quotas", json=wanted, status=200).json() == wanted
    assert wanted in admin.ask("GET", f"/sites/{site_name}/quotas", status=200).json()
    told = cluster.on(
        HEAD, "sacctmgr", "-nP", "show", "assoc", "user=bench", "account=trainers", "format=maxjobs,grptres"
    )
    assert told.stdout.strip() == "2|cpu=4,gres/gpu=1"
    fewer = {**wanted, "max_jobs": None, "resources": {"cpu": 3}}
    assert admin.ask("PUT", f"/sites/{site_name}/quotas", json=fewer, status=200).json() == fewer
    assert "quota.put" in [one["action"] for one in admin.ask("GET", "/audit").json()]
    admin.ask("GET", "/sites/local/quotas", status=400)
    cluster.on(HEAD, "sacctmgr", "-i", "delete", "account", "trainers", check=False)
