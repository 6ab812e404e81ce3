"""Hosts and links of a lab made slow on purpose, and whole again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab import packages, wires
from lab.lab import Lab
from trainmark.errors import SiteError

_CGROUPS = Path("/sys/fs/cgroup")
# Short, so that a slow host is slow all the time and not in turns.
_PERIOD = 20_000


def ahead(lab: Lab) -> None:
    """Hosts go before everything else on this machine, whose other work would make all of them slow by turns."""
    for host in lab.nodes:
        group = _group(lab, host)
        group.mkdir(exist_ok=True)
        if (group / "cpu.weight").exists():
            (group / "cpu.weight").write_text("10000")
        else:
            (group / "cpu.shares").write_text("262144")
        _move(lab, host, group)


def as_before(lab: Lab) -> None:
    """No host is ahead of anything or slow any more."""
    for host in lab.nodes:
        group = _group(lab, host)
        if group.exists() and lab.alive(host):
            _move(lab, host, group.parent)
            wires.remove_cgroup(group)


def slow_host(lab: Lab, host: str, cores: float | None) -> None:
    """All processes of the host together get so many cores, those started later, too; None: as many as they want."""
    group, quota = _group(lab, host), -1 if cores is None else int(cores * _PERIOD)
    group.mkdir(exist_ok=True)
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{'max' if quota < 0 else quota} {_PERIOD}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    _move(lab, host, group)


def slow_link(lab: Lab, a: str, b: str, rate: str) -> None:
    """What `b` sends to `a` passes a token bucket; everybody else is not touched."""
    wire, plan = lab.layout.wire(a), lab.layout
    whole_link(lab, a)
    _tc("qdisc", "add", "dev", wire, "root", "handle", "1:", "htb", "default", "10")
    for number in ("10", "20"):
        _tc("class", "add", "dev", wire, "parent", "1:", "classid", f"1:{number}", "htb", "rate", "100gbit")
    bucket = ("tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
    _tc("qdisc", "add", "dev", wire, "parent", "1:20", "handle", "20:", *bucket)
    match = ("u32", "match", "ip", "src", f"{plan.address(b)}/32", "flowid", "1:20")
    _tc("filter", "add", "dev", wire, "parent", "1:", "protocol", "ip", "prio", "1", *match)


def whole_link(lab: Lab, a: str) -> None:
    _tc("qdisc", "del", "dev", lab.layout.wire(a), "root", check=False)


def _group(lab: Lab, host: str) -> Path:
    top = _CGROUPS / "cpu" if (_CGROUPS / "cpu").is_dir() else _CGROUPS
    return top / lab.layout.cgroup(host)


def _move(lab: Lab, host: str, group: Path) -> None:
    """Every process of the host's own pid namespace, and below it."""
    first = lab.pid(host)
    if first is None:
        raise SiteError(f"{host} is powered off")
    for pid in _family(first):
        try:
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:
            continue  # it has just ended


def _family(first: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path("/proc", name, "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(name))
    found = [first]
    for pid in found:
        found += parents.get(pid, [])
    return found


def _tc(*words: str, check: bool = True) -> None:
    done = subprocess.run(["tc", *words], capture_output=True, text=True, env={"PATH": packages.PATH}, check=False)
    if check and done.returncode:
        raise SiteError(f"tc {' '.join(words)}: {done.stderr.strip()}")
