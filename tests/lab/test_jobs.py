"""Jobs of the server on real hosts: the commands of the guide, mpirun, one job on each kind of site, faults."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab import site, wires
from lab.lab import Lab
from tests.lab.conftest import left, soon_clean
from tests.web.conftest import Person, admin, app, kept, person, server, visit  # noqa: F401
from tests.web.test_endpoints import ticket_of
from tests.web.test_jobs import ended, submit, until
from trainmark.errors import UserError
from trainmark.web.server import Server
from trainmark.web.service import endpoints
from trainmark.web.service.rules import SiteRules

# The three commands of the Apulis guide, as they stand there.
MINDSPORE = "sudo -E bash -c ' cd /data/code/mindspore/example/resnet50_cifar10/ && ./run_8p.sh &&sleep infinity'"
HOROVOD = (
    "cd ~ && mkdir -p ~/checkpoints && horovodrun -np {count} -hostfile /home/${{DLWS_USER_NAME}}/ib_config "
    "-p $DLWS_SD_worker0_SSH_PORT --network-interface ib0 python /examples/tensorflow2_keras_mnist.py ~/checkpoints/ "
    "~/tensorboard/${{DLWS_JOB_ID}}/logs/ && sleep infinity"
)
pytestmark = pytest.mark.lab
FABRIC = {
    host: {"address": f"192.168.3.{number}", "device_ips": [f"192.168.{10 * (card + 1)}.{number}" for card in range(2)]}
    for number, host in enumerate(("node1", "node2"), 1)
}


@pytest.fixture
def cluster(hosts: Lab, kept: Server) -> Callable[..., str]:  # noqa: F811
    """`cluster(container="docker")`: the name of a site of the server."""

    def write(
        name: str = "cluster",
        container: str | None = None,
        mounts: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> str:
        content = site.content(hosts.layout, **more)
        content["env"].update(env or {})
        if container:
            # What an image with OpenSSH and Open MPI has of its own; that of the lab is empty.
            own = [f"/etc/{name}:/etc/{name}:ro" for name in ("passwd", "group", "alternatives", "openmpi", "hosts")]
            content["container"] = site.container(container)
            content["container"]["mounts"] += [*own, *mounts]
        (kept.home.sites / f"{name}.yaml").write_text(json.dumps(content))
        return name

    return write


def log(admin: Person, job: str) -> str:  # noqa: F811
    return str(admin.ask("GET", f"/jobs/{job}/logs", status=200).text)


@pytest.mark.parametrize("container", [None, "docker"])
def test_mpirun_from_the_first_worker(
    admin: Person,  # noqa: F811
    hosts: Lab,
    cluster: Callable[..., str],
    container: str | None,
) -> None:
    """The workers of a job enter each other by an sshd and keys of their own, in their containers, too."""
    command = """
    cat ~/ib_config /home/$DLWS_USER_NAME/ib_config
    ssh worker-1 'echo I am worker $DLWS_ROLE_IDX of $DLWS_NUM_WORKER in $HOME'
    export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
    mpirun --allow-run-as-root --hostfile ~/ib_config -np 4 \\
        bash -c 'echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(uname -n) for $DLWS_JOB_ID'
    ssh -o StrictHostKeyChecking=yes node2 true && echo checked
    """
    job = submit(
        admin, command=command, site=cluster(container=container), distributed=True, nodes=2, devices=2, run_on="first"
    )
    found = ended(admin, job)
    text = log(admin, job)
    assert found["state"] == "SUCCEEDED", (found["reason"], text)
    lines = text.splitlines()
    assert lines[:4] == ["node1 slots=2", "node2 slots=2"] * 2
    assert "I am worker 1 of 2 in " in text
    ranks = sorted(line for line in lines if line.startswith("rank "))
    assert [line.split(" for ")[0] for line in ranks] == [
        f"rank {rank} of 4 on {'node1' if rank < 2 else 'node2'}" for rank in range(4)
    ]
    assert "checked" in lines
    soon_clean(hosts)


@pytest.fixture
def infiniband(hosts: Lab) -> Iterator[None]:
    """A second network of both hosts, by the name that the guide's commands use."""
    # Of its own: on the bridge of the first network either cable would answer for both addresses of a host, and who
    # had heard the second would look for the host where no cable is any more.
    bridge = f"tmib{hosts.layout.subnet}"
    wires.ip("link", "add", bridge, "type", "bridge")
    wires.ip("link", "set", bridge, "up")
    made = [bridge]
    for number, host in enumerate(hosts.nodes, 1):
        cable = f"tmib{hosts.layout.subnet}x{number}"
        pid = str(hosts.pid(host))
        wires.ip("link", "add", cable, "type", "veth", "peer", "name", "ib0", "netns", pid)
        made.append(cable)
        wires.ip("link", "set", cable, "master", bridge, "up")
        hosts.on(host, "ip", "addr", "add", f"10.78.{hosts.layout.subnet}.{number}/24", "dev", "ib0")
        hosts.on(host, "ip", "link", "set", "ib0", "up")
    yield
    for cable in made:
        wires.ip("link", "delete", cable, check=False)


