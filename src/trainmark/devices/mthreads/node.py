"""Moore Threads' devices on a node, as the table of `mthreads-gmi` shows them. It has no power."""

from __future__ import annotations

import re
from typing import Any, Dict, List

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.readings import mib, number, percent
from trainmark.devices.node_side.tools import Parsed, Tool, ToolSampler, detected

VENDOR = "mthreads"
UNITS = readings.UNITS
_NAME = re.compile(r"\s*(\d+)\s+(\S.*?)\s*\|\s*([0-9A-Fa-f:.]+)\s*\|\s*(\d+)%\s+(\d+)MiB\s*\((\d+)MiB\)")
_STATE = re.compile(r"\s*\S+.*\|\s*(\d+)x\s*\((\d+)x\)\s*\|\s*(\d+)C\b")
_TITLE = re.compile(r"mthreads-gmi:\S+\s+Driver Version:\s*(\S+)")


def parse(text: str) -> Parsed:
    """Two lines or three for each card."""
    title = _TITLE.search(text)
    devices: List[Dict[str, Any]] = []
    for line in text.splitlines():
        first, second = _NAME.match(line), _STATE.match(line)
        if first:
            devices.append(
                {
                    "index": int(first.group(1)),
                    "model": first.group(2),
                    "bus": first.group(3),
                    "utilisation": percent(first.group(4)),
                    "memory_used": mib(first.group(5)),
                    "memory_total": mib(first.group(6)),
                }
            )
        elif second and devices and "temperature_c" not in devices[-1]:
            devices[-1].update(
                width=int(second.group(1)), most_width=int(second.group(2)), temperature_c=number(second.group(3))
            )
    return Parsed(devices if title else None, title.group(1) if title else None)


_TOOL = Tool("mthreads-gmi", [], parse, files="/dev/mtgpu.[0-9]*")


def detect() -> Dict[str, Any]:
    return detected(VENDOR, _TOOL.name, _TOOL.read())


class Sampler(ToolSampler):
    def __init__(self) -> None:
        super().__init__(_TOOL)
