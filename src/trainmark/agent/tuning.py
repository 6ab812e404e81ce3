"""Threads, cores and allocator of the ranks: chosen by a pure function, recorded, and never against the user."""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from trainmark.agent.node_plan import NodePlan
from trainmark.agent.reasons import Reason, reason

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Big tensors are otherwise mapped and unmapped at every step, which costs millions of page faults.
_GLIBC = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
_MEMORY_SHARE = 0.9
_LIBRARY_FOLDERS = ("/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")
_TCMALLOC_NAMES = ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")


class Machine(NamedTuple):
    """The facts tuning needs of a node."""

    cpus: list[int]
    cores: list[list[int]] | None = None  # the threads of each physical core, where that matters
    quota: float | None = None  # processors' worth of time the node's control group grants
    tcmalloc: str | None = None
    glibc: bool = True
    free: int | None = None  # bytes of memory, where ranks shall share it


class Settings:
    """What was chosen. `env` holds only what tuning itself sets; `cpus` the cores of each local rank."""

    def __init__(self) -> None:
        self.threads: int | None = None
        self.cpus: list[list[int]] = []
        self.pinned = False
        self.allocator = "default"
        self.memory: int | None = None  # bytes each rank may use
        self.env: dict[str, str] = {}
        self.visible: str | None = None  # the variable that gets each local rank's device
        self.inherited: str | None = None  # what it said before: each rank gets one of these
        self.warnings: list[Reason] = []

    def record(self) -> dict[str, Any]:
        env = dict(self.env)
        if self.visible:
            env[self.visible] = "local rank" if self.inherited is None else "local rank of %s" % self.inherited
        found = {"threads": self.threads, "cpus": self.cpus, "allocator": self.allocator, "env": env}
        return found if self.memory is None else dict(found, memory=self.memory)


def look(plan: NodePlan, quota: float | None) -> Machine:
    """The facts of this node, as far as the plan needs them."""
    cpus = sorted(os.sched_getaffinity(0))
    allocator = plan.tuning.get("allocator", "auto")
    wanted = allocator == "tcmalloc" or (allocator == "auto" and plan.device.get("vendor") == "cpu")
    return Machine(
        cpus,
        _cores(cpus) if len(plan.ranks) > 1 else None,
        quota,
        _tcmalloc() if wanted else None,
        "CS_GNU_LIBC_VERSION" in os.confstr_names,
        _free_memory() if plan.memory == 0 else None,
    )


def choose(plan: NodePlan, machine: Machine, inherited: Mapping[str, str]) -> Settings:
    """Settings for all local ranks; a variable the user has set already is left alone."""
    settings = Settings()
    asked = dict(plan.env)
    for rank in plan.ranks:
        asked.update(rank.env)
    kept = {name: value for name, value in inherited.items() if name not in plan.unset}
    _threads(settings, plan, machine, asked, kept)
    _cpus(settings, plan, machine)
    _allocator(settings, plan, machine, dict(kept, **asked))
    visible = plan.device.get("visible")
    own = any(visible in rank.env for rank in plan.ranks)  # the plan itself says who gets which
    if visible and not own:
        settings.visible, settings.inherited = visible, plan.env.get(visible, kept.get(visible))
    settings.memory = plan.memory
    if machine.free is not None:
        # The machine itself needs some, and what is free now was so a moment ago.
        settings.memory = int(_MEMORY_SHARE * machine.free) // max(1, len(plan.ranks))
    return settings


def _free_memory() -> int | None:
    """Bytes that programs could have without anything being swapped out."""
    with open("/proc/meminfo", "rb", buffering=0) as file:
        found = file.read().partition(b"MemAvailable:")[2].split(None, 1)
    return int(found[0]) * 1024 if found else None


