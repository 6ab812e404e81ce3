"""Cambricon's devices on a node, as the table of `cnmon` shows them."""

from __future__ import annotations

import re
from typing import Any, Dict, List

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.readings import mib, number, pairs_of_lines, percent
from trainmark.devices.node_side.tools import Parsed, Tool, ToolSampler, detected

VENDOR = "cambricon"
UNITS = readings.UNITS
_NAME = re.compile(r"\|\s*(\d+)\s+(\S+)\s+(\S+)\s+(v\S+)\s*\|\s*(.*?)\s*\|\s*(\d+)\s*%\s*(\S+)\s*\|")
_STATE = re.compile(
    r"\|\s*(?:\d+\s*%|N/A|/)\s+(\d+)\s*C\s+([\d.]+)\s*W\s*/\s*([\d.]+)\s*W\s*\|\s*(\d+)\s*MiB\s*/\s*(\d+)\s*MiB\s*\|"
)
_DRIVER = re.compile(r"Driver (v\S+)")
_HEAD = "Pwr:Usage/Cap"


def parse(text: str) -> Parsed:
    """Two lines for each card. Old tools have the driver in the middle column, newer ones in the title."""
    found = _DRIVER.search(text)
    driver = found.group(1) if found else None
    devices: List[Dict[str, Any]] = []
    for name, state in pairs_of_lines(text, _NAME, _STATE):
        devices.append(_card(name, state))
        words = name.group(5).split()
        if driver is None and words and words[-1].startswith("v"):
            driver = words[-1]
    return Parsed(devices if _HEAD in text else None, driver)


def _card(name: Any, state: Any) -> Dict[str, Any]:
    bus = name.group(5).split()[-1]
    return {
        "index": int(name.group(1)),
        "model": name.group(3),
        "firmware": name.group(4),
        "bus": bus if ":" in bus else None,
        "utilisation": percent(name.group(6)),
        "uncorrected": number(name.group(7)),
        "temperature_c": number(state.group(1)),
        "power_w": number(state.group(2)),
        "power_limit_w": number(state.group(3)),
        "memory_used": mib(state.group(4)),
        "memory_total": mib(state.group(5)),
    }


_TOOL = Tool("cnmon", [], parse, ("/usr/bin", "/usr/local/neuware/bin"), "/dev/cambricon_dev[0-9]*")


def detect() -> Dict[str, Any]:
    return detected(VENDOR, _TOOL.name, _TOOL.read())


class Sampler(ToolSampler):
    def __init__(self) -> None:
        super().__init__(_TOOL)
