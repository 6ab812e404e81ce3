"""DLPerf's own result: average, median and speed-up of the runs of each case, rounded as its scripts round."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

import msgspec

from trainmark.interop.records import Flag

BASE = "1n1g"


class Speed(msgspec.Struct, frozen=True):
    """One run's speed; None when it gave none."""

    model: str
    case: str
    repeat: int
    batch: int | None
    dtype: str | None
    speed: float | None
    digits: int = 2


def order(case: str) -> tuple[int, int]:
    nodes, _, cards = case.rstrip("g").partition("n")
    return int(nodes), int(cards)


def collect(speeds: list[Speed], method: str) -> dict[str, dict[str, dict[int, Speed]]]:
    """model → case → repeat. DLPerf forgets batch and dtype here, so that such runs overwrite each other."""
    kinds: dict[str, set[tuple[int | None, str | None]]] = {}
    for one in speeds:
        kinds.setdefault(one.model, set()).add((one.batch, one.dtype))
    found: dict[str, dict[str, dict[int, Speed]]] = {}
    for one in speeds:
        mixed = method == "time" and len(kinds[one.model]) > 1
        model = f"{one.model}_b{one.batch}_{one.dtype}" if mixed else one.model
        if one.speed is not None:
            found.setdefault(model, {}).setdefault(one.case, {})[one.repeat] = one
    return found


def result(speeds: list[Speed], method: str) -> dict[str, Any]:
    """The JSON of DLPerf. With `dlperf` also its strange shape where the base case is missing."""
    found: dict[str, Any] = {}
    for model, cases in collect(speeds, method).items():
        cells = {case: _cell(list(runs.values())) for case, runs in sorted(cases.items(), key=lambda c: order(c[0]))}
        base = cells.get(BASE)
        for cell in cells.values():
            cell["speedup"] = _speedup(cell, base, method)
        if base is None and method == "dlperf":
            for cell in cells.values():
                del cell["median_speed"]
            cells[BASE] = {"average_speed": {}}
        found[model] = cells
    return found


def _cell(runs: list[Speed]) -> dict[str, Any]:
    speeds = [run.speed for run in runs if run.speed is not None]
    return {
        "average_speed": round(sum(speeds) / len(speeds), runs[0].digits),
        "batch_size_per_device": runs[0].batch,
        "median_speed": round(median(speeds), 2),
    }


def _speedup(cell: Mapping[str, Any], base: Mapping[str, Any] | None, method: str) -> float | None:
    if base is None:
        return 1.0 if method == "dlperf" else None
    if not base["median_speed"] or not math.isfinite(base["median_speed"]):
        return None
    return round(float(cell["median_speed"] / base["median_speed"]), 2)


def flags(speeds: list[Speed], group: str) -> Iterator[Flag]:
    """What DLPerf would have passed over in silence."""
    seen: dict[tuple[str, str, int], Speed] = {}
    for one in speeds:
        key = (one.model, one.case, one.repeat)
        before = seen.setdefault(key, one)
        if before is not one:
            text = (
                f"b{before.batch} {before.dtype} and b{one.batch} {one.dtype} are one key for DLPerf: one is lost there"
            )
            yield Flag("overwritten", f"{group}/{one.case}/{one.model}_{one.repeat}", text)
    for model in {one.model for one in speeds}:
        if not any(one.case == BASE and one.speed is not None for one in speeds if one.model == model):
            text = f"no run of {BASE} for `{model}`: a speed-up cannot be known (DLPerf says 1.0 for every case)"
            yield Flag("missing baseline", group or model, text)


def log_lines(speeds: list[tuple[str, Speed]]) -> str:
    """What a script prints for each file: the runs of its case so far."""
    so_far: dict[tuple[str, str], dict[int, float]] = {}
    lines = []
    for path, one in speeds:
        if one.speed is not None:
            runs = so_far.setdefault((one.model, one.case), {})
            runs[one.repeat] = one.speed
            lines.append(f"{path} {runs}\n")
    return "".join(lines)


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown table of DLPerf's reports."""
    head = ("node_num", "gpu_num", "samples/s", "speedup")
    rows = []
    for case, cell in sorted(cells.items(), key=lambda item: order(item[0])):
        if "median_speed" not in cell:
            continue
        nodes, cards = order(case)
        speedup = cell["speedup"]
        told = "-" if speedup is None else "1" if case == BASE else f"{speedup:.2f}"
        rows.append((str(nodes), str(nodes * cards), f"{cell['median_speed']:.2f}".removesuffix(".00"), told))
    lines = [head, tuple("-" * len(name) for name in head), *rows]
    return "".join(
        "| " + " | ".join(cell.ljust(len(name)) for cell, name in zip(line, head, strict=True)) + " |\n"
        for line in lines
    )
