"""What the facts of nodes mean for whoever runs them, in both languages, and where nodes differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_health import ports, recorded
from trainmark.agent.health import collect
from trainmark.cli.doctor import text
from trainmark.devices.nvidia import smi
from trainmark.i18n.speaker import say
from trainmark.launch import health
from trainmark.launch.protocol import Finding

GOOD: dict[str, Any] = {
    "kernel": "6.1.0",
    "cpu": "EPYC",
    "memory": 256 * 2**30,
    "thp": "madvise",
    "governors": {"performance": 64},
    "numa": {"nodes": 2, "without_memory": [], "balancing": 0},
    "edac": {"ce_count": 0, "ue_count": 0},
    "limits": {"memlock": -1, "nofile": 65536, "nproc": 4096},
    "interfaces": {"eth0": {"mtu": 9000, "speed": 25000}},
    "synchronised": True,
    "mounts": {
        "~/x": {"point": "/", "type": "ext4", "options": ["rw"], "network": False, "free": 2**40, "size": 2**41}
    },
}


def told(**changed: Any) -> list[Finding]:
    return [one for one in health.judge("n1", {**GOOD, **changed}) if one.good is not True]


def test_a_good_node_has_nothing_to_tell() -> None:
    assert told() == []
    assert list(health.judge("n1", {})) == [], "nothing is known, and nothing is claimed"


@pytest.mark.parametrize(
    ("changed", "what", "good", "said"),
    [
        ({"governors": {"powersave": 32, "performance": 32}}, "governor", None, "powersave × 32"),
        ({"edac": {"ce_count": 0, "ue_count": 1}}, "ECC", False, "1 uncorrected"),
        ({"edac": {"ce_count": 7, "ue_count": 0}}, "ECC", None, "7 corrected"),
        ({"numa": {"nodes": 2, "without_memory": ["node1"], "balancing": 0}}, "NUMA", None, "node1"),
        ({"numa": {"nodes": 2, "without_memory": [], "balancing": 1}}, "NUMA", None, "moves pages"),
        ({"thp": "never"}, "huge pages", None, "neither"),
        ({"limits": {"nofile": 1024}}, "limits", None, "1024 open files"),
        ({"synchronised": False}, "time", None, "no time service"),
        ({"mounts": {"/w": {"point": "/w", "type": "nfs4", "options": ["ro"]}}}, "mounts", False, "read-only"),
        ({"mounts": {"/w": {"point": "/w", "type": "xfs", "options": ["noexec"]}}}, "mounts", None, "no program"),
        ({"mounts": {"/dev/shm": {"point": "/", "type": "tmpfs", "size": 2**26}}}, "mounts", None, "0.062 GiB"),
        ({"nvlink": {"0": {"up": 12, "down": 6, "speeds": []}}}, "NVLink", None, "6 of 18"),
    ],
)  # fmt: skip
def test_what_is_said(changed: dict[str, Any], what: str, good: bool | None, said: str) -> None:
    (found,) = told(**changed)
    assert (found.what, found.good) == (what, good) and said in say(found.found)
    assert say(found.found, "zh") != say(found.found) or what == "governor"


def test_ports_errors_and_locked_memory(tmp_path: Path) -> None:
    found = told(infiniband=collect.infiniband(str(ports(tmp_path))), limits={"memlock": 8388608, "nofile": 65536})
    said = {(one.what, say(one.found)): say(one.cure) for one in found}
    assert (
        "link_downed 3" in str(said)
        and "subnet manager" in said["InfiniBand", "mlx5_1/1: INIT, LinkUp, 56 Gb/sec (4X FDR)"]
    )
    assert "cable" in said["RoCE", "mlx5_2/1: DOWN, Disabled, 40 Gb/sec (4X QDR)"]
    assert any(what == "limits" and "RDMA" in text for what, text in said)


def test_devices() -> None:
    """An Xid of a program is passed over, one of a lost device is a fault."""
    grave = told(xids=smi.xids(recorded("kernel-xid.txt")))
    assert [(one.what, one.good) for one in grave] == [("Xid", False)] and "0000:3b:00" in say(grave[0].found)
    assert told(nvidia=smi.device_log(recorded("nvidia-smi-a100.xml"))) == []
    sick = recorded("nvidia-smi-a100.xml").replace("current_link_width>16x", "current_link_width>8x")
    assert "8 of 16 PCIe lanes" in say(told(nvidia=smi.device_log(sick))[0].found)
    worse = sick.replace("<dram_uncorrectable>0", "<dram_uncorrectable>2").replace(
        "<remapped_rows>N/A</remapped_rows>",
        "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending>"
        "<remapped_row_failure>Yes</remapped_row_failure></remapped_rows>",
    )
    codes = [(one.found.code, one.good) for one in told(nvidia=smi.device_log(worse)) if not isinstance(one.found, str)]
    assert codes[:3] == [("gpu-ecc", False), ("gpu-remap-failed", False), ("gpu-reset-needed", None)]


def test_the_node_that_differs_is_named() -> None:
    """Another kernel, governor, MTU and memory size; sizes that differ by what firmware keeps are the same."""
    odd = {
        **GOOD,
        "kernel": "5.15.0",
        "governors": {"powersave": 64},
        "memory": 192 * 2**30,
        "interfaces": {"eth0": {"mtu": 1500, "speed": 25000}},
    }
    known = {"n1": GOOD, "n2": odd, "n3": {**GOOD, "memory": 256 * 2**30 - 2**20}}
    found = [one for one in health.findings(known) if one.what == "differs"]
    assert {one.host for one in found} == {"n2"} and len(found) == 4
    assert "kernel: 5.15.0, where 2 of 3 nodes have 6.1.0" in [say(one.found) for one in found]
    assert "MTU of eth0：1500，而 3 个节点中有 2 个为 9000" in [say(one.found, "zh") for one in found]
    two = [one for one in health.findings({"n1": GOOD, "n2": odd}) if one.what == "differs"]
    assert {one.host for one in two} == {"n1", "n2"}, "of two, nobody knows which is the odd one"


def test_a_table_and_its_cures() -> None:
    shown = text(told(governors={"powersave": 2}, synchronised=False), "zh")
    assert "没有时间服务" in shown and "`performance` 更稳定" in shown
