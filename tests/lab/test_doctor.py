"""`doctor` and the checks before a run: a plain reason for whatever is wrong, and nothing started."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import site
from lab.engines import start_docker, stop_docker
from lab.lab import Lab
from tests.conftest import Cli
from tests.lab.conftest import refused_key, wrong_host_key

# Quick to ask: it has no PyTorch, which is worth a note and no more.
PLAIN = "/usr/bin/python3"


def bad(cli: Cli, where: Path, *, code: int = 3) -> dict[tuple[str, str], str]:
    """(host, what) → found, of everything that is not as it should be."""
    found = cli.json("doctor", "--site", str(where), code=code)
    return {(finding["host"], finding["what"]): finding["found"] for finding in found if finding["good"] is False}


def test_good_hosts(cli: Cli, hosts: Lab, site_file: Callable[..., Path], light_torch: Path) -> None:
    shared, container = str(hosts.layout.shared), site.container("docker")
    container["mounts"].append(f"{light_torch}:{light_torch}:ro")
    where = site_file(env={"PYTHONPATH": str(light_torch)}, shared_dir=shared, container=container)
    found = cli.json("doctor", "--site", str(where))
    for host in hosts.nodes:
        seen = {finding["what"]: finding for finding in found if finding["host"] == host}
        for what in ("reachable", "node python", "image", "python", "disk", "memory", "network", "shared_dir", "clock"):
            assert seen[what]["good"] is True, seen[what]
        assert seen["shared_dir"]["found"] == f"{shared} in a container"


def test_a_host_that_is_off(cli: Cli, hosts: Lab, pair: Path, site_file: Callable[..., Path]) -> None:
    hosts.poweroff("node2")
    where = site_file(ssh={"config": str(hosts.layout.ssh_config), "connect_seconds": 2}, python=PLAIN)
    assert "does not answer" in bad(cli, where)["node2", "reachable"]
    said = cli("run", str(pair), "--site", str(where), code=3).stderr
    assert "node2" in said and "does not answer" in said and not cli.runs.exists()


def test_wrong_host_key_and_refused_key(cli: Cli, hosts: Lab, site_file: Callable[..., Path], tmp_path: Path) -> None:
    found = bad(cli, site_file(ssh={"config": str(wrong_host_key(hosts, tmp_path))}, python=PLAIN))
    assert "host key is not the one that is known" in found["node1", "reachable"] and len(found) == 1
    found = bad(cli, site_file(ssh={"config": str(refused_key(hosts, tmp_path))}, python=PLAIN))
    assert "refuses the key or the user" in found["node1", "reachable"]


def test_image_missing_and_engine_down(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    container = {**site.container("docker"), "image": "no/such:image"}
    assert "image no/such:image is not here" in bad(cli, site_file(container=container, python=PLAIN))["node1", "image"]
    stop_docker(hosts, "node2")
    try:
        found = bad(cli, site_file(container=site.container("docker"), python=PLAIN))
        assert "docker does not work" in found["node2", "image"] and ("node1", "image") not in found
    finally:
        start_docker(hosts, "node2")


@pytest.mark.lab
def test_cable_between_the_hosts(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    """Reached from here, and not from its neighbour: the name it goes by leads elsewhere."""
    hosts.on("node1", "ip", "route", "add", "blackhole", hosts.layout.address("node2"))
    try:
        assert "node2" in bad(cli, site_file(python=PLAIN))["node1", "network"]
    finally:
        hosts.on("node1", "ip", "route", "del", "blackhole", hosts.layout.address("node2"))


@pytest.mark.lab
def test_data_and_shared_folder(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    """/tmp is each host's own: a token written on one is not read on the other."""
    found = bad(cli, site_file(shared_dir="/tmp", data={"mine": "/nowhere/data"}, python=PLAIN))
    assert "shared_dir" in {what for _, what in found} and ("node1", "shared_dir") not in found
    assert "not there" in found["node1", "data"]


@pytest.mark.lab
def test_no_python_there(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    assert "no such-python" in bad(cli, site_file(node_python="such-python"))["node1", "reachable"]
    found = bad(cli, site_file(python="/no/python"))
    assert "/no/python" in found["node1", "python"]


@pytest.mark.lab
def test_a_framework_or_a_rank_table_that_hosts_do_not_have(
    cli: Cli, hosts: Lab, site_file: Callable[..., Path]
) -> None:
    where = site_file(pythons={"mindspore": PLAIN}, rank_table="/etc/hccl.json")
    said = cli("run", "mnist:mindspore:cpu:2:1:1", "--preset", "smoke", "--site", str(where), code=3).stderr
    for host in ("node1", "node2"):
        assert re.search(rf"{host} +mindspore +BAD +not in {PLAIN}", said), said
        assert re.search(rf"{host} +rank table +BAD +/etc/hccl.json: no file", said), said
    assert not cli.runs.exists()


@pytest.mark.lab
def test_noise_of_a_login_shell_is_passed_over(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    profile = hosts.layout.host("node1") / "home/root/.bashrc"
    profile.write_text('echo welcome to node1; echo \'{"op": "hello"}\'\n')
    try:
        found = json.loads(cli("doctor", "--site", str(site_file(python=PLAIN)), "--json").stdout)
        assert all(finding["good"] is not False for finding in found)
    finally:
        profile.unlink()


@pytest.mark.lab
def test_a_host_that_differs(cli: Cli, hosts: Lab, site_file: Callable[..., Path]) -> None:
    """Another MTU on one of two: a note on both, since nobody knows which is the odd one."""
    hosts.on("node2", "ip", "link", "set", "eth0", "mtu", "1400")
    try:
        found = cli.json("doctor", "--site", str(site_file(python=PLAIN)))
    finally:
        hosts.on("node2", "ip", "link", "set", "eth0", "mtu", "1500")
    told = {(one["host"], one["found"]) for one in found if one["code"] == "nodes-differ"}
    assert told == {
        ("node1", "MTU of eth0: 1500, others have 1400"),
        ("node2", "MTU of eth0: 1400, others have 1500"),
    }
