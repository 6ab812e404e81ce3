"""Small parts: peaks by the device's own name, AMD's files, flags of containers, scripts of toolkits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.conftest import Cli
from trainmark.agent.vendor_setup import variables
from trainmark.devices import protocol
from trainmark.devices.amd import node as amd
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
