"""MetaX's devices on a node, as the table of `mx-smi` shows them; its columns differ between versions.

Another maker's tool has the same name; a table without MetaX's title is not read.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.readings import mib, number, percent
from trainmark.devices.node_side.tools import Parsed, Tool, ToolSampler, detected

VENDOR = "metax"
UNITS = readings.UNITS
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]$")
_NAME = re.compile(r"(\d+)\s+(MetaX .*\S|MX\S+)")
_POWER = re.compile(r"(\d+)W\s*/\s*(\d+)W")
_TEMPERATURE = re.compile(r"(?:^|\s)(\d+)C(?:\s|$)")
_MEMORY = re.compile(r"(\d+)\s*/\s*(\d+)\s*MiB")
_DRIVER = re.compile(r"Kernel Mode Driver Version:\s*(\S+)")


def parse(text: str) -> Parsed:
    """Two lines for each card; in each the columns are told by what is in them."""
    devices: List[Dict[str, Any]] = []
    card: Optional[Dict[str, Any]] = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        named = _NAME.match(cells[0])
        buses = [cell for cell in cells if _BUS.match(cell)]
        if named and buses:
            card = {
                "index": len(devices),
                "model": named.group(2),
                "bus": buses[0],
                "utilisation": percent(cells[-1].split()[0]),
            }
            continue
        memory = _MEMORY.search(line)
        if card is not None and memory:
            power, temperature = _POWER.search(line), _TEMPERATURE.search(" ".join(cells))
            card.update(
                memory_used=mib(memory.group(1)),
                memory_total=mib(memory.group(2)),
                power_w=number(power.group(1)) if power else None,
                power_limit_w=number(power.group(2)) if power else None,
                temperature_c=number(temperature.group(1)) if temperature else None,
            )
            devices.append(card)
            card = None
    driver = _DRIVER.search(text)
    return Parsed(devices if "MX-SMI" in text else None, driver.group(1) if driver else None)


_TOOL = Tool("mx-smi", [], parse, ("/opt/mxdriver/bin", "/opt/maca/bin"), "/dev/mxcd")


def detect() -> Dict[str, Any]:
    return detected(VENDOR, _TOOL.name, _TOOL.read())


class Sampler(ToolSampler):
    def __init__(self) -> None:
        super().__init__(_TOOL)
