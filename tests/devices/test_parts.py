"""Small parts: peaks by the device's own name, AMD's files, flags of containers, scripts of toolkits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Cli
from tests.devices.conftest import RECORDINGS
from trainmark.agent.vendor_setup import variables
from trainmark.devices import protocol
from trainmark.devices.amd import node as amd
from trainmark.devices.ascend import hccn
from trainmark.devices.cpu import node as cpu
from trainmark.devices.cpu import rdma
from trainmark.devices.cpu.rdma import RdmaPorts
from trainmark.devices.node_side import pci
from trainmark.devices.node_side.readings import Rates
from trainmark.devices.protocol import REGISTRY, dense_peak
from trainmark.i18n.texts import label
from trainmark.launch import agent_command
from trainmark.report.kinds import peaks as kinds
from trainmark.report.make.attempt import question
from trainmark.report.show import show
from trainmark.spec.peaks import Matmul, Peaks, Published
from trainmark.spec.site import Container
from trainmark.testing.launchers import case_plan


@pytest.mark.parametrize(
    ("name", "dtype", "flops"),
    [
        ("NVIDIA A100-SXM4-80GB", "bf16", 312e12),
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5e12),
        ("NVIDIA H100 PCIe", "bf16", 756.5e12),
        ("Tesla V100-SXM2-32GB", "fp16", 125e12),
        # Names that say too little, and models that nobody has a paper for.
        ("H100", "bf16", None),
        ("NVIDIA H100 NVL", "bf16", None),
        ("NVIDIA A10G", "fp16", None),
        ("NVIDIA A800-SXM4-80GB", "bf16", None),
        ("Tesla V100-SXM2-32GB", "bf16", None),
    ],
)
def test_a_peak_is_that_of_the_model_or_none(name: str, dtype: str, flops: float | None) -> None:
    found = dense_peak("nvidia", name, dtype)
    assert (None if found is None else found.flops) == flops


@pytest.mark.parametrize(
    ("vendor", "name", "dtype", "flops"),
    [
        ("ascend", "910A", "fp16", 256e12),
        ("ascend", "910B3", "fp16", None),
        ("iluvatar", "Iluvatar BI-V100", "bf16", 147e12),
        ("mthreads", "MTT S4000", "fp16", 98e12),
        ("mthreads", "MTT S5000", "fp16", None),
        ("amd", "Arcturus GL-XL [Instinct MI100]", "fp16", 184.6e12),
    ],
)
def test_peaks_by_the_names_that_tools_show(vendor: str, name: str, dtype: str, flops: float | None) -> None:
    found = dense_peak(vendor, name, dtype)
    assert (None if found is None else found.flops) == flops


def test_each_vendor_has_peaks_or_it_is_said_that_none_were_found(cli: Cli) -> None:
    vendors = {name for name in REGISTRY.names() if REGISTRY.get(name).visible}
    assert len(vendors) == 10
    rows = {one["device"]: one["peaks"] for one in cli.json("list", "devices", "--json")}
    for vendor in vendors:
        file = Path(protocol.__file__).parent / vendor / "peaks.yaml"
        assert file.is_file()
        assert (
            (rows[vendor] == "no data sheet found")
            == (not protocol.published(vendor))
            == ("# None: " in file.read_text())
        )
        assert all(one.source and one.date for one in protocol.published(vendor))


def test_the_roofline_has_the_vendors_figure_beside_what_was_measured() -> None:
    found = Peaks(
        1, "s", "A100", 0.0, "run", ["n1"], [Matmul("n1", 2, "bf16", 5e14, 5e14, 12.0)],
        published=[Published("bf16", 312e12, "A100: data sheet")],
    )  # fmt: skip
    (line,) = [trail for trail in kinds._roof(found, "n1", 2) if trail.name == label("peaks.published", "bf16")]
    assert {flops for _, flops in line.points} == {624e12}
    assert "A100: data sheet" in show(found, "text", "en")


def test_the_devices_own_name_decides_over_that_of_the_case() -> None:
    case = msgspec.structs.replace(
        case_plan(("true",), ["here"]), vendor="nvidia", device="nvidia", params={"dtype": "bf16"}
    )
    assert question(case).peak.flops is None
    found = question(case, ["NVIDIA A100-SXM4-80GB"]).peak
    assert found.flops == 312e12 and "data sheet" in found.source
    assert question(case, ["NVIDIA A100-SXM4-80GB", "Tesla T4"]).peak.flops is None, "mixed: whose peak would it be?"


def test_where_a_device_is_plugged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bus/pci/devices/0000:61:00.0"
    folder.mkdir(parents=True)
    for name, text in {"numa_node": "1", "current_link_width": "8", "max_link_speed": "32.0 GT/s PCIe"}.items():
        (folder / name).write_text(text + "\n")
    monkeypatch.setenv("TRAINMARK_SYS", str(tmp_path))
    assert pci.place("00000000:61:00.0") == {"numa": 1.0, "width": 8.0, "most_gigatransfers": 32.0}
    (folder / "numa_node").write_text("-1\n")
    assert "numa" not in pci.place("0000:61:00.0"), "the kernel does not say"
    assert pci.place("../../etc") == pci.place(None) == pci.place("0000:62:00.0") == {}


def test_hccn_tool_is_asked_for_one_port_at_a_time(fake_tool: Callable[..., None], tmp_path: Path) -> None:
    recorded = (RECORDINGS / "hccn_tool-stat.txt").read_text()
    assert (hccn.parse(recorded) or {})["nic_rx_all_oct_num"] == 482237805
    # Where the recording has dots, lines as the tool's public source writes them.
    whole = tmp_path / "whole"
    whole.write_text(recorded.replace("...", "mac_tx_total_oct_num:7\nmac_rx_bad_pkt_num:3\nroce_new_pkt_rty_num:2"))
    fake_tool("hccn_tool", str(whole))
    ports, devices = hccn.Ports(), [{"index": 0}, {"index": 1}]
    ports.add(devices)
    assert devices == [{"index": 0, "roce_errors": 3, "roce_retries": 2}, {"index": 1}]
    ports.add(devices)
    assert devices[1] == {"index": 1, "roce_errors": 3, "roce_retries": 2}
    ports.add(devices)
    assert devices[0]["roce_tx"] == 0.0, "two looks make a rate"


def test_a_port_that_moves_bytes_sends_again_and_drops() -> None:
    rates = Rates()
    first = hccn.readings({"mac_rx_total_oct_num": 1000, "mac_tx_total_oct_num": 9}, rates, 0, 10.0)
    assert first == {"roce_rx": None, "roce_tx": None, "roce_errors": None, "roce_retries": None}
    later = {
        "mac_rx_total_oct_num": 5000,
        "mac_tx_total_oct_num": 3,
        "roce_rx_err_pkt_num": 2,
        "roce_new_pkt_rty_num": 6,
    }
    assert hccn.readings(later, rates, 0, 12.0) == {
        "roce_rx": 2000.0, "roce_tx": None, "roce_errors": 2, "roce_retries": 6
    }, "a counter that began anew says nothing"  # fmt: skip


def test_a_tool_that_fails_is_not_asked_again(fake_tool: Callable[..., None], tmp_path: Path) -> None:
    fake_tool("hccn_tool", "npu-smi-910a.txt")
    ports = hccn.Ports()
    ports.add([{"index": 0}])
    fake_tool("hccn_tool", "hccn_tool-stat.txt")
    devices = [{"index": 0}]
    ports.add(devices)
    assert devices == [{"index": 0}]


def test_ports_of_infiniband(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMARK_SYS", str(tmp_path))
    assert RdmaPorts().read(1.0) == {}, "a host without such ports has no such readings"
    files = {
        "counters/port_rcv_data": "1000",
        "counters/port_xmit_data": "2000",
        "counters/symbol_error": "3",
        "counters/link_downed": "N/A (no PMA)",
        "hw_counters/out_of_sequence": "4",
    }
    for port in ("mlx5_0/ports/1", "mlx5_1/ports/1"):
        for name, text in files.items():
            file = tmp_path / "class/infiniband" / port / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
    ports = RdmaPorts()
    assert ports.read(1.0) == {"rdma_rx": None, "rdma_tx": None, "rdma_errors": 6, "rdma_retries": 8}
    (tmp_path / "class/infiniband/mlx5_1/ports/1/counters/port_rcv_data").write_text("6000\n")
    found = ports.read(3.0)
    assert (found["rdma_rx"], found["rdma_tx"]) == (5000 * 4 / 2, 0.0), "counters of data count words of four bytes"
    sample = cpu.Sampler().sample({})
    assert sample["rdma_errors"] == 6 and set(rdma.UNITS) <= set(cpu.UNITS)


def test_amds_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "vendor": "0x1002",
        "mem_info_vram_total": "68702699520",
        "mem_info_vram_used": "11284480",
        "gpu_busy_percent": "37",
        "hwmon/hwmon3/power1_average": "90000000",
        "hwmon/hwmon3/temp1_input": "41000",
        "hwmon/hwmon3/freq1_input": "1700000000",
    }
    for number in (10, 2):
        for name, text in files.items():
            file = tmp_path / f"class/drm/card{number}/device" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
    other = tmp_path / "class/drm/card0/device/vendor"
    other.parent.mkdir(parents=True)
    other.write_text("0x8086\n")
    monkeypatch.setenv("TRAINMARK_SYS", str(tmp_path))
    facts, sample = amd.detect(), amd.Sampler().sample({})
    assert (facts["source"], facts["count"], facts["problem"]) == ("sysfs", 2, None)
    first = sample["devices"][0]
    assert (first["power_w"], first["temperature_c"], first["utilisation"]) == (90.0, 41.0, 0.37)
    assert (first["clock_mhz"], first["memory_used"]) == (1700.0, 11284480.0)
    assert amd.folders()[0].endswith("card2/device"), "by number, not by letters"


def test_the_vendors_flags_go_into_the_container_unless_the_site_hands_devices_in() -> None:
    plan = {"token": "ab" * 8, "node": 0, "run": "r", "config": {}, "device": {"vendor": "ascend"}, "ranks": [{}, {}]}

    def flags(**options: object) -> list[str]:
        asked = Container(image="i", **options)  # type: ignore[arg-type]
        return agent_command.in_container(asked, plan, ["agent"], "/w", "i").argv

    words = flags()
    assert [word for word in words if word.startswith("--device=/dev/davinci")] == [
        "--device=/dev/davinci0",
        "--device=/dev/davinci1",
        "--device=/dev/davinci_manager",
    ]
    assert "--ulimit=memlock=-1" in words
    assert not [word for word in flags(devices=["/dev/x"]) if "davinci" in word]
    assert not [word for word in flags(runtime="ascend") if "davinci" in word]


def test_a_toolkits_script_is_read_for_its_variables(tmp_path: Path) -> None:
    script = tmp_path / "set env.sh"
    script.write_text("export TOOLKIT_HOME=/opt/kit\nexport PATH=/opt/kit/bin:$PATH\necho noise\n")
    found, warnings = variables([str(script), "/nowhere/set_env.sh"], {"HOME": "/root"})
    assert found["TOOLKIT_HOME"] == "/opt/kit" and found["PATH"].startswith("/opt/kit/bin:") and not warnings
    assert "PWD" not in found and "SHLVL" not in found