@pytest.fixture
def guide_image(hosts: Lab, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A site whose containers have what the guide's images have: `horovodrun` (a stand-in that starts its ranks through
    mpirun), `python`, the examples, and the training code on a disk of each host."""
    folder = hosts.layout.shared / f"guide{os.getpid()}"
    for name in ("tools", "examples", "data/resnet50_cifar10"):
        (folder / name).mkdir(parents=True)
    programs = {"horovodrun": f'{sys.executable} -m lab.horovodrun "$@"', "python": f'{sys.executable} "$@"'}
    for name, line in programs.items():
        (folder / "tools" / name).write_text(f"#!/bin/sh\nexec {line}\n")
        (folder / "tools" / name).chmod(0o755)
    (folder / "examples/tensorflow2_keras_mnist.py").write_text(EXAMPLE)
    (folder / "data/resnet50_cifar10/run_8p.sh").write_text(RUN_8P)
    (folder / "data/resnet50_cifar10/run_8p.sh").chmod(0o755)
    code = "/data/code/mindspore/example"
    yield {
        "mounts": [f"{folder}/tools:/tools:ro", f"{folder}/examples:/examples:ro", f"{folder}/data:{code}"],
        "env": {"PATH": "/tools:/usr/local/bin:/usr/bin:/bin:/usr/sbin"},
    }
    shutil.rmtree(folder, ignore_errors=True)


EXAMPLE = """
import os, sys
checkpoints, logs = sys.argv[1:]
rank = os.environ["OMPI_COMM_WORLD_RANK"]
assert os.path.isdir(logs) and os.path.isdir(checkpoints) or rank != "0", sys.argv
print("rank", rank, "of", os.environ["OMPI_COMM_WORLD_SIZE"], "on", os.uname().nodename, flush=True)
if rank == "0":
    open(os.path.join(checkpoints, "checkpoint-1"), "w").write("weights")
    open(os.path.join(logs, "events"), "w").write("losses")
"""
# The script of the guide, with the training itself left out, and ranks that differ between hosts.
RUN_8P = """#!/bin/bash
export DEVICE_NUM=2
export RANK_SIZE=$((DEVICE_NUM * DLWS_NUM_WORKER))
[ -f "$MINDSPORE_HCCL_CONFIG_PATH" ] || { echo "error: $MINDSPORE_HCCL_CONFIG_PATH is not a file"; exit 1; }
mkdir -p ./$(uname -n) && cd ./$(uname -n)
for((i=0; i<${DEVICE_NUM}; i++))
do
    export DEVICE_ID=$i RANK_ID=$((DLWS_ROLE_IDX * DEVICE_NUM + i))
    rm -rf ./train_parallel$i; mkdir ./train_parallel$i; cd ./train_parallel$i || exit
    env > env.log
    python -c 'import json, os; t = json.load(open(os.environ["MINDSPORE_HCCL_CONFIG_PATH"])); \
i = t["group_list"][0]["instance_list"][int(os.environ["RANK_ID"])]; \
print("start training for rank", i["rank_id"], "at", i["server_id"], i["devices"][0]["device_ip"], flush=True)' &
    cd ..
