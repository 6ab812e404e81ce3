"""What the nodes did over the whole experiment: processors, memory, devices and network, from the agents' samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainmark.store.files import decode_line, read_json
from trainmark.store.rundir import SAMPLES, STATUS, RunDir

BINS = 240
# Of a file that is larger, so many samples are looked at, evenly spread: 100 nodes write gigabytes of them in a day.
_WHOLE_BYTES, _MOST_SAMPLES = 4 << 20, 4 * BINS
_LINE_BYTES = 1 << 14
# What is shown of a sample, and in which unit.
SHOWN = {"cpu": "fraction", "mem_used": "bytes", "net_rx": "bytes/s", "net_tx": "bytes/s", "power_w": "W"}


class Series(msgspec.Struct, frozen=True):
    """One quantity of one node; `x` is seconds since the start of the experiment, y None where nothing was sampled."""

    host: str
    name: str
    unit: str
    x: list[float]
    y: list[float | None]


def read(run: RunDir, start: float, seconds: float) -> list[Series]:
    """Means over equal parts of the experiment. Agents of one node sample the same and count as one."""
    width = max(seconds, 1.0) / BINS
    sums: defaultdict[tuple[str, str], list[list[float]]] = defaultdict(lambda: [[0.0, 0.0] for _ in range(BINS)])
    for file in sorted(run.path.glob(f"*/round*/attempt*/*/{SAMPLES}")):
        host = _host(file.parent)
        offset = _offset(file.parent)
        if offset is None:
            continue
        for sample in _samples(file):
            at = int((sample.get("t", 0) * 1e-9 + offset - start) / width)
            if 0 <= at < BINS:
                for name, value in _values(sample):
                    cell = sums[host, name][at]
                    cell[0] += value
                    cell[1] += 1
    times = [(number + 0.5) * width for number in range(BINS)]
    return [
        Series(host, name, unit_of(name), times, [total / count if count else None for total, count in cells])
        for (host, name), cells in sorted(sums.items())
    ]


def unit_of(name: str) -> str:
    if name in SHOWN:
        return SHOWN[name]
    return "bytes" if name.endswith("memory") else "fraction"


def _values(sample: dict[str, Any]) -> list[tuple[str, float]]:
    found = [(name, sample[name]) for name in SHOWN if _is_number(sample.get(name))]
    devices = sample.get("devices")
    for number, device in enumerate(devices if isinstance(devices, list) else []):
        if isinstance(device, dict):
            pairs = (("utilisation", "utilisation"), ("mem_used", "memory"))
            found += [(f"device {number} {word}", device[key]) for key, word in pairs if _is_number(device.get(key))]
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _samples(file: Path) -> list[dict[str, Any]]:
    found = map(decode_line, _lines(file))
    return [sample for sample in found if isinstance(sample, dict)]


def _lines(file: Path) -> Iterator[bytes]:
    """All lines but the first, which names units; of a large file some, each found behind the next end of a line."""
    size = file.stat().st_size
    if size <= _WHOLE_BYTES:
        yield from file.read_bytes().splitlines()[1:]
        return
    with file.open("rb", buffering=0) as data:
        for number in range(_MOST_SAMPLES):
            data.seek(size * number // _MOST_SAMPLES)
            _, _, rest = data.read(2 * _LINE_BYTES).partition(b"\n")
            line, end, _ = rest.partition(b"\n")
            if end:
                yield line


def _host(folder: Path) -> str:
    """The host that Slurm chose, or the planned one."""
    plan = read_json(folder / "node.json")
    return str(plan["host"]) if isinstance(plan, dict) and "host" in plan else folder.name.rpartition("_noderank")[0]


def _offset(folder: Path) -> float | None:
    """From the node's monotonic clock to Unix time."""
    status = read_json(folder / STATUS)
    wall, here = (status.get("wall"), status.get("t")) if isinstance(status, dict) else (None, None)
    if not isinstance(wall, int) or not isinstance(here, int):
        return None
    return float(wall - here) * 1e-9
