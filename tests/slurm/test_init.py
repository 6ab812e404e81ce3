"""`trainmark slurm init`: hosts without a Slurm get one from the files it writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import site, slurm
from lab.lab import Lab, wait_for
from lab.layout import HEAD
from tests.conftest import Cli
from tests.web.conftest import Person, admin, app, kept, server, visit  # noqa: F401
from tests.web.test_jobs import ended, submit
from trainmark.web.server import Server

pytestmark = pytest.mark.lab


def end_slurm(lab: Lab) -> None:
    for host in lab.layout.hosts:
        program = "slurmctld" if host == HEAD else "slurmd"
        lab.on(host, "pkill", "-x", program, check=False)
        wait_for(lambda host=host, program=program: not slurm.running(lab, host, program), f"the end of {program}")  # type: ignore[misc]
    for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
        (lab.layout.slurm_etc / name).unlink(missing_ok=True)


@pytest.fixture
def bare(slurm_lab: Lab) -> Iterator[Lab]:
    """The lab without its Slurm, and with it again afterwards."""
    end_slurm(slurm_lab)
    yield slurm_lab
    end_slurm(slurm_lab)
    slurm.write(slurm_lab.layout)
    slurm.start(slurm_lab)


def init(lab: Lab, cli: Cli, folder: Path, *more: str, code: int = 0) -> str:
    """As with AAH's files: addresses of slaves, and a file for the master."""
    (folder / "slaveip.txt").write_text("".join(f"{host}\n" for host in lab.nodes))
    (folder / "masterip.txt").write_text(f"{HEAD}\n")
    done = cli(
        *("slurm", "init", "--hosts", str(folder / "slaveip.txt"), "--controller", str(folder / "masterip.txt")),
        *("--ssh-config", str(lab.layout.ssh_config), "-o", str(folder / "made"), "--name", "fresh"),
        *("--gres", "gpu:fake=/dev/fakegpu*", "--spool", str(lab.layout.base / "init-spool"), *more),
        code=code,
    )
    return done.stdout + done.stderr


def test_a_cluster_from_nothing(bare: Lab, cli: Cli, tmp_path: Path) -> None:
    said = init(bare, cli, tmp_path)
    made = tmp_path / "made"
    assert (
        "tracking by linuxproc: node1 runs no systemd" in said and not (bare.layout.slurm_etc / "slurm.conf").exists()
    )
    assert "Gres=gpu:fake:2" in (made / "slurm.conf").read_text()
    assert "File=/dev/fakegpu1" in (made / "gres.conf").read_text() and "munge" in (made / "STEPS.txt").read_text()
    assert "all 2 nodes are idle" in init(bare, cli, tmp_path, "--apply")
    told = bare.on(
        HEAD, "srun", "-N2", "--mpi=none", "--gres=gpu:2", "sh", "-c", "hostname; echo $CUDA_VISIBLE_DEVICES"
    )
    assert sorted(told.stdout.split()) == ["0,1", "0,1", "node1", "node2"]
    assert bare.on(HEAD, "scontrol", "show", "config").stdout.count("fresh") >= 1
    assert "runs already" in init(bare, cli, tmp_path, "--apply", code=3), "a living cluster is not touched"


def test_a_node_that_does_not_come_is_named(bare: Lab, cli: Cli, tmp_path: Path) -> None:
    """Somebody else has slurmd's port on one of them."""
    listen = "import socket, time; s = socket.create_server(('0.0.0.0', 6818)); time.sleep(600)"
    bare.daemon("node2", sys.executable, "-c", listen, log="listener.log")
    try:
        said = init(bare, cli, tmp_path, "--apply", code=3)
    finally:
        bare.on("node2", "pkill", "-f", "create_server")
    assert "not every node is idle" in said and "node2 is" in said and "node1 is" not in said
    assert "does not run" in said and "bind" in said, said


def test_hosts_with_one_name_are_refused(bare: Lab, cli: Cli, tmp_path: Path) -> None:
    bare.on("node2", "hostname", "node1")
    try:
        said = init(bare, cli, tmp_path, "--apply", code=3)
    finally:
        bare.on("node2", "hostname", "node2")
    assert "several hosts call themselves so" in said and "nothing was changed" in said


@pytest.fixture
def tmp_path(slurm_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Seen by all nodes, as the server's folder must be."""
    folder = slurm_lab.layout.shared / f"{request.node.name[:30]}-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_the_server_makes_a_cluster_and_schedules_a_job(bare: Lab, admin: Person, kept: Server) -> None:  # noqa: F811
    """From hosts that have no queue to a job that Slurm started, all through the API."""
    (kept.home.sites / "hosts.yaml").write_text(json.dumps(site.content(bare.layout)))
    (offer,) = [one for one in admin.ask("GET", "/sites").json() if one["name"] == "hosts"]
    assert offer["queue"] == "hosts" and offer["offers"] == ["slurm-init"]
    asked = {"controller": HEAD, "name": "fresh", "spool": str(bare.layout.base / "api-spool")}
    looked = admin.ask("POST", "/sites/hosts/slurm", json=asked, status=200).json()
    assert [node["name"] for node in looked["nodes"]] == ["node1", "node2"] and looked["done"] == []
    assert "NodeName=node1" in looked["files"]["slurm.conf"]
    more = {"apply": True, "site": "cluster", "shared_dir": str(bare.layout.shared)}
    made = admin.ask("POST", "/sites/hosts/slurm", json={**asked, **more}, status=200).json()
    assert made["site"] == "cluster" and made["done"][-1] == "all 2 nodes are idle"
    # This machine has no munge and no names of the lab's hosts, as an operator's would: it uses the head's.
    conf = kept.home.sites / "cluster.slurm.conf"
    changed = re.sub(r"SlurmctldHost=.*", f"SlurmctldHost=ctl({bare.layout.address(HEAD)})", conf.read_text())
    conf.write_text(slurm.with_addresses(bare.layout, changed) + f"AuthInfo=socket={slurm.munge_socket(bare)}\n")
    job = submit(admin, command="echo in job $SLURM_JOB_ID of $SLURM_CLUSTER_NAME", site="cluster")
    found = ended(admin, job, 120.0)
    said = admin.ask("GET", f"/jobs/{job}/logs").text
    assert found["state"] == "SUCCEEDED" and re.match(r"in job \d+ of fresh", said), (found, said)
    again = admin.ask("POST", "/sites/hosts/slurm", json={**asked, "apply": True}, status=503)
    assert "runs already" in again.json()["detail"]
    admin.ask("POST", "/sites/local/slurm", json=asked, status=400)