done
trap "trap - SIGTERM && kill -- -$$" SIGINT SIGTERM EXIT
wait
trap - EXIT
"""


def running_until(admin: Person, job: str, count: int, start: str) -> list[str]:  # noqa: F811
    """The lines that begin so, once there are as many."""

    def look() -> Any:
        found = admin.ask("GET", f"/jobs/{job}", status=200).json()["job"]
        text = log(admin, job) if found["run"] else ""
        assert found["state"] in ("PENDING", "RUNNING"), (found["reason"], text)
        lines = sorted(line for line in text.splitlines() if line.startswith(start))
        return lines if len(lines) >= count else None

    return list(until(look, 120.0))


@pytest.mark.usefixtures("infiniband")
@pytest.mark.parametrize("nodes", [2, 1])
def test_the_horovod_commands_of_the_guide(
    admin: Person,  # noqa: F811
    hosts: Lab,
    cluster: Callable[..., str],
    guide_image: dict[str, Any],
    nodes: int,
) -> None:
    named = cluster(container="docker", mounts=guide_image["mounts"], env=guide_image["env"])
    command = HOROVOD.format(count=8 * nodes)
    job = submit(admin, command=command, site=named, distributed=True, nodes=nodes, devices=8, run_on="first")
    lines = running_until(admin, job, 8 * nodes, "rank ")
    assert {line.split(" on ")[1] for line in lines} == set(hosts.nodes[:nodes])
    assert len(set(lines)) == 8 * nodes
    admin.ask("POST", f"/jobs/{job}/stop", status=202)  # it ends with `sleep infinity`
    assert ended(admin, job)["state"] == "CANCELLED"
    left = {one["path"].partition("/home/")[2] for one in admin.ask("GET", f"/jobs/{job}/files").json()["run"]}
    assert {"checkpoints/checkpoint-1", f"tensorboard/{job}/logs/events", "ib_config", "hostfile"} <= left
    soon_clean(hosts)


def test_the_mindspore_command_of_the_guide(
    admin: Person,  # noqa: F811
    hosts: Lab,
    cluster: Callable[..., str],
    guide_image: dict[str, Any],
) -> None:
    named = cluster(container="docker", mounts=guide_image["mounts"], env=guide_image["env"], fabric=FABRIC)
    job = submit(admin, command=MINDSPORE, site=named, distributed=True, nodes=2, devices=2)
    assert running_until(admin, job, 4, "start training") == [
        f"start training for rank {rank} at 192.168.3.{rank // 2 + 1} 192.168.{10 * (rank % 2 + 1)}.{rank // 2 + 1}"
        for rank in range(4)
    ]
    admin.ask("POST", f"/jobs/{job}/stop", status=202)
    assert ended(admin, job)["state"] == "CANCELLED"
    soon_clean(hosts)


@pytest.mark.parametrize("container", [None, "docker"])
def test_one_after_another_and_a_host_without_power(
    admin: Person,  # noqa: F811
    hosts: Lab,
    cluster: Callable[..., str],
    container: str | None,
) -> None:
    """Hosts of an ssh site are held by one job at a time; the API says who waits, and what became of a lost host."""
    named = cluster(container=container)
    first = submit(admin, command="echo going; sleep 600", site=named, distributed=True, nodes=2)
    until(lambda: admin.ask("GET", f"/jobs/{first}").json()["job"]["run"] and log(admin, first).count("going") == 2)
    second = submit(admin, suite="noop:none:cpu:1:1:1", preset="smoke", site=named)
    waiting = until(
        lambda: (lambda one: one if "node1" in one["reason"] else None)(
            admin.ask("GET", f"/jobs/{second}", status=200).json()["job"]
        )
    )
    assert waiting["state"] == "PENDING" and waiting["reason_code"].startswith("waits-for-slots")
    hosts.poweroff("node2")
    lost = ended(admin, first, 120.0)
    assert lost["state"] in ("LOST", "FAILED") and "node2" in lost["reason"], lost
    assert ended(admin, second, 120.0)["state"] == "SUCCEEDED"
    # A host that lost its power keeps the spool of its attempt; the tests after this one look for such folders.
    for spool in (hosts.layout.host("node2") / "tmp").glob("trainmark-*"):
        shutil.rmtree(spool, ignore_errors=True)


def test_people_enter_a_job_in_its_container_on_another_host(
    admin: Person,  # noqa: F811
    kept: Server,  # noqa: F811
    hosts: Lab,
    cluster: Callable[..., str],
    tmp_path: Path,
) -> None:
    """By ssh with a key of their own, and through the proxy's connection to what the command serves. All of it ends
    with the job."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    admin.ask("PUT", "/ssh-keys/laptop", json={"key": key.with_suffix(".pub").read_text()}, status=200)
    kept.rules = msgspec.structs.replace(kept.rules, sites={"cluster": SiteRules(ports="40000-40010")})
    command = (
        f"cd ~ && echo hello from $(uname -n) > page && exec {sys.executable} -m http.server 40001 --bind 127.0.0.1"
    )
    job = submit(admin, command=command, site=cluster(container="docker"), ports=[40001])

    def entry() -> Any:
        found = admin.ask("POST", f"/jobs/{job}/endpoints/ssh/enter")
        return found.json()["command"] if found.status_code == 201 else None

    line = shlex.split(until(entry, 120.0))
    assert line[-1].endswith("@node1")
    inside = [
        *line[:-1],
        line[-1].replace("node1", hosts.layout.address("node1")),
        "test -f /.dockerenv; echo $? $DLWS_JOB_ID",
    ]
    options = ["-i", str(key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=/dev/null"]
    said = subprocess.run([inside[0], *options, *inside[1:]], capture_output=True, text=True, check=False)
    assert said.stdout.split() == ["0", job], said.stderr
    label, ticket = ticket_of(admin, job, "port-40001")
    made = endpoints.use_ticket(kept, label, ticket)
    passed = endpoints.passed(kept, label, made[0]) if made else None
    assert passed is not None
    with endpoints.connect(kept, passed) as raw:
        raw.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        assert b"hello from" in b"".join(iter(lambda: raw.recv(65536), b""))
    admin.ask("POST", f"/jobs/{job}/stop", status=202)
    assert ended(admin, job)["state"] == "CANCELLED"
    with pytest.raises(UserError, match="the job has ended"):
        endpoints.connect(kept, passed)
    kept.gates.close()
    until(lambda: "node1" not in left(hosts))


SAME = {
    "command": "echo $DLWS_NUM_WORKER worker of $DLWS_USER_NAME; ls ~ | sort; echo kept > ~/left; exit 3",
    "devices": 1,
}


@pytest.mark.parametrize("kind", ["local", "ssh", "docker"])
def test_the_same_job_anywhere(kind: str, admin: Person, cluster: Callable[..., str]) -> None:  # noqa: F811
    """On this machine, over ssh, in a container; on Slurm in `tests/slurm`: what it finds and says is the same."""
    named = "local" if kind == "local" else cluster(container=None if kind == "ssh" else kind)
    check_same(admin, named)


def check_same(admin: Person, named: str) -> None:  # noqa: F811
    job = submit(admin, **SAME, site=named)
    found = ended(admin, job, 120.0)
    said = log(admin, job)
    assert said == "1 worker of admin\ntensorboard\n", (found, said)
    assert found["state"] == "FAILED" and "3" in found["reason"], found
    files = admin.ask("GET", f"/jobs/{job}/files", status=200).json()
    assert [one for part in files.values() for one in part if one["path"].endswith("left")]
