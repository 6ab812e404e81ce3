"""Reading what nodes wrote beside their events: results, samples, facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainmark.plan.records import CasePlan
from trainmark.spec.columns import NodeSamples, is_number
from trainmark.store.files import BROKEN, read_json
from trainmark.store.rundir import CLAIM, FACTS, RESULT, SAMPLES, node_files, node_index, node_name


def results(attempt: Path) -> Iterator[dict[str, Any]]:
    """The result record of each node that left one, in node order."""
    for file in sorted(node_files(attempt, RESULT), key=lambda path: node_index(path.parent)):
        found = read_json(file)
        if isinstance(found, dict):
            yield {name: value for name, value in found.items() if isinstance(value, _RESULT.get(name, object))}


# Of a damaged record, what is not of its type is as good as missing.
_RESULT: dict[str, type] = {"events": int, "warnings": list, "disturbed": list}


def samples(attempt: Path) -> list[NodeSamples]:
    """What was sampled on each node, in the order of their folders. Torn lines are left out."""
    return [_node(file) for file in node_files(attempt, SAMPLES)]


def _node(file: Path) -> NodeSamples:
    records = []
    for line in file.read_bytes().split(b"\n"):
        try:
            record = _SAMPLE.decode(line) if line else None
        except BROKEN:
            continue
        # The first line tells the units.
        if record is not None and type(record.get("t")) is int and is_number(record["t"]):
            records.append(record)
    used, models = _accelerators(file.parent)
    return NodeSamples(node_name(file.parent), records, _cores(file.parent), _machine(file.parent), used, models)


_SAMPLE = msgspec.json.Decoder(dict[str, Any])


def hosts(attempt: Path) -> dict[int, str]:
    """The host of each node by its index, as its agent said it."""
    found = {}
    for file in node_files(attempt, CLAIM):
        claim = read_json(file)
        if isinstance(claim, dict) and claim.get("host"):
            found[node_index(file.parent)] = str(claim["host"])
    return found


def hosts_of(attempt: Path, case: CasePlan) -> tuple[str, ...]:
    """Where an attempt really ran, node by node: a scheduler may choose other hosts for each."""
    said = hosts(attempt)
    return tuple(said.get(node.index, node.host) for node in case.nodes)


def _machine(node: Path) -> str:
    """The boot of the kernel its agent ran on: hosts in namespaces of one machine share it."""
    claim = read_json(node / CLAIM)
    return str(claim.get("boot_id") or "") if isinstance(claim, dict) else ""


def _cores(node: Path) -> int | None:
    facts = read_json(node / FACTS)
    cpu = facts.get("cpu") if isinstance(facts, dict) else None
    threads = cpu.get("threads") if isinstance(cpu, dict) else None
    return threads if isinstance(threads, int) and threads > 0 else None


def _accelerators(node: Path) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """Which devices its ranks had, and the models of those it has."""
    facts = read_json(node / FACTS)
    found = facts.get("accelerators") if isinstance(facts, dict) else None
    if not isinstance(found, dict):
        return None, ()
    used, devices = found.get("used"), found.get("devices")
    models = [one.get("model") for one in devices or [] if isinstance(one, dict)] if isinstance(devices, list) else []
    indices = tuple(index for index in used if isinstance(index, int)) if isinstance(used, list) else None
    chosen = [name for index, name in enumerate(models) if indices is None or index in indices]
    return indices, tuple(sorted({str(name) for name in chosen if name}))


def models(attempt: Path) -> tuple[str, ...]:
    """The models of the devices that ranks had, over all nodes."""
    return tuple(sorted({name for file in node_files(attempt, FACTS) for name in _accelerators(file.parent)[1]}))
