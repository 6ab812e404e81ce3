"""Devices from the vendor's library or tool through agent and run directory to report and FlagPerf's monitor log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli

SHORT = ("--set", "seconds=2.4", "--set", "steps=24")


def samples(run: Path) -> list[dict[str, Any]]:
    (file,) = run.glob("*/round1/attempt1/*/samples.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()[1:]]


def facts(run: Path) -> dict[str, Any]:
    (file,) = run.glob("*/round1/attempt1/*/facts.json")
    found: dict[str, Any] = json.loads(file.read_text())["accelerators"]
    return found


def visible(run: Path, name: str) -> list[str]:
    logs = sorted(run.glob("*/round1/attempt1/*/rank*/env.log"))
    return [re.findall(rf"^{name}=(.*)$", log.read_text(), re.M)[0] for log in logs]


def run_folder(cli: Cli) -> Path:
    return cli.folder / "runs" / cli.run_id()


def export(cli: Cli, vendor: str) -> str:
    cli("export", "flagperf", cli.run_id(), "-o", "flagperf")
    (log,) = (cli.folder / "flagperf").rglob(f"{vendor}_monitor.log")
    return log.read_text()


def test_nvml_from_the_library_to_the_report(cli: Cli, fake_nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1,2")
    monkeypatch.setenv("FAKE_NVML_XID", "79")
    cli("run", "noop:none:nvidia:1:2:1", *SHORT)
    run = run_folder(cli)
    assert visible(run, "CUDA_VISIBLE_DEVICES") == ["3", "1"], "rank i gets the i-th of what was inherited"
    found = facts(run)
    assert (found["source"], found["driver"], found["count"]) == ("nvml", "535.54.03", 4)
    assert found["devices"][2]["model"] == "NVIDIA A100-SXM4-80GB" and found["devices"][2]["ecc"] is True
    assert (found["devices"][2]["links"], found["devices"][2]["near"]) == (2, ["system", "system", None, "board"])
    read = [record for record in samples(run) if "devices" in record]
    assert read and all(len(record["devices"]) == 4 for record in read)
    last = read[-1]["devices"]
    assert [one["power_w"] for one in last] == [100.0, 150.0, 200.0, 250.0]
    assert (last[1]["error"], last[1]["errors"], last[2]["uncorrected"], last[3]["slowed"]) == (79, 1, 2, 1)
    assert last[0]["pcie_rx"] == pytest.approx(2e9, rel=0.2) and last[0]["link_tx"] == pytest.approx(1.024e9, rel=0.2)
    block = export(cli, "nvidia").split("\n\n")[0].splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d", block[0])
    assert block[1:] == [f"{50 + i}C {100 + 50 * i}W {1024 * (i + 1)}MiB 81920MiB {90 + i}%" for i in range(4)]


def test_dcmi_from_the_library_to_the_monitor_log(cli: Cli, fake_dcmi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "2,3")
    cli("run", "noop:none:ascend:1:2:1", *SHORT)
    run = run_folder(cli)
    assert visible(run, "ASCEND_RT_VISIBLE_DEVICES") == ["2", "3"]
    found = facts(run)
    assert (found["source"], found["driver"], found["count"], found["used"]) == ("dcmi", "25.2.0", 4, [2, 3])
    assert [(one["card"], one["chip"]) for one in found["devices"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found["devices"][3] == {
        "index": 3, "card": 1, "chip": 1, "model": "910B3", "bus": "0000:64:00.0", "memory_total": 64 << 30, "ecc": True
    }  # fmt: skip
    last = [record for record in samples(run) if "devices" in record][-1]["devices"]
    assert [one["power_w"] for one in last] == [100.0, 150.0, 200.0, 250.0]
    assert (last[2]["uncorrected"], last[3]["healthy"], last[3]["error"]) == (1, 0, 0x80E01801)
    assert last[0]["roce_rx"] == pytest.approx(2e9, rel=0.05) and last[0]["roce_tx"] == pytest.approx(3e9, rel=0.05)
    assert (last[0]["roce_errors"], last[0]["roce_retries"], last[0]["retired_pages"]) == (4, 7, 3)
    block = export(cli, "ascend").split("\n\n")[0].splitlines()
    assert block[1:] == [f"{40 + i}C {100 + 50 * i}W {1024 * (i + 1)}MiB 65536MiB {90 + i}%" for i in range(4)]


_TOOLS = {
    "ascend": ("npu-smi", "npu-smi-910a.txt", "ASCEND_RT_VISIBLE_DEVICES", "43C 67W 0MiB 32768MiB 0%"),
    "nvidia": ("nvidia-smi", "nvidia-smi-t4.xml", "CUDA_VISIBLE_DEVICES", "40C 27W 1032MiB 15360MiB 0%"),
    "amd": ("rocm-smi", "rocm-smi-mi100-6.0.2.json", "HIP_VISIBLE_DEVICES", "55C 36W 6MiB 32752MiB 0%"),
    "dcu": ("rocm-smi", "rocm-smi-dtk-24.04.3.json", "HIP_VISIBLE_DEVICES", "39C 80W 2MiB 65520MiB 0%"),
    "cambricon": ("cnmon", "cnmon-5.10.22.txt", "MLU_VISIBLE_DEVICES", "28C 107W 0MiB 20638MiB 0%"),
    "iluvatar": ("ixsmi", "ixsmi-3.1.1.txt", "CUDA_VISIBLE_DEVICES", "30C 40W 257MiB 32768MiB 0%"),
    "metax": ("mx-smi", "mx-smi-2.2.9.txt", "MACA_VISIBLE_DEVICES", "35C 57W 826MiB 65536MiB 0%"),
    # Its table has no power, and FlagPerf's line no way to say so.
    "mthreads": ("mthreads-gmi", "mthreads-gmi-2.3.2.txt", "MUSA_VISIBLE_DEVICES", ""),
    "intel": ("xpu-smi", "intel-xpu-smi-dump.csv", "ZE_AFFINITY_MASK", ""),
}
_MOST = [pytest.param(vendor, marks=[] if vendor == "ascend" else pytest.mark.lab) for vendor in _TOOLS]


@pytest.mark.parametrize("vendor", _MOST)
def test_a_tool_from_its_recording_to_the_monitor_log(
    cli: Cli, fake_tool: Callable[..., None], monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    tool, recording, variable, line = _TOOLS[vendor]
    monkeypatch.delenv(variable, raising=False)
    fake_tool(tool, recording)
    cli("run", f"noop:none:{vendor}:1:1:1", *SHORT)
    run = run_folder(cli)
    assert visible(run, variable) == ["0"]
    assert facts(run)["source"] == tool and facts(run)["used"] == [0]
    assert any(record.get("devices") for record in samples(run))
    told = export(cli, vendor).splitlines()
    assert told[1] == line


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"FAKE_DCMI_CARDS": "0"}, "the driver answers libdcmi.so, and has no device"),
        ({"FAKE_DCMI_INIT": "-8005"}, "libdcmi.so finds no working driver: the driver does not answer (-8005)"),
        ({"FAKE_DCMI_INIT": "-8020"}, "libdcmi.so failed: another container has the devices (-8020)"),
        ({"FAKE_DCMI_CARDS": "1", "ASCEND_RT_VISIBLE_DEVICES": "0"}, "the environment allows only `0`"),
    ],
)
def test_what_dcmi_says_against_a_run_is_told_before_anything_starts(
    cli: Cli, fake_dcmi: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str], said: str
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    done = cli("run", "noop:none:ascend:1:2:1", code=3)
    assert said in " ".join((done.stdout + done.stderr).split())
    assert not (cli.folder / "runs").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"FAKE_NVML_DEVICES": "1"}, "2 ranks need a nvidia device each, and there are 1"),
        ({"FAKE_NVML_DEVICES": "0"}, "the driver answers libnvidia-ml.so.1, and has no device"),
        ({"FAKE_NVML_NO_DRIVER": "1"}, "finds no working driver: the driver is not loaded"),
        ({"FAKE_NVML_MIXED": "1"}, "are of different models: NVIDIA A100-SXM4-80GB, NVIDIA T400"),
        ({"CUDA_VISIBLE_DEVICES": "2"}, "the environment allows only `2`"),
    ],
)
def test_devices_that_ranks_would_not_have_are_told_before_anything_starts(
    cli: Cli, fake_nvml: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str], said: str
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    done = cli("run", "noop:none:nvidia:1:2:1", code=3)
    assert said in " ".join((done.stdout + done.stderr).split())
    assert not (cli.folder / "runs").exists()


def test_an_absent_device_and_a_tool_that_hangs(cli: Cli, fake_tool: Callable[..., None]) -> None:
    done = cli("run", "noop:none:cambricon:1:1:1", code=3)
    assert "no cambricon device was found" in done.stdout + done.stderr
    fake_tool("cnmon", "", hangs=True)
    done = cli("run", "noop:none:cambricon:1:1:1", code=3)
    assert "cnmon did not answer within 10 s" in done.stdout + done.stderr


def test_a_device_that_goes_away_after_the_check_ends_the_round(
    cli: Cli, fake_tool: Callable[..., None], tmp_path: Path
) -> None:
    """The check and the agent look one after the other: here the second look finds nothing."""
    fake_tool("mx-smi", "mx-smi-2.2.4.txt")
    tool = tmp_path / "tools" / "mx-smi"
    tool.write_text(tool.read_text().replace("exec cat", f"rm -f {tool}\nexec cat"))
    cli("run", "noop:none:metax:1:1:1", code=1)
    assert "no metax device was found" in cli("report", cli.run_id(), code=None).stdout
