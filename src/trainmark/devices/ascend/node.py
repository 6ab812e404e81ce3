"""Ascend's devices on a node: by its library DCMI where that is installed, else as `npu-smi info` shows them."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from trainmark.devices.ascend import dcmi, hccn
from trainmark.devices.node_side import library, readings
from trainmark.devices.node_side.readings import flag, mib, number, percent
from trainmark.devices.node_side.tools import Parsed, Tool

VENDOR = "ascend"
UNITS = readings.UNITS
# Two lines for each chip: those of its card first.
_CARD = re.compile(r"\|\s*(\d+)\s+(\S+)\s*\|\s*(\w+)\s*\|\s*([\d.]+|-|NA)\s+(\d+|-|NA)\s+")
_CHIP = re.compile(
    r"\|\s*(\d+)(?:\s+(\d+))?\s*\|\s*([0-9A-Fa-f:.]+)\s*\|\s*(\d+|-|NA)\s+(\d+)\s*/\s*(\d+)(?:\s+(\d+)\s*/\s*(\d+))?\s*\|"
)
_VERSION = re.compile(r"npu-smi\s+(\S+)|Version:\s*(\S+)")


def parse(text: str) -> Parsed:
    """Chips in the order of the table; a card of two has the power of both in the line of its first."""
    driver: Optional[str] = None
    devices: List[Dict[str, Any]] = []
    card: Optional[Any] = None
    headed = False
    for line in text.splitlines():
        version = _VERSION.search(line)
        if version and driver is None:
            driver = version.group(1) or version.group(2)
        headed = headed or ("AICore(%)" in line)
        if "Process" in line and headed:
            break  # the table of processes follows
        first, second = _CARD.match(line), _CHIP.match(line)
        if second and card is not None:
            devices.append(_chip(len(devices), card, second))
            card = None
        elif first:
            card = first
    return Parsed(devices if headed else None, driver)


def _chip(index: int, card: Any, chip: Any) -> Dict[str, Any]:
    # Devices with HBM have a second pair; others train in their DDR.
    used, total = (chip.group(7), chip.group(8)) if chip.group(8) else (chip.group(5), chip.group(6))
    return {
        "index": index,
        "card": int(card.group(1)),
        "chip": int(chip.group(1)),
        "model": card.group(2),
        "bus": chip.group(3),
        "healthy": flag(card.group(3), ("OK",)),
        "power_w": number(card.group(4)),
        "temperature_c": number(card.group(5)),
        "utilisation": percent(chip.group(4)),
        "memory_used": mib(used),
        "memory_total": mib(total),
    }


_TOOL = Tool("npu-smi", ["info"], parse, ("/usr/local/bin", "/usr/local/sbin"), "/dev/davinci[0-9]*")


def detect() -> Dict[str, Any]:
    return library.detect(VENDOR, "dcmi", dcmi.Dcmi, _TOOL)


class Sampler(library.LibrarySampler):
    """Where nobody else tells of the RoCE ports, `hccn_tool` does."""

    def __init__(self) -> None:
        super().__init__(dcmi.Dcmi, _TOOL)
        self._ports = hccn.Ports()

    def sample(self, rank_pids: Dict[int, int]) -> Dict[str, Any]:
        found = super().sample(rank_pids)
        if not any("roce_retries" in one for one in found["devices"]):
            self._ports.add(found["devices"])
        return found
