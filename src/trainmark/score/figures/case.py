"""All measurements of one case from the runs that count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from trainmark.score.figures import convergence
from trainmark.score.figures.attempt import RunScore
from trainmark.score.figures.definitions import DEFINITIONS, Definition, definition
from trainmark.score.figures.figure import Figure
from trainmark.score.figures.measurement import Measurement
from trainmark.score.stats.confidence import log_t, outliers, plain_t
from trainmark.score.stats.node_sets import by_set
from trainmark.spec.workload import Target

# Cutting an interval at what cannot be keeps its coverage.
_RANGES = {"share": (0.0, 1.0), "excess": (0.0, math.inf)}
HEADLINES = ("throughput", "sustained_throughput")


def measure(
    runs: Sequence[RunScore],
    unit: str,
    seed: int,
    rounds: int | None = None,
    target: Target | None = None,
    sets: Sequence[object] = (),
) -> dict[str, Measurement]:
    """What the case shows. A figure that a run lacks has no value for the case; what was seen stays in `inputs`.
    `sets`: the nodes of each run; rounds on several sets of nodes are averaged by set before they are pooled."""
    names = [*DEFINITIONS, *sorted({name for run in runs for name in run.figures} - set(DEFINITIONS))]
    missing = Figure(None, "not told in every run")
    found = {}
    for name in names:
        figures = [_disturbed(run) if name == "disturbed_rounds" else run.figures.get(name, missing) for run in runs]
        found[name] = _over_runs(definition(name), figures, unit, seed, sets)
    for name in HEADLINES:
        found[name] = _with_remarks(found[name], runs, rounds)
    return {**found, **convergence.measure([run.reach for run in runs], target, unit, seed)}


def odd_ones(runs: Sequence[RunScore]) -> list[bool]:
    """Which runs lie far from the others in throughput."""
    values = [run.value("throughput") for run in runs]
    flags = iter(outliers([value for value in values if value is not None]))
    return [next(flags) if value is not None else False for value in values]


def _disturbed(run: RunScore) -> Figure:
    return Figure(float(bool(run.disturbed)))


def _with_remarks(found: Measurement, runs: Sequence[RunScore], rounds: int | None) -> Measurement:
    """The headline says what stands behind it: rounds that failed, were disturbed, or lie apart."""
    remarks = [found.reason] if found.reason else []
    if rounds is not None and len(runs) < rounds:
        remarks.append(f"{len(runs)} of {rounds} rounds succeeded")
    disturbed = sum(bool(run.disturbed) for run in runs)
    if disturbed:
        remarks.append(f"{disturbed} of {len(runs)} rounds were disturbed")
    apart = sum(odd_ones(runs))
    if apart:
        remarks.append(f"{apart} of {len(runs)} rounds lie apart from the others and are counted")
    windows = sorted({run.window.method for run in runs if run.window is not None})
    method = "; ".join([*([found.method] if found.method else []), *(f"window: {name}" for name in windows)])
    return msgspec.structs.replace(found, reason="; ".join(remarks), method=method)


def _over_runs(
    what: Definition, figures: Sequence[Figure], unit: str, seed: int, sets: Sequence[object]
) -> Measurement:
    inputs = [figure.value if figure.value is not None else figure.seen for figure in figures]
    kept = [value for value in inputs if value is not None]
    blank = Measurement(
        what.name, None, what.unit.format(unit=unit), len(kept), formula=what.formula, inputs=kept, seed=seed
    )
    fill = msgspec.structs.replace
    reasons = sorted({figure.reason for figure in figures if figure.value is None})
    if reasons or not kept:
        return fill(blank, reason="; ".join(reason for reason in reasons if reason) or "no run succeeded")
    hows = sorted({figure.how for figure in figures if figure.how})
    found = _combined(what, kept, sets)
    return fill(blank, **{**found, "method": "; ".join([found.get("method", ""), *hows])})


def _combined(what: Definition, kept: list[float], sets: Sequence[object]) -> dict[str, Any]:
    """Value, interval and method over runs that all have the figure."""
    if what.kind == "sum":
        return {"value": sum(kept), "method": "sum"}
    if what.kind == "highest":
        return {"value": max(kept), "method": "highest"}
    if len(kept) == 1:
        return {"value": kept[0], "method": "single run", "reason": "an interval needs at least 2 runs"}
    pooled = by_set(kept, sets, logs=what.kind == "rate")
    interval = log_t(pooled) if what.kind == "rate" else plain_t(pooled)
    if interval is None:
        return {"reason": "a value is not positive"}
    over = f", over the means of {len(pooled)} sets of nodes" if len(pooled) < len(kept) else ""
    if what.kind == "rate":
        return _interval(interval, f"geometric mean, 95 % t interval on the logarithm{over}")
    value, low, high = interval
    least, most = _RANGES.get(what.kind, (-math.inf, math.inf))
    return _interval((value, max(least, low), min(high, most)), f"mean, 95 % t interval{over}")


def _interval(found: tuple[float, float, float], method: str) -> dict[str, Any]:
    return {"value": found[0], "ci_low": found[1], "ci_high": found[2], "method": method}
