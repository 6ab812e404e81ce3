"""What a site can reach, read from the run that measured it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainmark.devices.protocol import dense_peak
from trainmark.i18n.speaker import say
from trainmark.plan.records import CasePlan
from trainmark.spec.columns import Columns, is_number
from trainmark.spec.peaks import SCHEMA, Bandwidth, Matmul, Message, Peaks, Product, Published, Scope
from trainmark.store import columns, events
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState

COLLECTIVES = "collectives"


def of_run(run: RunDir, manifest: Manifest, state: RunState) -> Peaks:
    """Of whatever succeeded; what is not there is said."""
    matmul: list[Matmul] = []
    bandwidths: list[Bandwidth] = []
    products: list[Product] = []
    messages: list[Message] = []
    missing: list[str] = []
    published: list[Published] = []
    hosts = {node.host for case in state.plan.cases for node in case.nodes if node.host}
    for index, case in enumerate(state.plan.cases):
        counted = state.counted(index)
        if not counted:
            missing.append(f"{case.case}: {say(state.case_outcome(index)[1])}")
            continue
        ref, attempt = counted[-1]
        folder = run.attempt(case, ref, attempt.number)
        found = columns.read(folder, case.world)
        if case.workload == COLLECTIVES:
            messages += _messages(found, "between" if len(case.nodes) > 1 else "within", missing)
            continue
        named = dict(enumerate(events.hosts_of(folder, case)))
        hosts.update(named.values())
        for host, notes in _by_host(found, case, named).items():
            mine = _matmul(host, case.id.nproc, notes, _threads(folder))
            matmul += mine
            bandwidths += _bandwidths(host, case.id.nproc, notes)
            products += _products(host, case.id.nproc, notes)
            published += _published(case, events.models(folder), mine)
            missing += sorted({f"{n['dtype']}: {n['missing']}" for n in notes if n.get("missing")})
    return Peaks(
        schema=SCHEMA,
        site=manifest.plan.site.name,
        device=manifest.plan.cases[0].device,
        created=manifest.created * 1e-9,
        run=run.id,
        hosts=sorted(hosts),
        matmul=matmul,
        bandwidths=bandwidths,
        products=products,
        messages=messages,
        missing=list(dict.fromkeys(missing)),
        published=list(dict.fromkeys(published)),
    )


def _published(case: CasePlan, models: Sequence[str], matmul: Sequence[Matmul]) -> list[Published]:
    """By number format; of devices of several models nobody's peak is shown."""
    if len(models) > 1:
        return []
    found = {one.dtype: dense_peak(case.vendor, models[0] if models else case.device, one.dtype) for one in matmul}
    return [Published(dtype, one.flops, one.source) for dtype, one in found.items() if one is not None]


def _threads(folder: Path) -> int | None:
    found = [result.get("settings", {}).get("threads") for result in events.results(folder)]
    return next((value for value in found if isinstance(value, int)), None)


def _by_host(found: Columns, case: CasePlan, named: dict[int, str]) -> dict[str, list[dict[str, Any]]]:
    """What all ranks of each host noted. A host of which a rank is silent has no figure."""
    hosts: dict[str, list[dict[str, Any]]] = {}
    for node in case.nodes:
        ranks = {command.rank for command in node.ranks}
        here = [rank for rank in found.ranks if rank.rank in ranks]
        if len(here) == len(ranks):
            hosts[named[node.index]] = [note for rank in here for note in rank.notes("peak") if isinstance(note, dict)]
    return hosts


def _summed(
    notes: Sequence[dict[str, Any]], what: str, nproc: int, *keys: str
) -> dict[tuple[Any, ...], dict[str, float]]:
    """Figures that every rank noted, added up over ranks, by the values of `keys`."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for note in notes:
        if note.get("what") == what and not note.get("missing"):
            groups.setdefault(tuple(note.get(key) for key in keys), []).append(note)
    found = {}
    for key, members in groups.items():
        if len(members) == nproc:
            names = [name for name, value in members[0].items() if is_number(value)]
            found[key] = {name: sum(float(one.get(name, 0.0)) for one in members) for name in names}
    return found


def _matmul(host: str, nproc: int, notes: Sequence[dict[str, Any]], threads: int | None) -> list[Matmul]:
    return [
        Matmul(host, nproc, str(dtype), sums["flops"], sums["best"], sums["seconds"] / nproc, threads)
        for (dtype,), sums in _summed(notes, "matmul", nproc, "dtype").items()
    ]


def _bandwidths(host: str, nproc: int, notes: Sequence[dict[str, Any]]) -> list[Bandwidth]:
    kinds = ("memory", "host_to_device", "device_to_host")
    found = [(what, sums) for what in kinds for sums in _summed(notes, what, nproc).values()]
    return [Bandwidth(what, host, nproc, sums["bandwidth"]) for what, sums in found]


def _products(host: str, nproc: int, notes: Sequence[dict[str, Any]]) -> list[Product]:
    return [
        Product(host, nproc, str(dtype), int(size), sums["intensity"] / nproc, sums["flops"])
        for (dtype, size), sums in _summed(notes, "product", nproc, "dtype", "size").items()
    ]


def _messages(found: Columns, scope: Scope, missing: list[str]) -> list[Message]:
    notes = [note for rank in found.ranks for note in rank.notes("collective") if isinstance(note, dict)]
    found_messages = []
    for note in notes:
        if note.get("missing"):
            missing.append(f"{note.get('operation')} {scope} hosts: {note['missing']}")
        elif all(is_number(note.get(name)) for name in ("bytes", "world", "seconds", "bandwidth", "bus_bandwidth")):
            found_messages.append(
                Message(
                    scope,
                    str(note.get("operation")),
                    int(note["bytes"]),
                    int(note["world"]),
                    *(float(note[name]) for name in ("seconds", "bandwidth", "bus_bandwidth")),
                )
            )
    return found_messages
