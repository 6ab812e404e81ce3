"""Kunlunxin's devices on a node, as `xpu-smi -m` lists them: one line each, 32 fields on the P800.

Intel's tool has the same name and other output; a line with another number of fields is not read.
"""

from __future__ import annotations

import glob
import shlex
from typing import Any, Dict, List

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.readings import mib, number, percent
from trainmark.devices.node_side.tools import Parsed, Reading, Tool, ToolSampler, detected

VENDOR = "kunlunxin"
UNITS = readings.UNITS
_FIELDS = 32
_FILES = "/dev/xpu[0-9]*"


def parse(text: str) -> Parsed:
    devices: List[Dict[str, Any]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            words = shlex.split(line)
        except ValueError:
            return Parsed(None)
        if len(words) != _FIELDS:
            return Parsed(None)
        devices.append(
            {
                "index": len(devices),
                "id": words[1],
                "model": " ".join(words[21:23]),
                "temperature_c": number(words[4]),
                "power_w": number(words[8]),
                "memory_used": mib(words[17]),
                "memory_total": mib(words[18]),
                "utilisation": percent(words[19]),
            }
        )
    return Parsed(devices)


_TOOL = Tool("xpu-smi", ["-m"], parse, files=_FILES)


def detect() -> Dict[str, Any]:
    # Where there is no device file, a tool of this name is somebody else's.
    reading = _TOOL.read() if glob.glob(_FILES) or _TOOL.there() is None else _without_files()
    return detected(VENDOR, _TOOL.name, reading)


def _without_files() -> Reading:
    reading = _TOOL.read()
    return reading if reading.devices else Reading([])


class Sampler(ToolSampler):
    def __init__(self) -> None:
        super().__init__(_TOOL)
