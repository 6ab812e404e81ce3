"""Rank tables and host files of a site, as a user gets them. `hccl_2x8.json` is the table that a platform's guide shows
for two servers with eight devices each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from trainmark.errors import UserError
from trainmark.frameworks.cluster import read_hccn

ASCEND = Path(__file__).parents[2] / "sites" / "ascend-2x8.yaml"
GUIDE = Path(__file__).with_name("hccl_2x8.json")


@pytest.fixture
def table(cli: Cli) -> Callable[..., Any]:
    def make(site: Path, form: str, *more: str) -> Any:
        text = cli("ranktable", "--site", str(site), "--format", form, *more).stdout
        return json.loads(text) if text.startswith("{") else text.splitlines()

    return make


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., Path]:
    def write(**more: Any) -> Path:
        file = tmp_path / "site.yaml"
        hosts = {"schema": 1, "name": "two", "launcher": "ssh", "hosts": ["n1", "n2"]}
        file.write_text(json.dumps({**hosts, **more}))
        return file

    return write


def ips(host: int, count: int = 2) -> dict[str, Any]:
    return {"device_ips": [f"10.0.{host}.{device}" for device in range(count)]}


def test_the_table_of_the_guide(table: Callable[..., Any]) -> None:
    assert table(ASCEND, "group_list") == json.loads(GUIDE.read_text())


def test_today_s_table(table: Callable[..., Any]) -> None:
    found = table(ASCEND, "server_list")
    assert (found["version"], found["server_count"], found["status"]) == ("1.0", "2", "completed")
    devices = [device for server in found["server_list"] for device in server["device"]]
    assert [device["rank_id"] for device in devices] == [str(rank) for rank in range(16)]
    assert devices[8] == {"device_id": "0", "device_ip": "192.168.10.3", "rank_id": "8"}
    assert [server["server_id"] for server in found["server_list"]] == ["192.168.3.6", "192.168.3.2"]


def test_a_site_has_it_made_for_the_nodes_of_each_case(cli: Cli, tmp_path: Path) -> None:
    site = tmp_path / "auto.yaml"
    site.write_text(ASCEND.read_text() + "\nrank_table: auto\n")
    words = ("--site", str(site), "--seed", "1", "--json", "--set", "data=synthetic")
    (case,) = cli.json("plan", "resnet50:mindspore:ascend:2:4:1", *words)["cases"]
    table = json.loads(case["files"]["rank_table.json"])
    assert [len(server["device"]) for server in table["server_list"]] == [4, 4]
    assert [one["rank_id"] for server in table["server_list"] for one in server["device"]] == [*map(str, range(8))]
    assert case["nodes"][1]["ranks"][0]["env"]["RANK_TABLE_FILE"] == "%DIR%/rank_table.json"
    (case,) = cli.json("plan", "mnist:pytorch:cpu:1:1:1", *words[:5])["cases"]
    assert case["files"] == {}


def test_super_pods(table: Callable[..., Any], site: Callable[..., Path]) -> None:
    fabric = {
        "n1": {**ips(1), "address": "172.16.0.1", "super_pod": "0", "super_devices": ["4", "5"]},
        "n2": {**ips(2), "address": "172.16.0.2", "super_pod": "1", "super_devices": ["0", "1"]},
    }
    found = table(site(fabric=fabric), "server_list", "--version", "1.2")
    assert found["server_list"][1] == {
        "server_id": "n2",
        "host_ip": "172.16.0.2",
        "device": [
            {"device_id": "0", "super_device_id": "0", "device_ip": "10.0.2.0", "rank_id": "2"},
            {"device_id": "1", "super_device_id": "1", "device_ip": "10.0.2.1", "rank_id": "3"},
        ],
    }
    assert found["super_pod_list"] == [
        {"super_pod_id": "0", "server_list": [{"server_id": "n1"}]},
        {"super_pod_id": "1", "server_list": [{"server_id": "n2"}]},
    ]


def test_a_table_for_each_host_as_platforms_hand_it_out(table: Callable[..., Any]) -> None:
    found = table(ASCEND, "group_list_pod", "--job", "a1b2", "--nproc", "4")
    (group,) = found["group_list"]
    assert (group["device_count"], group["instance_count"]) == ("8", "2")
    assert [one["pod_name"] for one in group["instance_list"]] == ["a1b2-worker-0", "a1b2-worker-1"]
    assert len(group["instance_list"][1]["devices"]) == 4


def test_host_files(table: Callable[..., Any], site: Callable[..., Path]) -> None:
    where = site(fabric={"n1": {"ib_address": "10.9.0.1"}, "n2": {"ib_address": "10.9.0.2"}})
    assert table(where, "hostfile", "--nproc", "8") == ["n1 slots=8", "n2 slots=8"]
    assert table(where, "ib_config", "--nproc", "8") == ["10.9.0.1 slots=8", "10.9.0.2 slots=8"]
    assert table(where, "tf_config", "--nproc", "1", "--port", "5000", "--index", "1") == {
        "cluster": {"worker": ["n1:5000", "n2:5000"]},
        "task": {"type": "worker", "index": 1},
    }


def test_addresses_from_the_hosts_own_tools(
    table: Callable[..., Any], site: Callable[..., Path], tmp_path: Path
) -> None:
    """Device 10 comes after device 9: numbers are sorted as numbers."""
    conf = "".join(f"address_{device}=10.1.0.{device}\nnetmask_{device}=255.255.255.0\n" for device in (10, 9))
    (tmp_path / "n1.conf").write_text(conf)
    (tmp_path / "n2.txt").write_text("ipaddr:10.2.0.1\nnetmask:255.255.255.0\nipaddr:10.2.0.2\nnetmask:255.255.255.0\n")
    found = table(site(fabric={"n1": {"hccn": "n1.conf"}}), "server_list", "--hccn", f"n2={tmp_path}/n2.txt")
    devices = [(one["device_id"], one["device_ip"]) for server in found["server_list"] for one in server["device"]]
    assert devices == [("9", "10.1.0.9"), ("10", "10.1.0.10"), ("0", "10.2.0.1"), ("1", "10.2.0.2")]
    spoken = "# hccn_tool -i 3 -ip -g\nipaddr:10.3.0.3\nnetmask:255.0.0.0\n# hccn_tool -i 5 -ip -g\nipaddr:10.3.0.5\n"
    assert read_hccn(spoken, "said") == {3: "10.3.0.3", 5: "10.3.0.5"}


@pytest.mark.parametrize(
    ("fabric", "options", "said"),
    [
        ({"n1": ips(1)}, ("server_list",), "n2 gets is not known"),
        ({"n1": ips(1)}, ("group_list", "--nproc", "2"), "n2: device addresses are missing"),
        ({"n1": ips(1), "n2": ips(1)}, ("group_list",), "10.0.1.0 is already the address of n1.device_ips[0]"),
        (
            {"n1": {**ips(1), "address": "10.0.2.1"}, "n2": ips(2)},
            ("group_list",),
            "10.0.2.1 is the address of host n1",
        ),
        ({"n1": {"device_ips": ["10.0.1"]}}, ("group_list",), "allowed is an IP address"),
        ({"n1": ips(1), "n2": ips(2)}, ("group_list", "--nproc", "4"), "n1 has 2 devices, 4 ranks were asked for"),
        ({"n1": ips(1), "n2": ips(2)}, ("server_list", "--version", "2"), "allowed with server_list: 1.0 or 1.2"),
        ({"n1": ips(1), "n2": ips(2)}, ("server_list", "--version", "1.2"), "super_devices"),
        ({"n3": ips(1)}, ("hostfile", "--nproc", "1"), "n3 is not in `hosts`"),
        ({}, ("hostfile",), "say --nproc N"),
        ({}, ("tf_config", "--nproc", "1", "--index", "2"), "allowed is 0 to 1"),
    ],
)
def test_what_cannot_be_meant(
    cli: Cli, site: Callable[..., Path], fabric: dict[str, Any], options: tuple[str, ...], said: str
) -> None:
    form, *more = options
    done = cli("ranktable", "--site", str(site(fabric=fabric)), "--format", form, *more, code=2)
    assert said in done.stderr and done.stdout == "" and "Traceback" not in done.stderr


def test_text_that_tells_no_address() -> None:
    with pytest.raises(UserError, match="no line `address_N=…`"):
        read_hccn("hello\n", "n1.conf")
    with pytest.raises(UserError, match=r"device 0 has the address 10\.0\.0\.1 already"):
        read_hccn("address_0=10.0.0.1\naddress_0=10.0.0.2\n", "n1.conf")
