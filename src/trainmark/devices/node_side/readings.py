"""The readings of a device: one name and unit for each, whoever made it; and numbers out of vendors' spellings.

What a vendor does not tell is None, never 0.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

MIB = 1 << 20
# Of one device at one moment. Counters (`energy_j`, `retired_pages`, `errors`, …) count since the driver was loaded.
READINGS = {
    "index": "number",
    "utilisation": "fraction",
    "memory_used": "bytes",
    "memory_total": "bytes",
    "memory_utilisation": "fraction",
    "power_w": "watts",
    "power_limit_w": "watts",
    "energy_j": "joules",
    "temperature_c": "°C",
    "memory_temperature_c": "°C",
    "clock_mhz": "MHz",
    "memory_clock_mhz": "MHz",
    # 1: its clocks are held down by heat, by a power brake or by the hardware.
    "slowed": "0 or 1",
    # Why its clocks are what they are, in the bits of NVML's `nvmlClocksEventReason…`.
    "clock_reasons": "bits",
    "pcie_rx": "bytes/s",
    "pcie_tx": "bytes/s",
    "pcie_replays": "number",
    "link_rx": "bytes/s",
    "link_tx": "bytes/s",
    # Of a device's own port into the network between nodes: packets that were bad, and packets that were sent again.
    "roce_rx": "bytes/s",
    "roce_tx": "bytes/s",
    "roce_errors": "number",
    "roce_retries": "number",
    "corrected": "number",
    "uncorrected": "number",
    "retired_pages": "number",
    # The number of the last error that the driver told of (NVIDIA's Xid, Ascend's fault code), and how many there are.
    "error": "number",
    "errors": "number",
    "healthy": "0 or 1",
}
# `devices_t` is when the devices were read, `devices_cpu` what reading them cost, the vendor's tool included.
# `board_w` is what the machine's board says that the whole machine draws.
UNITS = {"devices_t": "ns (monotonic)", "devices_cpu": "cores", "board_t": "ns (monotonic)", "board_w": "watts"}
UNITS.update({"devices." + name: unit for name, unit in READINGS.items()})
_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)\s*(?:[A-Za-z%°/]|$)")

Device = Dict[str, Any]


def number(text: Any) -> Optional[float]:
    """3.97 of '3.97 W', 20638.0 of '20638MiB'; None of 'N/A', '-', '[Unknown Error]' and of nothing."""
    found = _NUMBER.match(str(text)) if text is not None else None
    return float(found.group(1)) if found else None


def scaled(text: Any, factor: float) -> Optional[float]:
    """A number in another unit."""
    value = number(text)
    return None if value is None else value * factor


def mib(text: Any) -> Optional[float]:
    """Bytes of a number of MiB."""
    return scaled(text, MIB)


def percent(text: Any) -> Optional[float]:
    """A fraction of a number of per cent."""
    return scaled(text, 0.01)


def flag(text: Optional[str], good: Iterable[str]) -> Optional[int]:
    """1 where the text is one of `good`, 0 where it is another one."""
    return None if text is None or not text.strip() else int(text.strip() in tuple(good))


class Rates:
    """Counters as what they moved per second since they were last looked at."""

    def __init__(self) -> None:
        self._before: Dict[Any, Tuple[float, Dict[str, Optional[float]]]] = {}

    def per_second(self, of: Any, now: float, counts: Mapping[str, Optional[float]]) -> Dict[str, Optional[float]]:
        """`of` says whose counters they are. None at the first look, and where a counter wrapped or began anew."""
        began, before = self._before.get(of, (now, {}))
        self._before[of] = (now, dict(counts))
        found: Dict[str, Optional[float]] = dict.fromkeys(counts)
        for name, late in counts.items():
            early = before.get(name)
            if late is not None and early is not None and late >= early and now > began:
                found[name] = (late - early) / (now - began)
        return found


def pairs_of_lines(text: str, first: Any, second: Any) -> Iterator[Tuple[Any, Any]]:
    """Tables with two lines for each card: matches of the pattern `first`, each with the next one of `second`."""
    name = None
    for line in text.splitlines():
        begun, rest = first.match(line), second.match(line)
        if begun:
            name = begun
        elif rest and name is not None:
            yield name, rest
            name = None


def sampled(devices: List[Device]) -> List[Device]:
    """What of devices is a reading; a list of all devices in order."""
    return [{name: one.get(name) for name in READINGS if one.get(name) is not None} for one in devices]


def facts(devices: List[Device]) -> List[Device]:
    """What of devices does not change while they run."""
    changing = set(READINGS) - {"index", "memory_total", "power_limit_w"}
    return [{name: value for name, value in one.items() if name not in changing} for one in devices]
