"""Intel's GPUs on a node, as `xpu-smi dump` writes them: one line of CSV each, empty where a counter is missing.

Kunlunxin's tool has the same name and other output; what has no header of Intel's is not read.
"""

from __future__ import annotations

import glob
import os
from typing import Any, Dict, List, Optional

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.readings import scaled
from trainmark.devices.node_side.roots import sysfs
from trainmark.devices.node_side.tools import Parsed, Reading, Tool, ToolSampler, detected

VENDOR = "intel"
UNITS = readings.UNITS
# The metrics asked for, in the order of their columns: number, name here, unit in the column's head, factor.
_METRICS = (
    ("0", "utilisation", "(%)", 0.01),
    ("1", "power_w", "(W)", 1.0),
    ("2", "clock_mhz", "(MHz)", 1.0),
    ("3", "temperature_c", "(Celsius Degree)", 1.0),
    ("8", "energy_j", "(J)", 1.0),
    ("18", "memory_used", "(MiB)", float(readings.MIB)),
)
_FIRST = 2  # before them stand time and device
_PCI_VENDOR, _DISPLAY = "0x8086", "0x03"


def parse(text: str) -> Parsed:
    """The last line of each device counts. A column in another unit than asked for is not read."""
    head: List[str] = []
    found: Dict[int, Dict[str, Any]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == "Timestamp" and "DeviceId" in cells:
            head = cells
        elif head and len(cells) == len(head) and cells[1].isdigit():
            found[int(cells[1])] = _device(int(cells[1]), head, cells)
    return Parsed([found[index] for index in sorted(found)] if head else None)


def _device(index: int, head: List[str], cells: List[str]) -> Dict[str, Any]:
    device: Dict[str, Any] = {"index": index, "model": None}
    for place, (_, name, unit, factor) in enumerate(_METRICS, _FIRST):
        if place < len(head) and head[place].endswith(unit):
            device[name] = scaled(cells[place], factor)
    return device


_TOOL = Tool("xpu-smi", ["dump", "-d", "-1", "-m", ",".join(each[0] for each in _METRICS), "-n", "1"], parse)


def _cards() -> int:
    """GPUs of Intel's that can compute: those of the processor itself are on bus 0."""
    count = 0
    for folder in glob.glob(os.path.join(sysfs(), "class/drm/card[0-9]*/device")):
        bus = os.path.basename(os.path.realpath(folder))
        kind = _text(os.path.join(folder, "class")) or ""
        count += _text(os.path.join(folder, "vendor")) == _PCI_VENDOR and kind[:4] == _DISPLAY and ":00:" not in bus
    return count


def _text(path: str) -> Optional[str]:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def detect() -> Dict[str, Any]:
    cards = _cards()
    reading = _TOOL.read()
    if not cards and not reading.devices:
        reading = Reading([])  # a tool of this name may be somebody else's
    return detected(VENDOR, _TOOL.name, reading)


class Sampler(ToolSampler):
    def __init__(self) -> None:
        super().__init__(_TOOL)
