"""DLPerf's shape of a result: average, median and speed-up as its scripts round them, and the table of its reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.report.records import StudyReport
from trainmark.score.stats.confidence import median

BASE = "1n1g"
OOM = "OOM"


def order(case: str) -> tuple[int, int]:
    nodes, _, cards = case.rstrip("g").partition("n")
    return int(nodes), int(cards)


def cell(speeds: Sequence[float], batch: int | None, digits: int = 2) -> dict[str, Any]:
    return {
        "average_speed": round(sum(speeds) / len(speeds), digits),
        "batch_size_per_device": batch,
        "median_speed": round(median(speeds), 2),
    }


def speedup(one: Mapping[str, Any], base: Mapping[str, Any]) -> float | None:
    """Of medians that are rounded already; unknown where the baseline has no speed."""
    if not base["median_speed"] or not math.isfinite(base["median_speed"]):
        return None
    return round(float(one["median_speed"] / base["median_speed"]), 2)


def cells_of(study: StudyReport) -> dict[str, dict[str, Any]]:
    """A series as DLPerf's JSON has it. Its scripts round each run before anything else."""
    named = {f"{one.nodes}n{one.procs}g": one for one in study.cells}
    found = {
        name: cell([round(speed, 2) for speed in one.speeds], one.batch) for name, one in named.items() if one.speeds
    }
    nodes, _, procs = study.baseline.partition("x")
    base = found.get(f"{nodes}n{procs}g")
    for one in found.values():
        one["speedup"] = speedup(one, base) if base is not None else None
    for name, member in named.items():
        if member.value == OOM:
            found[name] = {"batch_size_per_device": member.batch, "median_speed": OOM, "speedup": None}
    return dict(sorted(found.items(), key=lambda item: order(item[0])))


def table(cells: Mapping[str, Mapping[str, Any]], base: str = BASE) -> str:
    """The Markdown table of DLPerf's reports."""
    head = ("node_num", "gpu_num", "samples/s", "speedup")
    rows = []
    for case, one in sorted(cells.items(), key=lambda item: order(item[0])):
        if "median_speed" not in one:
            continue
        nodes, cards = order(case)
        speedup_text = "-" if one["speedup"] is None else "1" if case == base else f"{one['speedup']:.2f}"
        speed = one["median_speed"]
        shown = speed if speed == OOM else f"{speed:.2f}".removesuffix(".00")
        rows.append((str(nodes), str(nodes * cards), shown, speedup_text))
    lines = [head, tuple("-" * len(name) for name in head), *rows]
    return "".join(
        "| " + " | ".join(text.ljust(len(name)) for text, name in zip(line, head, strict=True)) + " |\n"
        for line in lines
    )
