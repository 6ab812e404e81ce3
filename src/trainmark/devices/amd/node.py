"""AMD's devices on a node, from the kernel's files: no process is started for them. Without the driver, rocm-smi.

The files are those of the kernel's documentation of amdgpu (`gpu_busy_percent`, `mem_info_vram_total`, …).
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, List, Optional

from trainmark.devices.amd import rocm
from trainmark.devices.node_side import readings
from trainmark.devices.node_side.readings import number, scaled
from trainmark.devices.node_side.roots import sysfs
from trainmark.devices.node_side.tools import Problem, Reading, Tool, ToolSampler, detected

VENDOR = "amd"
UNITS = readings.UNITS
_PCI_VENDOR = "0x1002"
_TOOL = Tool("rocm-smi", rocm.ARGUMENTS, rocm.parse, ("/opt/rocm/bin",))


def folders() -> List[str]:
    """Of each device, in the order of their numbers; a card without memory of its own is a display's."""
    found = []
    for path in glob.glob(os.path.join(sysfs(), "class/drm/card*")):
        number_of = re.match(r"card(\d+)$", os.path.basename(path))
        device = os.path.join(path, "device")
        if number_of and _text(device, "vendor") == _PCI_VENDOR and _text(device, "mem_info_vram_total"):
            found.append((int(number_of.group(1)), device))
    return [device for _, device in sorted(found)]


def read(index: int, folder: str) -> Dict[str, Any]:
    sensors = sorted(glob.glob(os.path.join(folder, "hwmon", "hwmon*")))
    sensor = sensors[0] if sensors else folder
    power = _text(sensor, "power1_average") or _text(sensor, "power1_input")
    return {
        "index": index,
        "model": _text(folder, "product_name") or _text(folder, "device"),
        "bus": os.path.basename(os.path.realpath(folder)),
        "uuid": _text(folder, "unique_id"),
        "firmware": _text(folder, "vbios_version"),
        "utilisation": scaled(_text(folder, "gpu_busy_percent"), 0.01),
        "memory_utilisation": scaled(_text(folder, "mem_busy_percent"), 0.01),
        "memory_total": number(_text(folder, "mem_info_vram_total")),
        "memory_used": number(_text(folder, "mem_info_vram_used")),
        "power_w": scaled(power, 1e-6),
        "power_limit_w": scaled(_text(sensor, "power1_cap"), 1e-6),
        "energy_j": scaled(_text(sensor, "energy1_input"), 1e-6),
        "temperature_c": scaled(_text(sensor, "temp2_input") or _text(sensor, "temp1_input"), 1e-3),
        "clock_mhz": scaled(_text(sensor, "freq1_input"), 1e-6),
        "memory_clock_mhz": scaled(_text(sensor, "freq2_input"), 1e-6),
        "pcie_replays": number(_text(folder, "pcie_replay_count")),
    }


def _text(folder: str, name: str) -> Optional[str]:
    try:
        with open(os.path.join(folder, name), errors="replace") as file:
            return file.read(4096).strip() or None
    except OSError:
        return None


def _reading() -> Reading:
    found = folders()
    driver = _text(os.path.join(sysfs(), "module/amdgpu"), "version")
    return Reading([read(index, folder) for index, folder in enumerate(found)], driver)


def detect() -> Dict[str, Any]:
    reading = _reading()
    if reading.devices:
        return detected(VENDOR, "sysfs", reading)
    told = _TOOL.read()
    # Hygon's devices are shown by a tool of this name, too.
    others = [one for one in told.devices if "dcu" in str(one.get("model")).lower()]
    return detected(VENDOR, _TOOL.name, told if not others else Reading([]))


class Sampler:
    def __init__(self) -> None:
        self._folders = folders()
        self._tool = ToolSampler(_TOOL)

    @property
    def problem(self) -> Problem:
        return None if self._folders else self._tool.problem

    def sample(self, rank_pids: Dict[int, int]) -> Dict[str, Any]:
        if not self._folders:
            return self._tool.sample(rank_pids)
        return {"devices": readings.sampled([read(index, folder) for index, folder in enumerate(self._folders)])}
