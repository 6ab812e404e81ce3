"""Where a device is plugged in, from the kernel's files: its NUMA node and its link, whoever made it."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Optional

from trainmark.devices.node_side.readings import number
from trainmark.devices.node_side.roots import sysfs

_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def place(bus: Optional[str]) -> Dict[str, Any]:
    """Facts of the device at an address such as `0000:61:00.0`; empty where the kernel tells nothing."""
    found = _ADDRESS.search((bus or "").lower())
    if found is None:
        return {}
    folder = os.path.join(sysfs(), "bus/pci/devices", found.group(0))
    values = {
        "numa": _number(folder, "numa_node"),
        "width": _number(folder, "current_link_width"),
        "most_width": _number(folder, "max_link_width"),
        "gigatransfers": _number(folder, "current_link_speed"),
        "most_gigatransfers": _number(folder, "max_link_speed"),
    }
    # -1: the machine has one node, or does not say.
    return {name: value for name, value in values.items() if value is not None and value >= 0}


def _number(folder: str, name: str) -> Optional[float]:
    try:
        with open(os.path.join(folder, name)) as file:
            return number(file.read(64))
    except OSError:
        return None
