"""How far training came, and how long to its target. A run that misses is censored, never left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from trainmark.reasons import reason
from trainmark.score.records import Measurement
from trainmark.score.stats.confidence import log_t, median
from trainmark.spec.columns import Event, RankColumns, is_number
from trainmark.spec.workload import Target

NS = 1e-9


class Reach(msgspec.Struct, frozen=True):
    """When one run reached its target: seconds of training and samples, or how far it went without."""

    reached: bool
    seconds: float
    samples: int


def target(declared: Target | None, params: Mapping[str, object]) -> Target | None:
    """The target in force: the parameter `target_METRIC` over the workload's own; 0 means none."""
    if declared is None:
        return None
    chosen = params.get(f"target_{declared.metric}")
    if isinstance(chosen, int | float) and not isinstance(chosen, bool):
        return msgspec.structs.replace(declared, value=float(chosen)) if chosen else None
    return declared


def evaluations(ranks: Sequence[RankColumns]) -> list[Event]:
    """The evaluations of the first rank that has any; in training together, all ranks have the same."""
    for rank in ranks:
        found = [mark for mark in rank.marks if mark.k == "EVALUATE" and isinstance(mark.values, dict)]
        if found:
            return found
    return []


def last_values(found: Sequence[Event]) -> dict[str, float]:
    return {name: float(value) for name, value in found[-1].values.items() if is_number(value)} if found else {}


def reach(ranks: Sequence[RankColumns], aim: Target) -> Reach | None:
    """On the clock of the rank that evaluates, from its start of training. None: it never evaluated."""
    events = evaluations(ranks)
    if not events:
        return None
    own = next(rank for rank in ranks if rank.rank == events[0].rank)
    began = own.mark("TRAIN_START")
    began = own.first if began is None else began
    for event in events:
        value = event.values.get(aim.metric)
        if is_number(value) and (value >= aim.value if aim.direction == "up" else value <= aim.value):
            return Reach(True, (event.t - began) * NS, _samples(ranks, event.step))
    ended = own.mark("TRAIN_END")
    return Reach(False, ((events[-1].t if ended is None else ended) - began) * NS, _samples(ranks, None))


def _samples(ranks: Sequence[RankColumns], step: int | None) -> int:
    """Of all ranks, up to a step."""
    parts = [rank.steps for rank in ranks if rank.steps is not None]
    return sum(int((part.n if step is None else part.n[part.step <= step]).sum()) for part in parts)


def measure(found: Sequence[Reach | None], aim: Target | None, unit: str, seed: int) -> dict[str, Measurement]:
    """`time_to_target` and `samples_to_target` over runs."""
    made = {}
    for name, what in (("time_to_target", "s"), ("samples_to_target", unit)):
        runs = [run for run in found if run is not None]
        values = [run.seconds if name == "time_to_target" else float(run.samples) for run in runs]
        formula = f"{'seconds' if what == 's' else 'samples of all ranks'} from the start of training to the evaluation"
        if aim is not None:
            formula += f" with {aim.metric} {'≥' if aim.direction == 'up' else '≤'} {aim.value:g}"
        blank = Measurement(name, None, what, len(runs), formula=formula, inputs=values, seed=seed, target=aim)
        made[name] = _over_runs(blank, [run.reached for run in runs], aim is not None, len(found))
    return made


def _over_runs(blank: Measurement, reached: list[bool], asked: bool, runs: int) -> Measurement:
    values, n = blank.inputs, len(reached)
    fill = msgspec.structs.replace
    if not asked:
        return fill(blank, inputs=[], n=0, reason=[reason("no-target")])
    if n < runs or not n:
        return fill(blank, reason=[reason("runs-without-evaluation", count=runs - n, runs=runs)])
    missed = n - sum(reached)
    if not missed:
        if n == 1:
            few = [reason("interval-needs-runs")]
            return fill(blank, value=values[0], method=[reason("single-run")], reason=few)
        interval = log_t(values)
        if interval is None:
            return fill(blank, reason=[reason("value-not-positive")])
        method = [reason("geometric-mean")]
        return fill(blank, value=interval[0], ci_low=interval[1], ci_high=interval[2], method=method)
    ends = [value for value, good in zip(values, reached, strict=True) if not good]
    why = [reason("target-missed", count=missed, runs=n, ends=ends, unit=blank.unit)]
    middle = median([value if good else math.inf for value, good in zip(values, reached, strict=True)])
    if math.isinf(middle):
        return fill(blank, reason=why)
    return fill(blank, value=middle, method=[reason("censored-median")], reason=why)
