"""Result folders of ais-bench: a speed for each rank, an accuracy, or the record that its stub printed.

They hold no steps. A round is made of each folder whose ranks did two steps at their rate: its speed is what ais-bench
reported, and its notes say that times are derived.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainmark.interop.reading.records import Begin, CaseFields, Counted, End, Flag, Item, Kept, LoggedEvent, Missing
from trainmark.spec.states import JobState

_RANK = re.compile(r"(?:throughput_(?:rank_)?)(\d+)(?:\.json)?$")
_ACCURACY = re.compile(r"(?:accuracy(?:_(\d+))?\.json|eval_acc\.log)$")
_SIZE, _RESULT = "ranksize.json", "result.log"
_LONGEST = 1 << 20
_SECOND = 1_000_000_000
# A rate becomes samples of a step; fractions of a sample are no samples, so steps are long.
_SECONDS = 100


def wants(name: str) -> bool:
    last = name.rpartition("/")[2]
    return bool(_RANK.match(last) or _ACCURACY.match(last)) or last in (_SIZE, _RESULT)


class _Folder:
    """What one result folder holds."""

    def __init__(self) -> None:
        self.rates: dict[tuple[int, int], float] = {}
        self.accuracies: dict[int, float] = {}
        self.size: int | None = None
        self.raw = ""

    @property
    def servers(self) -> list[int]:
        return sorted({server for server, _ in self.rates})


def items(files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
    folders: dict[str, _Folder] = {}
    for file in files:
        value = _value(file)
        top, server, last = _place(file.name)
        folder = folders.setdefault(top, _Folder())
        if value is None:
            yield Flag("no number", file.name, "it holds no number", 1)
            yield Counted(file.name, 1, 0, 0, 1)
            continue
        folder.raw = folder.raw or file.sha256
        if found := _RANK.match(last):
            folder.rates[server, int(found[1])] = value
        elif found := _ACCURACY.match(last):
            folder.accuracies[int(found[1] or 0)] = value
        elif last == _SIZE:
            folder.size = int(value)
        else:
            folder.rates.setdefault((0, 0), value)
        yield Counted(file.name, 1, 1, 0, 0)
    for top, folder in sorted(folders.items()):
        yield from _round(top, folder, options)


def _place(name: str) -> tuple[str, int, str]:
    """Folder, server and file: in single-server mode each server's ranks have a folder of its number."""
    parts = name.split("/")
    if len(parts) > 1 and parts[-2].isdigit() and _RANK.match(parts[-1]):
        return "/".join(parts[:-2]), int(parts[-2]), parts[-1]
    return "/".join(parts[:-1]), 0, parts[-1]


def _value(file: Kept) -> float | None:
    from trainmark.interop.reading import source

    try:
        with source.opened(file.path) as stream:
            text = stream.read(_LONGEST).decode("utf-8", "replace").strip()
        found = json.loads(text)
        if isinstance(found, dict):
            found = float(found["throughput_ratio"])
    except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError):
        return None
    good = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 1e15
    return float(found) if good else None


def _round(top: str, folder: _Folder, options: Mapping[str, Any]) -> Iterator[Item]:
    place = top or "."
    if not folder.rates:
        yield Flag("no speed", place, "no throughput of a rank in it")
        return
    servers = folder.servers
    counts = {server: [rank for one, rank in folder.rates if one == server] for server in servers}
    nproc = max(len(ranks) for ranks in counts.values())
    world = sum(len(ranks) for ranks in counts.values())
    case = CaseFields(options["workload"], options["framework"], len(servers), nproc, options["device"])
    if trouble := case.trouble():
        yield Flag("no such case", place, trouble)
        return
    yield Begin(case, place, "derived", "rank", folder.raw)
    for server in servers:
        for local, rank in enumerate(sorted(counts[server])):
            number, node = servers.index(server) * nproc + local, servers.index(server)
            yield from _rank(folder.rates[server, rank], number, node, folder.accuracies.get(server))
    expected = folder.size if folder.size is not None else world
    if world != expected:
        text = f"{world} of {expected} ranks left a speed; ais-bench summed those that did"
        yield Flag("missing ranks", place, text)
        yield End(JobState.FAILED, text)
        return
    yield End(JobState.SUCCEEDED)
    yield Missing("the times of steps, losses, and what the machines were made of")


def _rank(rate: float, rank: int, node: int, accuracy: float | None) -> Iterator[Item]:
    yield LoggedEvent("TRAIN_START", 0, {}, rank, node)
    for step in (1, 2):
        at = step * _SECONDS * _SECOND
        yield LoggedEvent("STEP_END", at, {"step": step, "n": max(1, round(rate * _SECONDS))}, rank, node)
        yield LoggedEvent("BLOCK", at, {"step": step}, rank, node)
    if accuracy is not None:
        yield LoggedEvent("EVALUATE", at, {"step": 2, "values": {"accuracy": accuracy}}, rank, node)
    yield LoggedEvent("TRAIN_END", at, {}, rank, node)
