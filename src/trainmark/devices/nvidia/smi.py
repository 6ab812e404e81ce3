"""What NVIDIA's tools and driver write, as facts. Pure functions of text; what a text does not say is None."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional
from xml.etree import ElementTree

from trainmark.devices.node_side.readings import mib, number, percent
from trainmark.devices.node_side.tools import Parsed

Facts = Dict[str, Any]
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d+)")
_NOTHING = ("", "N/A", "[N/A]", "[Unknown Error]", "Requested functionality has been deprecated")
# Names of nvidia-smi → the bits of NVML's `nvmlClocksEventReason…`.
CLOCK_REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
SLOWING = 0x8 | 0x20 | 0x40 | 0x80


def parse(text: str) -> Parsed:
    """Devices of `nvidia-smi -q -x`."""
    found = device_log(text)
    return Parsed(None) if found is None else Parsed(found["devices"], found["driver"])


def device_log(text: str) -> Optional[Facts]:
    """Driver and devices of `nvidia-smi -q -x`; None when that is not what it wrote."""
    try:
        top = ElementTree.fromstring(text)  # noqa: S314 - of a program that this account has just run
    except ElementTree.ParseError:
        return None
    if top.tag != "nvidia_smi_log":
        return None
    devices = [dict(_gpu(one), index=index) for index, one in enumerate(top.findall("gpu"))]
    return {"driver": _of(top, "driver_version"), "cuda": _of(top, "cuda_version"), "devices": devices}


def _gpu(one: ElementTree.Element) -> Facts:
    link = "pci/pci_gpu_link_info/"
    volatile = one.find("ecc_errors/volatile")
    reasons = one.find("clocks_event_reasons")
    reasons = one.find("clocks_throttle_reasons") if reasons is None else reasons
    active = [
        each.tag.rpartition("reason_")[2] or each.tag
        for each in (list(reasons) if reasons is not None else [])
        if each.text == "Active"
    ]
    bits = sum(CLOCK_REASONS.get(name, 0) for name in active)
    return {
        "bus": one.get("id"),
        "model": _of(one, "product_name"),
        "uuid": _of(one, "uuid"),
        "firmware": _of(one, "vbios_version"),
        "mig": _yes(_of(one, "mig_mode/current_mig")),
        "ecc": _yes(_of(one, "ecc_mode/current_ecc")),
        # Newer drivers count by memory, older ones by width of the error.
        "corrected": _sum(volatile, ("sram_correctable", "dram_correctable", "single_bit/total")),
        "uncorrected": _sum(volatile, ("sram_uncorrectable", "dram_uncorrectable", "double_bit/total")),
        "remap_pending": _yes(_of(one, "remapped_rows/remapped_row_pending")),
        "remap_failed": _yes(_of(one, "remapped_rows/remapped_row_failure")),
        "reset_required": _yes(_of(one, "gpu_reset_status/reset_required")),
        "width": _whole(_of(one, link + "link_widths/current_link_width")),
        "most_width": _whole(_of(one, link + "link_widths/max_link_width")),
        "persistence": _yes(_of(one, "persistence_mode")),
        "slowed_by": sorted(name for name in active if "slowdown" in name or "brake" in name),
        "clock_reasons": bits if reasons is not None else None,
        "slowed": int(bool(bits & SLOWING)) if reasons is not None else None,
        "memory_total": mib(_of(one, "fb_memory_usage/total")),
        "memory_used": mib(_of(one, "fb_memory_usage/used")),
        "utilisation": percent(_of(one, "utilization/gpu_util")),
        "memory_utilisation": percent(_of(one, "utilization/memory_util")),
        "temperature_c": number(_of(one, "temperature/gpu_temp")),
        "memory_temperature_c": number(_of(one, "temperature/memory_temp")),
        # Of what the last second took, where that is told apart from the moment.
        "power_w": _first(one, _POWER),
        "clock_mhz": number(_of(one, "clocks/sm_clock")),
        "memory_clock_mhz": number(_of(one, "clocks/mem_clock")),
    }


_POWER = (
    "gpu_power_readings/average_power_draw",
    "gpu_power_readings/power_draw",
    "power_readings/power_draw",
    "gpu_power_readings/instant_power_draw",
)


def _first(one: ElementTree.Element, paths: Any) -> Optional[float]:
    return next((value for value in (number(_of(one, path)) for path in paths) if value is not None), None)


def _of(one: ElementTree.Element, path: str) -> Optional[str]:
    text = one.findtext(path)
    return None if text is None or text.strip() in _NOTHING else text.strip()


def _yes(text: Optional[str]) -> Optional[bool]:
    return None if text is None else text in ("Yes", "Enabled", "Active")


def _whole(text: Optional[str]) -> Optional[int]:
    found = re.match(r"\d+", text or "")
    return int(found.group()) if found else None


def _sum(one: Optional[ElementTree.Element], paths: Any) -> Optional[int]:
    if one is None:
        return None
    numbers = [value for value in (_whole(_of(one, path)) for path in paths) if value is not None]
    return sum(numbers) if numbers else None


def nvlink(text: str) -> Dict[str, Facts]:
    """`nvidia-smi nvlink --status`: of each device, how many links are up, how many are not, and their speeds."""
    found: Dict[str, Facts] = {}
    device = None
    for line in text.splitlines():
        head = re.match(r"GPU (\d+):", line.strip())
        link = re.match(r"Link \d+: (?:([\d.]+) GB/s|<inactive>)", line.strip())
        if head:
            device = found.setdefault(head.group(1), {"up": 0, "down": 0, "speeds": []})
        elif link and device is not None:
            speed = float(link.group(1)) if link.group(1) else 0.0
            device["up" if speed else "down"] += 1
            if speed and speed not in device["speeds"]:
                device["speeds"].append(speed)
    return found


def xids(text: str) -> List[Facts]:
    """Errors of NVIDIA's driver in the kernel's log, by device and number."""
    counts: Dict[Any, int] = {}
    for device, code in _XID.findall(text):
        counts[device, int(code)] = counts.get((device, int(code)), 0) + 1
    return [{"device": device, "xid": code, "count": count} for (device, code), count in sorted(counts.items())]