def _threads(settings: Settings, plan: NodePlan, machine: Machine, asked: dict[str, str], kept: dict[str, str]) -> None:
    wanted = plan.tuning.get("threads", "auto")
    if wanted == "none":
        return
    usable = len(machine.cpus)
    if machine.quota is not None and machine.quota < usable:
        usable = max(1, int(machine.quota))
        settings.warnings.append(reason("quota-limits-cores", quota=machine.quota, cores=len(machine.cpus)))
    usable = max(1, (usable - int(plan.tuning.get("spare_cores", 0))) // int(plan.tuning.get("share", 1)))
    count = max(1, usable // max(1, len(plan.ranks))) if wanted == "auto" else int(wanted)
    # A number in the plan is newer than whatever the shell happened to have; "auto" respects both.
    user = asked if wanted != "auto" else dict(kept, **asked)
    for name in _THREAD_VARIABLES:
        if name not in user:
            settings.env[name] = str(count)
    effective = user.get(_THREAD_VARIABLES[0], str(count)).split(",")[0].strip()
    settings.threads = int(effective) if effective.isdigit() else None
    if _THREAD_VARIABLES[0] in user:
        settings.warnings.append(
            reason("threads-set-by-user", name=_THREAD_VARIABLES[0], value=user[_THREAD_VARIABLES[0]])
        )


def _cpus(settings: Settings, plan: NodePlan, machine: Machine) -> None:
    count = len(plan.ranks)
    if plan.cpus is not None and len(machine.cpus) < plan.cpus:
        settings.warnings.append(reason("fewer-cores-than-planned", planned=plan.cpus, cores=len(machine.cpus)))
    if count > len(machine.cpus):
        settings.warnings.append(reason("ranks-share-cores", ranks=count, cores=len(machine.cpus)))
    split = count > 1 and count <= len(machine.cpus) and plan.tuning.get("affinity", "auto") == "auto"
    settings.pinned = split
    settings.cpus = slices(machine, count) if split else [machine.cpus] * count


def slices(machine: Machine, count: int) -> list[list[int]]:
    """Equal, disjoint, neighbouring shares; no physical core is cut in two while there are enough of them."""
    cores = machine.cores or [[cpu] for cpu in machine.cpus]
    units = cores if len(cores) >= count else [[cpu] for core in cores for cpu in core]
    share = len(units) // count
    return [
        sorted(cpu for unit in units[index * share : (index + 1) * share] for cpu in unit) for index in range(count)
    ]


def _allocator(settings: Settings, plan: NodePlan, machine: Machine, user: dict[str, str]) -> None:
    wanted = plan.tuning.get("allocator", "auto")
    if wanted == "auto" and plan.device.get("vendor") != "cpu":
        wanted = "default"
    if wanted == "default":
        return
    if "LD_PRELOAD" in user or any(name.startswith("MALLOC_") for name in user):
        settings.allocator = "user"
        return
    if wanted in ("auto", "tcmalloc") and machine.tcmalloc:
        settings.allocator = "tcmalloc"
        settings.env["LD_PRELOAD"] = machine.tcmalloc
        if "TCMALLOC_RELEASE_RATE" not in user:
            settings.env["TCMALLOC_RELEASE_RATE"] = "0"
    elif wanted == "tcmalloc":
        settings.warnings.append(reason("tcmalloc-not-found"))
    elif machine.glibc:
        settings.allocator = "glibc"
        # Room asked for in advance would count against a limit.
        without = () if plan.memory is None else ("MALLOC_TOP_PAD_",)
        settings.env.update({name: _GLIBC[name] for name in _GLIBC if name not in user and name not in without})


def _tcmalloc() -> str | None:
    """The library in the usual folders (those of the architecture, such as /usr/lib/x86_64-linux-gnu, first)."""
    try:
        own = [os.path.join("/usr/lib", name) for name in sorted(os.listdir("/usr/lib")) if "-linux-" in name]
    except OSError:
        own = []
    for folder in own + list(_LIBRARY_FOLDERS):
        for name in _TCMALLOC_NAMES:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    return None


def _cores(cpus: list[int]) -> list[list[int]]:
    """The allowed threads of each physical core, in the order of sockets and cores."""
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in cpus:
        where = "/sys/devices/system/cpu/cpu%d/topology/" % cpu
        try:
            key = (_number(where + "physical_package_id"), _number(where + "core_id"))
        except (OSError, ValueError):
            return [[cpu] for cpu in cpus]
        cores.setdefault(key, []).append(cpu)
    return [cores[key] for key in sorted(cores)]


def _number(path: str) -> int:
    with open(path, "rb", buffering=0) as file:
        return int(file.read())
