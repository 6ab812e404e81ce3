"""NVIDIA's devices on a node: by its library where that is installed, else by nvidia-smi."""

from __future__ import annotations

from typing import Any, Dict, Optional

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.tools import Problem, Reading, Tool, ToolSampler, detected
from trainmark.devices.nvidia import nvml, smi

VENDOR = "nvidia"
UNITS = readings.UNITS
_TOOL = Tool("nvidia-smi", ["-q", "-x"], smi.parse, files="/dev/nvidia[0-9]*")


def detect() -> Dict[str, Any]:
    try:
        library = nvml.Nvml()
    except nvml.NvmlError as error:
        return detected(VENDOR, "nvml", Reading([], None, error.problem))
    except (OSError, AttributeError):
        return detected(VENDOR, _TOOL.name, _TOOL.read())
    return detected(VENDOR, "nvml", Reading(library.devices(), library.driver(), library.problem))


class Sampler:
    """Opens the library once; a sample costs no process then."""

    def __init__(self) -> None:
        self._library: Optional[nvml.Nvml] = None
        self._tool = ToolSampler(_TOOL)
        try:
            self._library = nvml.Nvml()
        except (nvml.NvmlError, OSError, AttributeError):
            pass

    @property
    def problem(self) -> Problem:
        return self._tool.problem if self._library is None else self._library.problem

    def sample(self, rank_pids: Dict[int, int]) -> Dict[str, Any]:
        if self._library is None:
            return self._tool.sample(rank_pids)
        return {"devices": readings.sampled(self._library.sample())}
