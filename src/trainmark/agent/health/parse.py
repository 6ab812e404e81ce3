"""What the kernel and vendors' tools write, as facts. Pure functions of text; what a text does not say is None."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional
from xml.etree import ElementTree

Facts = Dict[str, Any]
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is looked at, nothing is put there
# Counters of /sys/class/infiniband/*/ports/*/counters that say that a link is not whole.
IB_ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d+)")
# Types of file systems that other machines serve.
_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p", "fuse.sshfs", "orangefs")


def ib_port(files: Mapping[str, str]) -> Facts:
    """A port, from the files of its folder in sysfs and those of `counters/` by their names."""
    rate = files.get("rate", "")
    number = re.match(r"[\d.]+", rate)
    return {
        "state": _named(files.get("state")),
        "physical": _named(files.get("phys_state")),
        "rate": rate or None,
        "gigabits": float(number.group()) if number else None,
        "layer": files.get("link_layer"),
        "errors": {name: int(files[name]) for name in IB_ERRORS if files.get(name, "").isdigit()},
    }


def _named(text: Optional[str]) -> Optional[str]:
    """'ACTIVE' of '4: ACTIVE'."""
    return text.partition(":")[2].strip() or text.strip() if text else None


def nvidia(text: str) -> Optional[Facts]:
    """Driver and devices of `nvidia-smi -q -x`; None when that is not what it wrote."""
    try:
        top = ElementTree.fromstring(text)  # noqa: S314 - of a program that this account has just run
    except ElementTree.ParseError:
        return None
    if top.tag != "nvidia_smi_log":
        return None
    return {"driver": _of(top, "driver_version"), "devices": [_gpu(one) for one in top.findall("gpu")]}


def _gpu(one: ElementTree.Element) -> Facts:
    link = "pci/pci_gpu_link_info/"
    volatile = one.find("ecc_errors/volatile")
    reasons = one.find("clocks_event_reasons")
    reasons = one.find("clocks_throttle_reasons") if reasons is None else reasons
    return {
        "id": one.get("id"),
        "name": _of(one, "product_name"),
        "ecc": _yes(_of(one, "ecc_mode/current_ecc")),
        # Newer drivers count by memory, older ones by width of the error.
        "uncorrected": _sum(volatile, ("sram_uncorrectable", "dram_uncorrectable", "double_bit/total")),
        "remap_pending": _yes(_of(one, "remapped_rows/remapped_row_pending")),
        "remap_failed": _yes(_of(one, "remapped_rows/remapped_row_failure")),
        "reset_required": _yes(_of(one, "gpu_reset_status/reset_required")),
        "width": _number(_of(one, link + "link_widths/current_link_width")),
        "most_width": _number(_of(one, link + "link_widths/max_link_width")),
        "persistence": _yes(_of(one, "persistence_mode")),
        "slowed_by": sorted(
            each.tag.rpartition("reason_")[2] or each.tag
            for each in (list(reasons) if reasons is not None else [])
            if each.text == "Active" and ("slowdown" in each.tag or "brake" in each.tag)
        ),
    }


def _of(one: ElementTree.Element, path: str) -> Optional[str]:
    text = one.findtext(path)
    return None if text is None or text.strip() in ("", "N/A", "[N/A]") else text.strip()


def _yes(text: Optional[str]) -> Optional[bool]:
    return None if text is None else text in ("Yes", "Enabled", "Active")


def _number(text: Optional[str]) -> Optional[int]:
    found = re.match(r"\d+", text or "")
    return int(found.group()) if found else None


def _sum(one: Optional[ElementTree.Element], paths: Any) -> Optional[int]:
    if one is None:
        return None
    numbers = [number for number in (_number(_of(one, path)) for path in paths) if number is not None]
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
    for device, number in _XID.findall(text):
        counts[device, int(number)] = counts.get((device, int(number)), 0) + 1
    return [{"device": device, "xid": number, "count": count} for (device, number), count in sorted(counts.items())]


def mount_of(path: str, mountinfo: str) -> Optional[Facts]:
    """The file system that a path lies on, from /proc/self/mountinfo (proc(5))."""
    best: Optional[Facts] = None
    for line in mountinfo.splitlines():
        words, dash, rest = line.partition(" - ")
        fields, source = words.split(), rest.split()
        if not dash or len(fields) < 6 or len(source) < 3:
            continue
        point = _unescaped(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (best is None or len(point) >= len(best["point"])):
            options = sorted(set(fields[5].split(",") + source[2].split(",")))
            best = {"point": point, "type": source[0], "options": options, "network": _is_network(source[0])}
    return best


def _is_network(kind: str) -> bool:
    return any(kind == name or kind.startswith(name) for name in _NETWORK)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)
