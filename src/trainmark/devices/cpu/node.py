"""The host as a device: what it is (`detect`) and what it does (`Sampler`), from /proc and /sys alone.

Runs on nodes: standard library only, Python 3.7. What cannot be known is None, never 0.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Mapping

from trainmark.devices.cpu import rdma
from trainmark.devices.cpu.tables import (
    SHARES,
    count_list,
    cpu_shares,
    cpu_times,
    disk_bytes,
    net_bytes,
    stalled,
)
from trainmark.devices.node_side.roots import sysfs

_RATES = ("disk_read", "disk_write", "net_rx", "net_tx")
_STALLS = ("psi_cpu", "psi_memory", "psi_io")
UNITS = {"t": "ns (monotonic)"}
UNITS.update(dict.fromkeys(SHARES + _STALLS, "fraction"))
UNITS.update(dict.fromkeys(_RATES, "bytes/s"))
UNITS.update(dict.fromkeys(("mem_used", "mem_available", "ranks.rss"), "bytes"))
UNITS.update(dict.fromkeys(("ranks.cpu", "agent_cpu"), "cores"))
UNITS.update(rdma.UNITS)
UNITS.update({"energy_uj": "microjoules", "power_w": "watts", "freq_mhz": "MHz"})
_CPU = "/sys/devices/system/cpu/"
_CLOCKS_READ = 8  # asking a core for its clock may interrupt it


def _text(path: str, folder: int | None = None, size: int = 65536) -> str | None:
    """The first `size` bytes of a small file, or None."""
    try:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.read(descriptor, size).decode(errors="replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _number(path: str) -> int | None:
    text = _text(path)
    return int(text) if text and text.lstrip("-").isdigit() else None


def _chosen(text: str | None) -> str | None:
    """'madvise' of 'always [madvise] never'."""
    return text.partition("[")[2].partition("]")[0] if text and "[" in text else text


def _fields(text: str | None, separator: str) -> dict[str, str]:
    pairs = (line.partition(separator) for line in (text or "").splitlines())
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs if value}


def _cpu_facts(proc: int | None) -> dict[str, Any]:
    # The kernel writes a paragraph per processor as it is asked: the first one is enough, and cheap.
    text = _text("cpuinfo" if proc is not None else "/proc/cpuinfo", proc, 8192) or ""
    info = _fields(text.split("\n\n")[0], ":")
    threads = count_list(_text(_CPU + "online"))
    per_core = count_list(_text(_CPU + "cpu0/topology/thread_siblings_list"))
    per_socket = count_list(_text(_CPU + "cpu0/topology/core_siblings_list"))
    part = "%s part %s" % (info["CPU implementer"], info.get("CPU part")) if "CPU implementer" in info else None
    return {
        "model": info.get("model name") or info.get("cpu") or part,
        "threads": threads,
        "cores": threads // per_core if threads and per_core else None,
        "sockets": max(1, threads // per_socket) if threads and per_socket else None,
        "allowed": sorted(os.sched_getaffinity(0)),
        "flags": sorted((info.get("flags") or info.get("Features") or "").split()),
        "microcode": info.get("microcode"),
        "governor": _text(_CPU + "cpu0/cpufreq/scaling_governor"),
        "max_mhz": _mhz(_number(_CPU + "cpu0/cpufreq/cpuinfo_max_freq")),
        "hypervisor": "hypervisor" in (info.get("flags") or "").split() if "flags" in info else None,
        "quota": cpu_quota(),
    }


def _mhz(kilohertz: int | None) -> float | None:
    return kilohertz / 1000.0 if kilohertz is not None else None


def cpu_quota() -> float | None:
    """Processors' worth of time a container grants, or None when it grants all."""
    words = (_text("/sys/fs/cgroup/cpu.max") or "").split()
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota = _number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = _number("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    return quota / period if quota and quota > 0 and period else None


def detect(proc: int | None = None) -> dict[str, Any]:
    """Facts of the host. `proc` is an open directory of /proc where the path shows another one."""
    names = os.uname()
    memory = _meminfo(_text("meminfo" if proc is not None else "/proc/meminfo", proc))
    libc = "CS_GNU_LIBC_VERSION"
    return {
        "schema": 1,
        "host": names.nodename,
        "kernel": names.release,
        "machine": names.machine,
        "os": _fields(_text("/etc/os-release"), "=").get("PRETTY_NAME"),
        "cpu": _cpu_facts(proc),
        "memory_bytes": memory.get("MemTotal"),
        "swap_bytes": memory.get("SwapTotal"),
        "numa_nodes": count_list(_text("/sys/devices/system/node/online")),
        "thp": _chosen(_text("/sys/kernel/mm/transparent_hugepage/enabled")),
        "clocksource": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "machine_model": _text("/sys/class/dmi/id/product_name"),
        "libc": os.confstr(libc) if libc in os.confstr_names else None,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "energy": "rapl" if Energy().known else None,
    }


def _meminfo(text: str | None) -> dict[str, int]:
    """Bytes by name."""
    pairs = ((name, value.split()[0]) for name, value in _fields(text, ":").items())
    return {name: int(value) * 1024 for name, value in pairs if value.isdigit()}


class Energy:
    """The processors' energy counters (RAPL), summed over packages and carried over their wrap-around."""

    def __init__(self, root: str | None = None) -> None:
        root = root or os.path.join(sysfs(), "class/powercap")
        self._paths: list[tuple[str, int]] = []
        self._last: list[int] = []
        self._total = 0
        try:
            zones = sorted(name for name in os.listdir(root) if name.count(":") == 1)
        except OSError:
            zones = []
        for zone in zones:
            folder = os.path.join(root, zone)
            value = _number(os.path.join(folder, "energy_uj"))
            if value is not None and (_text(os.path.join(folder, "name")) or "").startswith("package"):
                span = _number(os.path.join(folder, "max_energy_range_uj")) or 0
                self._paths.append((os.path.join(folder, "energy_uj"), span))
                self._last.append(value)
        self.known = bool(self._paths)

    def read(self) -> int | None:
        """Microjoules since this object was made."""
        if not self.known:
            return None
        for index, (path, span) in enumerate(self._paths):
            value = _number(path)
            if value is None:
                return None
            step = value - self._last[index]
            self._total += step if step >= 0 else step + span
            self._last[index] = value
        return self._total


class _File:
    """A /proc file kept open and read again from its start."""

    def __init__(self, name: str, folder: int) -> None:
        try:
            self._fd = os.open(name, os.O_RDONLY, dir_fd=folder)
        except OSError:
            self._fd = -1

    def read(self) -> bytes:
        data = b""
        try:
            while self._fd >= 0:
                more = os.pread(self._fd, 65536, len(data))
                if not more:
                    break
                data += more
        except OSError:
            return b""
        return data


def _real(folder: str) -> set[bytes]:
    """The entries of /sys/block or /sys/class/net that have hardware (or a virtual card) behind them."""
    try:
        return {os.fsencode(name) for name in os.listdir(folder) if os.path.exists(folder + name + "/device")}
    except OSError:
        return set()


class Sampler:
    """Looks at the host again and again; each sample is about the time since the one before."""

    def __init__(self, proc: int | None = None) -> None:
        self._proc = proc if proc is not None else os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self._stat = _File("stat", self._proc)
        self._meminfo = _File("meminfo", self._proc)
        self._disks = _File("diskstats", self._proc)
        self._net = _File("net/dev", self._proc)
        self._pressure = [_File("pressure/" + name, self._proc) for name in ("cpu", "memory", "io")]
        self._block = _real("/sys/block/")
        self._cards = _real("/sys/class/net/")
        self._rdma = rdma.RdmaPorts()
        self._energy = Energy()
        self._clocks = self._find_clocks()
        self._ticks = float(os.sysconf("SC_CLK_TCK"))
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._ranks: dict[int, float] = {}
        self._before = self._counters()

    def _find_clocks(self) -> list[str]:
        cpus = sorted(os.sched_getaffinity(0))
        paths = [_CPU + "cpu%d/cpufreq/scaling_cur_freq" % cpu for cpu in cpus[:: max(1, len(cpus) // _CLOCKS_READ)]]
        return [path for path in paths[:_CLOCKS_READ] if os.path.exists(path)]

    def _counters(self) -> dict[str, Any]:
        return {
            "t": time.monotonic_ns(),
            "agent": time.process_time(),
            "stat": cpu_times(self._stat.read()),
            "moved": disk_bytes(self._disks.read(), self._block) + net_bytes(self._net.read(), self._cards),
            "psi": [stalled(file.read()) for file in self._pressure],
            "energy": self._energy.read(),
        }

    def sample(self, rank_pids: Mapping[int, int]) -> dict[str, Any]:
        """One record of samples.jsonl; `rank_pids` maps the running ranks to their pids."""
        now = self._counters()
        before, self._before = self._before, now
        seconds = max(1e-9, (now["t"] - before["t"]) / 1e9)
        memory = _meminfo(self._meminfo.read().decode(errors="replace"))
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        energy = _rate(now["energy"], before["energy"], seconds)
        record: dict[str, Any] = {"t": now["t"]}
        record.update(cpu_shares(before["stat"], now["stat"]))
        record["mem_used"] = total - available if total is not None and available is not None else None
        record["mem_available"] = available
        for name, late, early in zip(_RATES, now["moved"], before["moved"]):  # noqa: B905
            record[name] = _rate(late, early, seconds)
        record.update(self._rdma.read(now["t"] / 1e9))
        for name, late, early in zip(_STALLS, now["psi"], before["psi"]):  # noqa: B905
            share = _rate(late, early, seconds * 1e6)
            record[name] = min(1.0, share) if share is not None else None
        record["energy_uj"] = now["energy"]
        record["power_w"] = round(energy / 1e6, 3) if energy is not None else None
        record["freq_mhz"] = self._clock()
        record["ranks"] = {str(rank): self._rank(rank, pid, seconds) for rank, pid in rank_pids.items()}
        record["agent_cpu"] = round((now["agent"] - before["agent"]) / seconds, 5)
        return record

    def _clock(self) -> float | None:
        clocks = [clock for clock in map(_number, self._clocks) if clock is not None]
        return round(sum(clocks) / len(clocks) / 1000.0, 1) if clocks else None

    def _rank(self, rank: int, pid: int, seconds: float) -> dict[str, Any]:
        """Processor and memory of a rank and of the processes it started (memory they share counts for each)."""
        ticks, pages, found = 0, 0, False
        queue = [pid]
        while queue:
            current = queue.pop()
            data = _text("%d/stat" % current, self._proc)
            if not data:
                continue
            found = True
            fields = data[data.rfind(")") + 2 :].split()
            ticks += sum(int(value) for value in fields[11:15])  # its own and those of children it has reaped
            pages += int(fields[21])
            children = _text("%d/task/%d/children" % (current, current), self._proc)
            queue.extend(int(child) for child in (children or "").split())
        used = ticks / self._ticks
        before = self._ranks.get(rank)
        self._ranks[rank] = used
        # The first look has nothing to compare with; a helper that ended unreaped takes its time with it.
        cores = round(max(0.0, used - before) / seconds, 4) if before is not None and found else None
        return {"cpu": cores, "rss": pages * self._page if found else None}


def _rate(now: float | None, before: float | None, seconds: float) -> float | None:
    return round((now - before) / seconds, 6) if now is not None and before is not None else None
