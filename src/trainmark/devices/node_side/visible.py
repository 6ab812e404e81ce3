"""Which devices the ranks of a node get, and whether they are there. Pure.

A process may have inherited a choice (`CUDA_VISIBLE_DEVICES=4,5` of a scheduler): rank i gets the i-th of it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from trainmark.devices.node_side.reasons import reason

# What may be so and still be no hindrance: nobody could look, or what was seen is not understood.
_MILD = ("device-tool-missing", "device-tool-not-understood")


def chosen(inherited: Optional[str]) -> Optional[List[str]]:
    """The devices that a variable names, in order; None where it names none: all of them. As CUDA reads it, what
    follows a negative number does not count."""
    if inherited is None:
        return None
    names = []
    for word in inherited.split(","):
        name = word.strip()
        if not name or name.startswith("-") or name.lower() in ("nodevfiles", "none", "void"):
            break
        if name.lower() == "all":
            return None
        names.append(name)
    return names


def of_rank(inherited: Optional[str], local_rank: int) -> Optional[str]:
    """The device of one rank; None where there are too few."""
    names = chosen(inherited)
    if names is None:
        return str(local_rank)
    return names[local_rank] if local_rank < len(names) else None


def is_grave(wrong: Mapping[str, Any]) -> bool:
    return wrong["code"] not in _MILD


def wrong(facts: Mapping[str, Any], vendor: str, ranks: int, inherited: Optional[str]) -> Optional[Dict[str, Any]]:
    """What keeps `ranks` ranks from having a device each, as a reason; None when nothing does."""
    found = facts.get("problem")
    names = chosen(inherited)
    if names is not None and len(names) < ranks:
        return reason("devices-fewer-visible", vendor=vendor, ranks=ranks, visible=inherited)
    if found is not None:
        return dict(found)
    count = int(facts.get("count") or 0)
    if not count:
        return reason("device-absent", vendor=vendor)
    devices = facts.get("devices") or []
    if count < ranks:
        return reason("devices-fewer", vendor=vendor, ranks=ranks, count=count)
    models = sorted({str(one.get("model")) for one in taken(devices, names, ranks) if one.get("model")})
    if len(models) > 1:
        return reason("devices-mixed", vendor=vendor, models=", ".join(models))
    return None


def taken(devices: List[Dict[str, Any]], names: Optional[List[str]], ranks: int) -> List[Dict[str, Any]]:
    """The devices that ranks get; a name that is no number is looked for among the names that devices have."""
    if names is None:
        return devices[:ranks]
    found = []
    for name in names[:ranks]:
        if name.isdigit():
            found += devices[int(name) : int(name) + 1]
        else:
            found += [one for one in devices if str(one.get("uuid") or "").startswith(name)]
    return found
