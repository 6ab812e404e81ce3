"""All measurements of one case from the runs that count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.figures.attempt import RunScore
from trainmark.score.figures.convergence import Reach
from trainmark.score.figures.definitions import DEFINITIONS, GATED, Definition, Kind, definition
from trainmark.score.records import Figure, Flag, Measurement
from trainmark.score.stats.confidence import log_t, mean_per_set, median, plain_t
from trainmark.spec.workload import Target

# Cutting an interval at what cannot be keeps its coverage.
_RANGES = {"share": (0.0, 1.0), "excess": (0.0, math.inf)}
HEADLINES = ("throughput", "sustained_throughput")


def measure(
    runs: Sequence[RunScore],
    unit: str,
    seed: int,
    flags: Sequence[Flag] = (),
    target: Target | None = None,
    sets: Sequence[object] = (),
) -> dict[str, Measurement]:
    """What the case shows. A figure that a run lacks has no value for the case; but runs whose speed is withheld are
    left out of all figures that are made of steps, and those carry the `flags` of the case.

    `sets`: the nodes of each run; rounds on several sets of nodes are averaged by set before they are pooled."""
    names = [*DEFINITIONS, *sorted({name for run in runs for name in run.figures} - set(DEFINITIONS))]
    missing = Figure(None, reason("not-in-every-run"))
    valid = [run for run in runs if run.reason is None] or runs
    nodes = [one for one, run in zip(sets, runs, strict=True) if run in valid] if sets else []
    found = {}
    for name in names:
        gated = name in GATED
        counted = valid if gated else runs
        figures = [_disturbed(run) if name == "disturbed_rounds" else run.figures.get(name, missing) for run in counted]
        one = _over_runs(definition(name), figures, unit, seed, nodes if gated else sets)
        found[name] = msgspec.structs.replace(one, flags=list(flags)) if gated and one.value is not None else one
    for name in HEADLINES:
        found[name] = _widened(_with_method(found[name], valid), valid)
    return {**found, **to_target([run.reach for run in runs], target, unit, seed)}


def _disturbed(run: RunScore) -> Figure:
    return Figure(float(bool(run.disturbed)))


def _with_method(found: Measurement, runs: Sequence[RunScore]) -> Measurement:
    windows = dict.fromkeys(run.window.method for run in runs if run.window is not None)
    method = [*found.method, *(reason("window-method", method=method) for method in windows)]
    return msgspec.structs.replace(found, method=method)


def _widened(found: Measurement, runs: Sequence[RunScore]) -> Measurement:
    """The interval, widened by the levels that were seen inside rounds: which of them the machine would have kept is
    not known. Its ends are those of rounds that stay at their slowest or at their fastest level."""
    if found.ci_low is None or found.ci_high is None:
        return found
    windows = [run.window for run in runs if run.window is not None]
    slow, fast = (
        math.exp(math.fsum(math.log(level) for level in levels) / len(runs))
        for levels in ([one.slowest for one in windows], [one.fastest for one in windows])
    )
    if slow == fast:
        return found
    method = [*found.method, reason("widened-by-levels", slow=100 * (1 - slow), fast=100 * (fast - 1))]
    return msgspec.structs.replace(found, ci_low=found.ci_low * slow, ci_high=found.ci_high * fast, method=method)


def to_target(found: Sequence[Reach | None], aim: Target | None, unit: str, seed: int) -> dict[str, Measurement]:
    """`time_to_target` and `samples_to_target` over runs."""
    made = {}
    runs = [run for run in found if run is not None]
    for name, what in (("time_to_target", "s"), ("samples_to_target", unit)):
        values = [run.seconds if name == "time_to_target" else float(run.samples) for run in runs]
        formula = f"{'seconds' if what == 's' else 'samples of all ranks'} from the start of training to the evaluation"
        if aim is not None:
            formula += f" with {aim.metric} {'≥' if aim.direction == 'up' else '≤'} {aim.value:g}"
        blank = Measurement(name, None, what, len(runs), formula=formula, inputs=values, seed=seed, target=aim)
        made[name] = msgspec.structs.replace(blank, **_reached(blank, [run.reached for run in runs], len(found)))
    return made


def _reached(blank: Measurement, reached: list[bool], runs: int) -> dict[str, Any]:
    """A run that misses its target is censored, never left out."""
    values, n = blank.inputs, len(reached)
    if blank.target is None:
        return {"inputs": [], "n": 0, "reason": [reason("no-target")]}
    if n < runs or not n:
        return {"reason": [reason("runs-without-evaluation", count=runs - n, runs=runs)]}
    if all(reached):
        return _combined("rate", values, ())
    ends = [value for value, good in zip(values, reached, strict=True) if not good]
    why = [reason("target-missed", count=len(ends), runs=n, ends=ends, unit=blank.unit)]
    middle = median([value if good else math.inf for value, good in zip(values, reached, strict=True)])
    found = {} if math.isinf(middle) else {"value": middle, "method": [reason("censored-median")]}
    return {**found, "reason": why}


def _over_runs(
    what: Definition, figures: Sequence[Figure], unit: str, seed: int, sets: Sequence[object]
) -> Measurement:
    known = [figure.value for figure in figures if figure.value is not None]
    blank = Measurement(
        what.name, None, what.unit.format(unit=unit), len(known), formula=what.formula, inputs=known, seed=seed
    )
    fill = msgspec.structs.replace
    reasons = dict.fromkeys(figure.reason for figure in figures if figure.value is None)
    if reasons or not known:
        return fill(blank, reason=[one for one in reasons if one] or [reason("no-run-succeeded")])
    hows = dict.fromkeys(figure.how for figure in figures if figure.how)
    found = _combined(what.kind, known, sets)
    return fill(blank, **{**found, "method": [*found.get("method", []), *hows]})


def _combined(kind: Kind, known: list[float], sets: Sequence[object]) -> dict[str, Any]:
    """Value, interval and method over runs that all have the figure."""
    if kind == "sum":
        return {"value": sum(known), "method": [reason("sum")]}
    if kind == "highest":
        return {"value": max(known), "method": [reason("highest")]}
    if len(known) == 1:
        return {"value": known[0], "method": [reason("single-run")], "reason": [reason("interval-needs-runs")]}
    pooled = mean_per_set(known, sets, logs=kind == "rate")
    interval = log_t(pooled) if kind == "rate" else plain_t(pooled)
    if interval is None:
        return {"reason": [reason("value-not-positive")]}
    sets_pooled = len(pooled) < len(known)
    if kind == "rate":
        over_sets = reason("geometric-mean-over-sets", sets=len(pooled))
        return _interval(interval, over_sets if sets_pooled else reason("geometric-mean"))
    value, low, high = interval
    least, most = _RANGES.get(kind, (-math.inf, math.inf))
    method = reason("mean-over-sets", sets=len(pooled)) if sets_pooled else reason("mean")
    return _interval((value, max(least, low), min(high, most)), method)


def _interval(found: tuple[float, float, float], method: Reason) -> dict[str, Any]:
    return {"value": found[0], "ci_low": found[1], "ci_high": found[2], "method": [method]}
