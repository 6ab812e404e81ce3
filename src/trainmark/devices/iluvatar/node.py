"""Iluvatar's devices on a node, as the table of `ixsmi` shows them."""

from __future__ import annotations

import re
from typing import Any, Dict

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.readings import mib, number, pairs_of_lines, percent
from trainmark.devices.node_side.tools import Parsed, Tool, ToolSampler, detected

VENDOR = "iluvatar"
UNITS = readings.UNITS
_NAME = re.compile(r"\|\s*(\d+)\s+(\S.*?)\s*\|\s*([0-9A-Fa-f:.]+)\s*\|\s*(\d+)\s*MHz\s+(\d+)\s*MHz\s*\|")
_STATE = re.compile(
    r"\|\s*(?:\d+%|N/A)\s+(\d+)C\s+\S+\s+(\S+)W\s*/\s*(\S+)W\s*\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*(\d+)%"
)
_DRIVER = re.compile(r"Driver Version:\s*(\S+)")


def parse(text: str) -> Parsed:
    """Two lines for each card."""
    driver = _DRIVER.search(text)
    devices = [_card(name, state) for name, state in pairs_of_lines(text, _NAME, _STATE)]
    return Parsed(devices if "IX-ML" in text else None, driver.group(1) if driver else None)


def _card(name: Any, state: Any) -> Dict[str, Any]:
    return {
        "index": int(name.group(1)),
        "model": name.group(2),
        "bus": name.group(3),
        "clock_mhz": number(name.group(4)),
        "memory_clock_mhz": number(name.group(5)),
        "temperature_c": number(state.group(1)),
        "power_w": number(state.group(2)),
        "power_limit_w": number(state.group(3)),
        "memory_used": mib(state.group(4)),
        "memory_total": mib(state.group(5)),
        "utilisation": percent(state.group(6)),
    }


_TOOL = Tool("ixsmi", [], parse, ("/usr/local/corex/bin",), "/dev/iluvatar[0-9]*")


def detect() -> Dict[str, Any]:
    return detected(VENDOR, _TOOL.name, _TOOL.read())


class Sampler(ToolSampler):
    def __init__(self) -> None:
        super().__init__(_TOOL)
