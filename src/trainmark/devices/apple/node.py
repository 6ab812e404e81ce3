"""Apple's GPUs: whether this is a Mac with one. They are not sampled: no tool tells without root."""

from __future__ import annotations

import os
from typing import Any, Dict

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.tools import Reading, detected, said

VENDOR = "apple"
UNITS = readings.UNITS


def detect() -> Dict[str, Any]:
    names = os.uname()
    if names.sysname != "Darwin" or names.machine != "arm64":
        return detected(VENDOR, "", Reading([]))
    model = said(["sysctl", "-n", "machdep.cpu.brand_string"]).text.strip() or None
    return detected(VENDOR, "sysctl", Reading([{"index": 0, "model": model}]))


class Sampler:
    def sample(self, rank_pids: Dict[int, int]) -> Dict[str, Any]:
        del rank_pids
        return {"devices": []}
