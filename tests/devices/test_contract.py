"""Every device that ships, through the same tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.devices.node_side.readings import MIB
from trainmark.devices.protocol import REGISTRY, dense_peak, device_of
from trainmark.errors import UserError
from trainmark.testing.devices import DeviceContract, RecordedToolContract

RECORDINGS = Path(__file__).parent / "recordings"


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text()


class TestCpu(DeviceContract):
    present = True

    @pytest.fixture
    def vendor(self) -> str:
        return "cpu"


class TestApple(DeviceContract):
    @pytest.fixture
    def vendor(self) -> str:
        return "apple"


class TestNvidia(RecordedToolContract):
    tool = "nvidia-smi"
    recordings = (
        (
            recorded("nvidia-smi-t4.xml"),
            "515.105.01",
            [
                {
                    "model": "Tesla T4",
                    "width": 8,
                    "most_width": 16,
                    "mig": None,
                    "power_w": 26.78,
                    "temperature_c": 40.0,
                    "memory_temperature_c": None,
                    "memory_used": 1032 * MIB,
                    "memory_total": 15360 * MIB,
                    "utilisation": 0.0,
                    "clock_mhz": 585.0,
                    "slowed": 0,
                }
            ],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "nvidia"


class TestAscend(RecordedToolContract):
    tool = "npu-smi"
    recordings = (
        (
            recorded("npu-smi-910a.txt"),
            "22.0.3.1",
            [
                {
                    "model": "910A",
                    "bus": "0000:61:00.0",
                    "power_w": 67.2,
                    "temperature_c": 43.0,
                    "memory_used": 0.0,
                    "memory_total": 32768 * MIB,
                    "utilisation": 0.0,
                    "healthy": 1,
                }
            ],
        ),
        (
            recorded("npu-smi-a3.txt"),
            "25.3.rc1",
            [
                {"model": "Ascend910", "card": 0, "chip": 0, "power_w": 163.6, "memory_used": 3180 * MIB},
                {"model": "Ascend910", "card": 0, "chip": 1, "power_w": None, "memory_used": 57784 * MIB},
            ],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "ascend"


class TestAmd(RecordedToolContract):
    tool = "rocm-smi"
    recordings = (
        (
            recorded("rocm-smi-mi100-6.0.2.json"),
            "6.3.6",
            [
                {
                    "model": "Arcturus GL-XL [Instinct MI100]",
                    "power_w": 36.0,
                    "temperature_c": 55.0,
                    "memory_total": 34342961152.0,
                    "memory_used": 6750208.0,
                    "clock_mhz": 300.0,
                }
            ],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "amd"


class TestDcu(RecordedToolContract):
    tool = "rocm-smi"
    recordings = (
        (
            recorded("rocm-smi-dtk-24.04.3.json"),
            None,
            [{"model": "DCU xxxx", "power_w": 80.0, "memory_total": 65520 * MIB, "memory_used": 2 * MIB}],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "dcu"


class TestCambricon(RecordedToolContract):
    tool = "cnmon"
    recordings = (
        (
            recorded("cnmon-4.6.9.txt"),
            "v4.6.9",
            [{"model": "MLU220-M2", "power_w": 3.7, "temperature_c": 51.0, "uncorrected": None, "bus": None}],
        ),
        (
            recorded("cnmon-5.10.22.txt"),
            "v5.10.22",
            [{"model": "MLU370-X8", "power_w": 107.0, "memory_total": 20638 * MIB, "uncorrected": 0.0}],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "cambricon"


class TestIluvatar(RecordedToolContract):
    tool = "ixsmi"
    recordings = (
        (
            recorded("ixsmi-3.1.1.txt"),
            "3.1.0",
            [{"model": "Iluvatar BI-V100", "power_w": 40.0, "memory_used": 257 * MIB, "clock_mhz": 1500.0}],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "iluvatar"


class TestMthreads(RecordedToolContract):
    tool = "mthreads-gmi"
    recordings = (
        (
            recorded("mthreads-gmi-2.3.2.txt"),
            "3.3.5-server",
            [{"model": "MTT S5000", "temperature_c": 52.0, "memory_used": 66641 * MIB, "power_w": None, "width": 16}],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "mthreads"


class TestMetax(RecordedToolContract):
    tool = "mx-smi"
    recordings = (
        (
            recorded("mx-smi-2.2.4.txt"),
            "2.15.9",
            [{"model": "MetaX C550", "power_w": 53.0, "temperature_c": 29.0, "memory_used": 858 * MIB}],
        ),
        (
            recorded("mx-smi-2.2.9.txt"),
            "3.4.4",
            [{"model": "MetaX C500", "power_w": 57.0, "temperature_c": 35.0, "memory_used": 826 * MIB}],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "metax"


class TestIntel(RecordedToolContract):
    tool = "xpu-smi"
    recordings = (
        (
            recorded("intel-xpu-smi-dump.csv"),
            None,
            [{"power_w": 43.72, "clock_mhz": 2050.0, "utilisation": None, "temperature_c": None}],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "intel"


class TestKunlunxin(RecordedToolContract):
    """No recording of it is public: this line has the places of its fields, and is made by hand."""

    tool = "xpu-smi"
    recordings = (
        (
            " ".join(
                {1: "0", 4: "41", 8: "87", 17: "512", 18: "98304", 19: "7", 21: "P800", 22: "OAM"}.get(at, "x")
                for at in range(32)
            )
            + "\n",
            None,
            [{"model": "P800 OAM", "power_w": 87.0, "temperature_c": 41.0, "memory_total": 98304 * MIB}],
        ),
    )

    @pytest.fixture
    def vendor(self) -> str:
        return "kunlunxin"


def test_every_device_is_held_against_a_contract() -> None:
    tested = {
        "cpu", "apple", "nvidia", "ascend", "amd", "dcu", "cambricon", "iluvatar", "mthreads", "metax", "intel",
        "kunlunxin",
    }  # fmt: skip
    assert set(REGISTRY.names()) == tested
    assert {name for name in tested if not REGISTRY.get(name).verified} == {"apple", "kunlunxin"}


def test_an_unknown_device_is_told_with_the_cure() -> None:
    with pytest.raises(UserError, match=r"device `A100` is not known; it is a vendor \(.*`nvidia`"):
        device_of("A100", "A100", "lab")


def test_no_peak_is_guessed() -> None:
    assert dense_peak("nvidia", "a model of next year", "bf16") is None
    assert dense_peak("a vendor of an imported run", "X", "fp32") is None
