"""What the facts of `agent/health` mean: findings of single nodes, and where nodes of one site differ. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trainmark.agent.health.parse import SHARED_MEMORY
from trainmark.launch.protocol import Finding
from trainmark.reasons import Reason, reason

Facts = Mapping[str, Any]
# Errors of NVIDIA's driver after which a device is not to be trusted (NVIDIA, "Xid Errors"): uncorrected memory errors,
# failed remapping of rows, broken NVLink, a device that left the bus, its controller not answering.
GRAVE_XIDS = (48, 64, 74, 79, 95, 119)
# Those of programs, not of the device: memory faults, and what follows when such a program ends.
_OF_PROGRAMS = (13, 31, 43, 45)
_UNLIMITED = -1
_FEW_FILES = 4096
_SMALL_SHM = 2**30
# Sizes of memory that differ by less are the same: firmware keeps some of it.
_MEMORY_STEP = 2**30


def findings(facts: Mapping[str, Facts]) -> list[Finding]:
    """Of all nodes: those of each, then how they differ."""
    found = [finding for host, one in facts.items() for finding in judge(host, one)]
    return [*found, *differences({host: alike(one) for host, one in facts.items()})]


def judge(host: str, facts: Facts) -> Iterator[Finding]:
    """What is worth a word on one node. Faults are False, and what may cost speed is a note."""
    yield from _network(host, facts)
    yield from _nvidia(host, facts)
    yield from _memory(host, facts)
    yield from _system(host, facts)
    yield from _mounts(host, facts)


def _note(host: str, what: str, found: Reason, cure: Reason | str = "", good: bool | None = None) -> Finding:
    return Finding(host, what, good, found, cure)


def _network(host: str, facts: Facts) -> Iterator[Finding]:
    for name, port in (facts.get("infiniband") or {}).items():
        said = reason("ib-port", port=name, state=port["state"], physical=port["physical"], rate=port["rate"])
        what = "RoCE" if port["layer"] == "Ethernet" else "InfiniBand"
        if port["state"] != "ACTIVE":
            waits = port["physical"] == "LinkUp"
            yield _note(host, what, said, reason("cure-subnet-manager") if waits else reason("cure-cable"))
        else:
            yield _note(host, what, said, good=True)
        errors = {name: count for name, count in port["errors"].items() if count}
        if errors:
            counted = ", ".join(f"{name} {count}" for name, count in errors.items())
            yield _note(host, what, reason("ib-errors", port=name, errors=counted), reason("cure-ib-errors"))


def _nvidia(host: str, facts: Facts) -> Iterator[Finding]:
    known = facts.get("nvidia")
    for number, one in enumerate((known or {}).get("devices", [])):
        who = {"device": number, "name": one["model"]}
        if one["uncorrected"]:
            yield _note(host, "ECC", reason("gpu-ecc", count=one["uncorrected"], **who), reason("cure-gpu"), False)
        if one["remap_failed"]:
            yield _note(host, "ECC", reason("gpu-remap-failed", **who), reason("cure-gpu"), False)
        if one["remap_pending"] or one["reset_required"]:
            yield _note(host, "ECC", reason("gpu-reset-needed", **who), reason("cure-gpu-reset"))
        if one["ecc"] is False:
            yield _note(host, "ECC", reason("gpu-ecc-off", **who))
        if one["width"] and one["most_width"] and one["width"] < one["most_width"]:
            said = reason("gpu-width", width=one["width"], most=one["most_width"], **who)
            yield _note(host, "PCIe", said, reason("cure-gpu-width"))
        if one["slowed_by"]:
            said = reason("gpu-slowed", why=one["slowed_by"], **who)
            yield _note(host, "clocks", said, reason("cure-gpu-slowed"))
    for device, links in sorted((facts.get("nvlink") or {}).items()):
        if links["up"] and links["down"]:
            said = reason("nvlink-down", device=device, down=links["down"], links=links["up"] + links["down"])
            yield _note(host, "NVLink", said, reason("cure-nvlink"))
    for one in facts.get("xids") or []:
        if one["xid"] in _OF_PROGRAMS:
            continue
        grave = one["xid"] in GRAVE_XIDS
        said = reason("gpu-xid", xid=one["xid"], device=one["device"], count=one["count"])
        yield _note(host, "Xid", said, reason("cure-gpu") if grave else "", False if grave else None)


def _memory(host: str, facts: Facts) -> Iterator[Finding]:
    edac = facts.get("edac")
    if edac and edac["ue_count"]:
        yield _note(host, "ECC", reason("memory-uncorrected", count=edac["ue_count"]), reason("cure-memory"), False)
    elif edac and edac["ce_count"]:
        yield _note(host, "ECC", reason("memory-corrected", count=edac["ce_count"]), reason("cure-memory"))
    numa = facts.get("numa") or {}
    if numa.get("without_memory"):
        said = reason("numa-without-memory", nodes=numa["without_memory"])
        yield _note(host, "NUMA", said, reason("cure-numa-memory"))
    if numa.get("nodes", 0) > 1 and numa.get("balancing"):
        yield _note(host, "NUMA", reason("numa-balancing"), reason("cure-numa-balancing"))
    if facts.get("thp") == "never" and not facts.get("huge_pages"):
        yield _note(host, "huge pages", reason("no-huge-pages"), reason("cure-huge-pages"))


def _system(host: str, facts: Facts) -> Iterator[Finding]:
    governors = facts.get("governors") or {}
    if set(governors) - {"performance"}:
        counted = ", ".join(f"{name} × {count}" for name, count in sorted(governors.items()))
        yield _note(host, "governor", reason("governors", governors=counted), reason("cure-governor"))
    limits = facts.get("limits") or {}
    if facts.get("infiniband") and limits.get("memlock", _UNLIMITED) != _UNLIMITED:
        yield _note(host, "limits", reason("memlock-limited", bytes=limits["memlock"]), reason("cure-memlock"))
    if 0 <= limits.get("nofile", _FEW_FILES) < _FEW_FILES:
        yield _note(host, "limits", reason("few-files", files=limits["nofile"]), reason("cure-files", least=_FEW_FILES))
    if facts.get("synchronised") is False:
        yield _note(host, "time", reason("clock-alone"), reason("cure-clock"))


def _mounts(host: str, facts: Facts) -> Iterator[Finding]:
    for path, mount in (facts.get("mounts") or {}).items():
        size = mount.get("size")
        if path == SHARED_MEMORY:
            if size is not None and size < _SMALL_SHM:
                yield _note(host, "mounts", reason("small-shm", gib=size / 2**30), reason("cure-shm"))
            continue
        where = {"path": path, "point": mount["point"], "type": mount["type"]}
        if "ro" in mount["options"]:
            yield _note(host, "mounts", reason("mount-read-only", **where), reason("cure-mount"), False)
        elif "noexec" in mount["options"]:
            yield _note(host, "mounts", reason("mount-noexec", **where), reason("cure-mount"))
        free = mount.get("free")
        if free is not None:
            said = reason("mount", free=free / 2**30, options=_few(mount["options"]), **where)
            # Where results wait for a server it is worth knowing; a shared folder is meant to be there.
            yield _note(host, "mounts", said, good=True)


def _few(options: list[str]) -> str:
    """Those that change how files behave; the others are sizes and names."""
    told = ("ro", "rw", "noexec", "nosuid", "sync", "noac", "nolock", "soft", "hard", "vers=3", "vers=4.2", "noatime")
    return ",".join(option for option in options if option in told)


def alike(facts: Facts) -> dict[str, str]:
    """What nodes of one site have in common, as a rule."""
    nvidia = facts.get("nvidia") or {}
    ports = facts.get("infiniband") or {}
    memory = facts.get("memory")
    found: dict[str, object] = {
        "kernel": facts.get("kernel"),
        "operating system": facts.get("os"),
        "processor": facts.get("cpu"),
        "threads": facts.get("threads"),
        "cores": facts.get("cores"),
        "microcode": facts.get("microcode"),
        "memory": None if memory is None else f"{round(memory / _MEMORY_STEP)} GiB",
        "governor": ", ".join(sorted(facts.get("governors") or {})),
        "transparent huge pages": facts.get("thp"),
        "huge pages": ", ".join(f"{size} × {n}" for size, n in sorted((facts.get("huge_pages") or {}).items())),
        "NUMA nodes": (facts.get("numa") or {}).get("nodes"),
        "clock source": facts.get("clock_source"),
        "NVIDIA driver": nvidia.get("driver"),
        "devices": ", ".join(_counted(one["model"] or "?" for one in nvidia.get("devices", []))),
        "ECC": ", ".join(sorted({str(one["ecc"]) for one in nvidia.get("devices", [])})),
        "NVLink": ", ".join(f"{one['up']} up" for _, one in sorted((facts.get("nvlink") or {}).items())),
        "InfiniBand": ", ".join(f"{name} {port['rate']}" for name, port in sorted(ports.items())),
        "limit of locked memory": (facts.get("limits") or {}).get("memlock"),
        "limit of open files": (facts.get("limits") or {}).get("nofile"),
    }
    for name, card in (facts.get("interfaces") or {}).items():
        found[f"MTU of {name}"] = card["mtu"]
        if card["speed"] and card["speed"] > 0:
            found[f"speed of {name}"] = f"{card['speed']} Mb/s"
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def _counted(names: Iterator[str]) -> list[str]:
    return [f"{count} × {name}" for name, count in sorted(Counter(names).items())]


def differences(known: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Nodes that differ from most of the others; where no value has a majority, every node is named."""
    if len(known) < 2:
        return
    names = dict.fromkeys(name for facts in known.values() for name in facts)
    for name in names:
        values = {host: facts.get(name, "–") for host, facts in known.items()}
        counts = Counter(values.values())
        if len(counts) == 1:
            continue
        usual, count = counts.most_common(1)[0]
        for host, value in values.items():
            if 2 * count <= len(known):
                others = sorted(counts.keys() - {value})
                yield _note(host, "differs", reason("nodes-differ", what=name, value=value, others=others))
            elif value != usual:
                said = reason("node-differs", what=name, value=value, usual=usual, count=count, nodes=len(known))
                yield _note(host, "differs", said)
