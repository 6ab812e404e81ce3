"""Hygon's devices on a node, by `hy-smi`, which writes as `rocm-smi` does; older kits have it under that name."""

from __future__ import annotations

from typing import Any, Dict

from trainmark.devices.amd import rocm
from trainmark.devices.node_side import readings
from trainmark.devices.node_side.tools import Parsed, Reading, Tool, ToolSampler, detected

VENDOR = "dcu"
UNITS = readings.UNITS


def parse(text: str) -> Parsed:
    """Only what Hygon's tool shows: AMD's devices are not these."""
    found = rocm.parse(text)
    if found.devices is None:
        return found
    if not any(word in text.lower() for word in ("dcu use", "hcu use", "dcu ", "hygon")):
        return Parsed(None)
    return found


_FOLDERS = ("/opt/hyhal/bin", "/usr/local/hyhal/bin", "/opt/dtk/bin")
_HY = Tool("hy-smi", rocm.ARGUMENTS, parse, _FOLDERS)
_ROCM = Tool("rocm-smi", rocm.ARGUMENTS, parse, _FOLDERS)


def _tool() -> Tool:
    return _HY if _HY.there() else _ROCM


def detect() -> Dict[str, Any]:
    tool = _tool()
    reading = tool.read()
    if tool is _ROCM and not reading.devices:
        reading = Reading([])  # a tool of this name may be AMD's
    return detected(VENDOR, tool.name, reading)


class Sampler(ToolSampler):
    def __init__(self) -> None:
        super().__init__(_tool())
