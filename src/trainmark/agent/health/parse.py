"""What the kernel and vendors' tools write, as facts. Pure functions of text; what a text does not say is None."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional

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
