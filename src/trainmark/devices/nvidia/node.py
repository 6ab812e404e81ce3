"""NVIDIA's devices on a node: by its library where that is installed, else by nvidia-smi."""

from __future__ import annotations

from typing import Any, Dict

from trainmark.devices.node_side import library, readings
from trainmark.devices.node_side.tools import Tool
from trainmark.devices.nvidia import nvml, smi

VENDOR = "nvidia"
UNITS = readings.UNITS
_TOOL = Tool("nvidia-smi", ["-q", "-x"], smi.parse, files="/dev/nvidia[0-9]*")


def detect() -> Dict[str, Any]:
    return library.detect(VENDOR, "nvml", nvml.Nvml, _TOOL)


class Sampler(library.LibrarySampler):
    def __init__(self) -> None:
        super().__init__(nvml.Nvml, _TOOL)
