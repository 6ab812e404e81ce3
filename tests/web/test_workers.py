"""The workers of a command: what a dry run shows of them, and on this machine what the command really finds."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest

from tests.web.conftest import Person
from tests.web.test_jobs import ended, submit
from trainmark.web.server import Server

FABRIC = {
    "n1": {"address": "192.168.3.6", "device_ips": ["192.168.10.1", "192.168.20.1"], "ib_address": "10.9.0.1"},
    "n2": {"address": "192.168.3.2", "device_ips": ["192.168.10.3", "192.168.20.3"], "ib_address": "10.9.0.2"},
}


def plan(admin: Person, status: int = 200, **spec: Any) -> Any:
    return admin.ask("POST", "/jobs/plan", json={"name": "job", **spec}, status=status).json()


def test_a_dry_run_shows_all_that_workers_get(admin: Person, server: Server) -> None:
    site = {"schema": 1, "launcher": "ssh", "hosts": ["n1", "n2"], "fabric": FABRIC, "ssh": {"user": "train"}}
    (server.home.sites / "ascend.yaml").write_text(json.dumps(site))
    asked = {"site": "ascend", "device": "ascend", "nodes": 2, "devices": 2, "distributed": True}
    found = plan(admin, command="./run_8p.sh", env={"COLOUR": "blue"}, **asked)
    first, second = found["cases"][0]["nodes"]
    assert (first["host"], second["host"]) == ("n1", "n2")
    env = second["ranks"][0]["env"]
    assert second["ranks"][0]["argv"] == ["%AGENT%", "worker", "1", "%PORT1%", "%PORT2%", "n1", "n2"]
    wanted = {
        "DLWS_USER_NAME": "admin",
        "DLWS_NUM_WORKER": "2",
        "DLWS_NUM_GPU_PER_WORKER": "2",
        "DLWS_ROLE_IDX": "1",
        "DLWS_IS_NPU_JOB": "true",
        "DLWS_SD_worker0_SSH_PORT": "%PORT1%",
        "DLWS_SD_worker0_IB_IP": "10.9.0.1",
        "DLWS_SD_worker1_IP": "%ADDRESS:n2%",
        "DLWS_SD_SELF_IB_IP": "10.9.0.2",
        "HOME": "%DIR%/home",
        "MINDSPORE_HCCL_CONFIG_PATH": "%DIR%/home/hccl.json",
    }
    assert {name: env.get(name) for name in wanted} == wanted
    assert found["cases"][0]["env"]["COLOUR"] == "blue"
    workers = found["workers"]
    assert workers["host_file"] == "n1 slots=2\nn2 slots=2\n"
    assert workers["ib_config"] == "10.9.0.1 slots=2\n10.9.0.2 slots=2\n"
    table = json.loads(workers["rank_tables"]["hccl.json"])["group_list"][0]
    assert (table["device_num"], table["server_num"]) == ("4", "2")
    assert table["instance_list"][3] == {
        "devices": [{"device_id": "1", "device_ip": "192.168.20.3"}],
        "rank_id": "3",
        "server_id": "192.168.3.2",
    }
    assert found["needs"] == {"n1": 1, "n2": 1}
    assert "rank table" in plan(admin, 400, command="x", **{**asked, "devices": 3})["detail"]
    assert "distributed" in plan(admin, 400, command="x", **{**asked, "distributed": False})["detail"]


def test_the_same_plan_is_run(admin: Person, kept: Server) -> None:
    """What a dry run with a seed showed is in the manifest of the run."""
    spec = {"command": "true", "seed": 5, "env": {"A": "b"}}
    shown = plan(admin, **spec)
    job = submit(admin, **spec)
    assert ended(admin, job)["state"] == "SUCCEEDED"
    (manifest,) = (json.loads(file.read_text()) for file in kept.home.path.glob("runs/user*/*/manifest.json"))
    case = manifest["plan"]["cases"][0]
    (node,) = case["nodes"]
    (expected,) = shown["cases"][0]["nodes"][0]["ranks"]
    expected["env"] = {
        name: job if value == "JOB" else value.replace("/JOB/", f"/{job}/") for name, value in expected["env"].items()
    }
    assert [{"argv": rank["argv"], "env": rank["env"]} for rank in node["ranks"]] == [expected]
    assert case["files"]["command.sh"] == "true"


@pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="needs OpenSSH's server")
def test_a_worker_on_this_machine(admin: Person, kept: Server) -> None:
    command = """
    echo "home $HOME"; echo "here $PWD"; ls -d rank*
    cat ~/ib_config; test -d ~/tensorboard/$DLWS_JOB_ID/logs && echo logs
    ssh -p $DLWS_SD_worker0_SSH_PORT worker-0 'echo entered $DLWS_ROLE_IDX $DLWS_JOB_ID'
    ssh -o UserKnownHostsFile=/dev/null worker-0 true || echo refused
    touch ~/left; exit 3
    """
    job = submit(admin, command=command, distributed=True, devices=2, whole_host=True, keep_open=1)
    found = ended(admin, job)
    text = admin.ask("GET", f"/jobs/{job}/logs", status=200).text
    assert found["state"] == "FAILED" and "3" in found["reason"], text
    work = str(kept.home.job(job) / "work")
    lines = text.splitlines()
    assert lines[:4] == [f"home {work}", f"here {work}/worker-0", "rank0", "rank1"]
    assert re.fullmatch(r"\S+ slots=2", lines[4]) and lines[5] == "logs"
    assert f"entered 0 {job}" in lines and "refused" in lines  # a host key that is not known is not accepted
    assert "trainmark: the command ended with code 3; its workers stay for 1 s" in lines
    names = [one["path"] for one in admin.ask("GET", f"/jobs/{job}/files").json()["work"]]
    assert "left" in names and "hostfile" in names
    assert not list(kept.home.path.rglob("*_key")), "keys end with the job"
