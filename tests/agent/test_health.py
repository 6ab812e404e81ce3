"""The health of a node: recorded outputs (see health_outputs/SOURCES.md) as facts."""

from __future__ import annotations

from pathlib import Path

from trainmark.agent.health import collect, parse
from trainmark.devices.nvidia import smi

OUTPUTS = Path(__file__).with_name("health_outputs")


def recorded(name: str) -> str:
    return (OUTPUTS / name).read_text()


def ports(root: Path) -> Path:
    """A /sys with the recorded ports."""
    for line in recorded("infiniband.txt").splitlines():
        path, _, value = line.partition(" ")
        file = root / "sys/class/infiniband" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value + "\n")
    return root


def test_ports_of_infiniband_and_roce(tmp_path: Path) -> None:
    found = collect.infiniband(str(ports(tmp_path)))
    active, waiting, down = (found[f"mlx5_{number}/1"] for number in range(3))
    assert (active["state"], active["physical"], active["gigabits"]) == ("ACTIVE", "LinkUp", 100.0)
    assert active["errors"] == {"symbol_error": 0, "link_downed": 3}
    assert (waiting["state"], waiting["rate"]) == ("INIT", "56 Gb/sec (4X FDR)")
    assert (down["state"], down["physical"], down["layer"]) == ("DOWN", "Disabled", "Ethernet")
    assert collect.infiniband(str(tmp_path / "none")) == {}


def test_nvidia_devices() -> None:
    text = recorded("nvidia-smi-a100.xml")
    found = smi.device_log(text)
    assert found is not None and found["driver"] == "535.54.03"
    first, second = found["devices"]
    assert first["model"] == "NVIDIA A100-SXM4-80GB" and first["ecc"] is True and first["uncorrected"] == 0
    assert (first["width"], first["most_width"], first["slowed_by"]) == (16, 16, [])
    assert second["remap_failed"] is None, "N/A is not known, and not `no`"
    hot = text.replace("hw_thermal_slowdown>Not Active", "hw_thermal_slowdown>Active").replace(
        "<dram_uncorrectable>0", "<dram_uncorrectable>2"
    )
    sick = smi.device_log(hot)
    assert sick is not None and sick["devices"][0]["uncorrected"] == 2
    assert sick["devices"][0]["slowed_by"] == ["hw_thermal_slowdown"]
    assert smi.device_log("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") is None
    assert smi.device_log("") is None and smi.device_log("<other/>") is None


def test_nvlinks() -> None:
    found = smi.nvlink(recorded("nvlink-h100-pcie.txt"))
    assert found == {"0": {"up": 12, "down": 6, "speeds": [26.562]}, "1": {"up": 2, "down": 0, "speeds": [26.562]}}
    assert smi.nvlink("no devices were found") == {}


def test_xids_of_the_kernel_log() -> None:
    assert smi.xids(recorded("kernel-xid.txt")) == [
        {"device": "0000:01:00", "xid": 31, "count": 2},
        {"device": "0000:3b:00", "xid": 79, "count": 2},
    ]


def test_the_file_system_of_a_path() -> None:
    mounts = recorded("mountinfo.txt")

    def of(path: str) -> dict[str, object]:
        return parse.mount_of(path, mounts) or {}

    assert of("/usr/lib")["point"] == "/" and of("/")["type"] == "ext4"
    assert of("/home/me") == {
        "point": "/home",
        "type": "nfs4",
        "options": ["hard", "noatime", "rw", "vers=4.2"],
        "network": True,
    }
    assert of("/homestead")["point"] == "/", "a name that only begins like a mount point"
    assert of("/my data/x")["network"] is True and "ro" in str(of("/my data")["options"])


def test_this_machine() -> None:
    """Every fact is there or None, whatever the machine has."""
    found = collect.health([str(OUTPUTS), "/no/such/folder/yet"])
    assert found["kernel"] and found["limits"]["nofile"] > 0 and found["mounts"][str(OUTPUTS)]["free"] > 0
    assert found["mounts"]["/no/such/folder/yet"]["point"] and found["synchronised"] in (True, False, None)
