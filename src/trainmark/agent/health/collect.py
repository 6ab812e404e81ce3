"""Gets what `parse` reads: files of /proc and /sys, and what tools write that are there. Changes nothing."""

from __future__ import annotations

import glob
import os
import resource
import shutil
from typing import Any, Callable, Dict, List, Optional

from trainmark.agent.health import parse
from trainmark.devices.cpu.node import detect
from trainmark.devices.node_side.tools import said
from trainmark.devices.nvidia import smi

_SECONDS = 20.0
_LIMITS = {"memlock": resource.RLIMIT_MEMLOCK, "nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
_PASSED_OVER = ("docker", "veth", "br-", "virbr", "vnet", "cni", "cali", "flannel", "podman", "tun", "tap")
_UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_TIMEX_BYTES = 1024  # more than the kernel's struct timex


def health(paths: List[str], root: str = "/") -> Dict[str, Any]:
    """All facts of this node; `paths`: folders whose file systems matter. What cannot be known is None or missing."""
    facts = detect()
    tools = {name: shutil.which(name) is not None for name in ("nvidia-smi", "dmesg")}
    return {
        "schema": 1,
        # As Slurm calls it, where there is Slurm.
        "node": os.environ.get("SLURMD_NODENAME") or facts["host"],
        "kernel": facts["kernel"],
        "os": facts["os"],
        "cpu": facts["cpu"]["model"],
        "threads": facts["cpu"]["threads"],
        "cores": facts["cpu"]["cores"],
        "microcode": facts["cpu"]["microcode"],
        "memory": facts["memory_bytes"],
        "thp": facts["thp"],
        "clock_source": facts["clocksource"],
        "governors": _governors(root),
        "huge_pages": _huge_pages(root),
        "numa": _numa(root),
        "edac": _edac(root),
        "infiniband": infiniband(root),
        "interfaces": _interfaces(root),
        "nvidia": smi.device_log(_said(["nvidia-smi", "-q", "-x"])) if tools["nvidia-smi"] else None,
        "nvlink": smi.nvlink(_said(["nvidia-smi", "nvlink", "--status"])) if tools["nvidia-smi"] else {},
        "xids": smi.xids(_said(["dmesg"])) if tools["nvidia-smi"] and tools["dmesg"] else [],
        "limits": {name: resource.getrlimit(which)[0] for name, which in _LIMITS.items()},
        "synchronised": _synchronised(),
        "mounts": _mounts([*paths, parse.SHARED_MEMORY]),
    }


def from_command(*paths: str) -> Dict[str, Any]:
    """The verb: `health DIR …`."""
    return health(list(paths))


def _said(argv: List[str]) -> str:
    """What a program writes; nothing when it cannot be run, fails or takes too long."""
    answer = said(argv, _SECONDS)
    return "" if answer.problem else answer.text


def _read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536).strip()
    except OSError:
        return None


def _texts(folder: str) -> Dict[str, str]:
    """The small files of a folder."""
    found = {
        os.path.basename(path): _read(path) for path in glob.glob(os.path.join(folder, "*")) if os.path.isfile(path)
    }
    return {name: text for name, text in found.items() if text is not None}


def _whole(text: Optional[str]) -> Optional[int]:
    return int(text) if text and text.lstrip("-").isdigit() else None


def infiniband(root: str) -> Dict[str, Any]:
    """Ports of all adapters by `device/port`; those of RoCE are among them, with another link layer."""
    found = {}
    for folder in sorted(glob.glob(os.path.join(root, "sys/class/infiniband/*/ports/*"))):
        name = "%s/%s" % (folder.split(os.sep)[-3], os.path.basename(folder))
        found[name] = parse.ib_port(dict(_texts(folder), **_texts(os.path.join(folder, "counters"))))
    return found


def _interfaces(root: str) -> Dict[str, Any]:
    """Network cards that are up, bonds among them; not those of containers and virtual machines, which come and go."""
    found = {}
    for folder in sorted(glob.glob(os.path.join(root, "sys/class/net/*"))):
        passed_over = os.path.basename(folder).startswith(_PASSED_OVER)
        if not passed_over and _read(os.path.join(folder, "operstate")) == "up":
            numbers = {name: _whole(_read(os.path.join(folder, name))) for name in ("mtu", "speed")}
            found[os.path.basename(folder)] = numbers
    return found


def _governors(root: str) -> Dict[str, int]:
    """How many cores have which one."""
    found: Dict[str, int] = {}
    for path in glob.glob(os.path.join(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")):
        name = _read(path)
        if name:
            found[name] = found.get(name, 0) + 1
    return found


def _huge_pages(root: str) -> Dict[str, int]:
    """How many are reserved, by size."""
    found = {}
    for folder in glob.glob(os.path.join(root, "sys/kernel/mm/hugepages/hugepages-*")):
        count = _whole(_read(os.path.join(folder, "nr_hugepages")))
        if count:
            found[os.path.basename(folder).partition("-")[2]] = count
    return found


def _numa(root: str) -> Dict[str, Any]:
    empty, count = [], 0
    for folder in sorted(glob.glob(os.path.join(root, "sys/devices/system/node/node[0-9]*"))):
        count += 1
        lines = [line for line in (_read(os.path.join(folder, "meminfo")) or "").splitlines() if "MemTotal:" in line]
        if lines and lines[0].split()[-2] == "0":
            empty.append(os.path.basename(folder))
    return {"nodes": count, "without_memory": empty, "balancing": _whole(_read("/proc/sys/kernel/numa_balancing"))}


def _edac(root: str) -> Optional[Dict[str, int]]:
    """Errors of the machine's own memory that were corrected, and that were not; None where nobody counts."""
    folders = glob.glob(os.path.join(root, "sys/devices/system/edac/mc/mc[0-9]*"))
    if not folders:
        return None
    return {
        name: sum(_whole(_read(os.path.join(one, name))) or 0 for one in folders) for name in ("ce_count", "ue_count")
    }


def _mounts(paths: List[str]) -> Dict[str, Any]:
    found = {path: _mount(path) for path in paths}
    return {path: mount for path, mount in found.items() if mount}


def _mount(path: str, statvfs: Callable[[str], Any] = os.statvfs) -> Optional[Dict[str, Any]]:
    path = os.path.realpath(os.path.expanduser(path))
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    found = parse.mount_of(path, _read("/proc/self/mountinfo") or "")
    if found is None:
        return None
    try:
        room = statvfs(path)
    except OSError:
        return found
    return dict(found, free=room.f_bavail * room.f_frsize, size=room.f_blocks * room.f_frsize)


def _synchronised() -> Optional[bool]:
    """Whether the kernel's clock is held by a time service, whichever; None where it may not be asked."""
    import ctypes

    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONISED
