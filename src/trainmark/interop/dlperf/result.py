"""DLPerf's own result: average, median and speed-up of the runs of each case, rounded as its scripts round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainmark.interop.reading.records import Flag
from trainmark.report.make.dlperf import BASE, cell, order, speedup


class Speed(msgspec.Struct, frozen=True):
    """One run's speed; None when it gave none."""

    model: str
    case: str
    repeat: int
    batch: int | None
    dtype: str | None
    speed: float | None
    digits: int = 2
    # What the report says against its case.
    flags: str = ""


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
        for one in cells.values():
            one["speedup"] = _speedup(one, base, method)
        if base is None and method == "dlperf":
            for one in cells.values():
                del one["median_speed"]
            cells[BASE] = {"average_speed": {}}
        found[model] = cells
    return found


def _cell(runs: list[Speed]) -> dict[str, Any]:
    speeds = [run.speed for run in runs if run.speed is not None]
    marks = "; ".join(dict.fromkeys(run.flags for run in runs if run.flags))
    return {**cell(speeds, runs[0].batch, runs[0].digits), **({"flags": marks} if marks else {})}


def _speedup(one: Mapping[str, Any], base: Mapping[str, Any] | None, method: str) -> float | None:
    if base is None:
        return 1.0 if method == "dlperf" else None
    return speedup(one, base)


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
