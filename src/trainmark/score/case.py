"""All measurements of one case from the attempts that count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from trainmark.score import window as windows
from trainmark.score.interval import log_t
from trainmark.score.measurement import Measurement
from trainmark.score.steps import by_rank
from trainmark.score.told import doubt
from trainmark.score.window import Window
from trainmark.spec.event import Event


class RunScore(msgspec.Struct, frozen=True):
    """One attempt, scored. Unknown is None with a reason."""

    steps: int
    samples: int
    window: Window | None
    throughput: float | None
    sustained: float | None
    data_wait: float | None
    reason: str = ""
    evaluations: dict[str, float] = {}


def score_run(events: Iterable[Event], world: int | None = None) -> RunScore:
    """Throughput = samples of the window over all ranks ÷ the longest duration of any rank."""
    kept = list(events)
    ranks = by_rank(kept, world)
    found = windows.find(ranks)
    steps = min((len(rank.step) for rank in ranks), default=0)
    samples = sum(rank.samples() for rank in ranks)
    if found is None:
        reason = "no steps" if steps == 0 else f"{steps} step(s) make no window"
        return RunScore(steps, samples, None, None, None, None, reason)
    odd = sum(rank.odd for rank in ranks)
    reason = f"{odd} step record(s) cannot be true, so no speed can be" if odd else doubt(kept)
    if found.outcome == "too short" and not reason:
        reason = (
            f"{found.steps} steps in {found.seconds:.1f} s: "
            f"at least {windows.LEAST_STEPS} steps and {windows.LEAST_SECONDS:.0f} s are needed"
        )
    return RunScore(
        steps=steps,
        samples=samples,
        window=found,
        throughput=found.samples / found.seconds if found.samples else None,
        sustained=found.samples / found.sustained_seconds if found.samples else None,
        data_wait=windows.data_wait(ranks, found),
        reason=reason,
        evaluations=_last_evaluation(kept),
    )


def _last_evaluation(events: Sequence[Event]) -> dict[str, float]:
    for event in reversed(events):
        if event.k == "EVALUATE" and isinstance(event.values, dict):
            return {name: value for name, value in event.values.items() if isinstance(value, int | float)}
    return {}


def measure(runs: Sequence[RunScore], unit: str, seed: int) -> dict[str, Measurement]:
    """What the case shows. Runs that are too short give their figure, never a headline without saying so."""
    found = {
        "steps": _total("steps", [run.steps for run in runs], "steps"),
        "samples": _total("samples", [run.samples for run in runs], unit),
    }
    reasons = sorted({run.reason for run in runs if run.reason})
    for name, formula, values in (
        (
            "throughput",
            "samples of the window over all ranks ÷ longest duration of any rank, declared phases left out",
            [run.throughput for run in runs],
        ),
        (
            "sustained_throughput",
            "samples of the window over all ranks ÷ longest duration of any rank, declared phases included",
            [run.sustained for run in runs],
        ),
    ):
        found[name] = _rate(name, values, f"{unit}/s", formula, reasons, seed)
    found["data_wait"] = _share([run.data_wait for run in runs])
    return found


def _rate(
    name: str, values: Sequence[float | None], unit: str, formula: str, reasons: list[str], seed: int
) -> Measurement:
    known = [value for value in values if value is not None]
    reason = "; ".join(reasons)
    if known and reasons:
        # Seen, and kept in `inputs`, but not a result: a window that is too short is no headline.
        return Measurement(name, None, unit, len(known), formula=formula, inputs=known, reason=reason, seed=seed)
    if not known:
        return Measurement(name, None, unit, 0, formula=formula, reason=reason or "no run succeeded", seed=seed)
    if len(known) == 1:
        reason = "an interval needs at least 2 runs"
        return Measurement(name, known[0], unit, 1, None, None, "single run", formula, known, reason, seed=seed)
    interval = log_t(known)
    if interval is None:
        return Measurement(name, None, unit, len(known), formula=formula, inputs=known, reason="a rate is not positive")
    mean, low, high = interval
    method = "geometric mean, 95 % t interval on the logarithm"
    return Measurement(name, mean, unit, len(known), low, high, method, formula, known, reason, seed=seed)


def _total(name: str, values: Sequence[int], unit: str) -> Measurement:
    inputs = [float(value) for value in values]
    if name == "samples" and not any(inputs):
        return Measurement(name, None, unit, len(inputs), method="sum", reason="how many a step trains is not known")
    formula = (
        f"{name} of every rank, all counted runs"
        if name == "samples"
        else "steps of the slowest rank, all counted runs"
    )
    return Measurement(name, sum(inputs), unit, len(inputs), method="sum", formula=formula, inputs=inputs)


def _share(values: Sequence[float | None]) -> Measurement:
    known = [value for value in values if value is not None]
    formula = "time the slowest-fed rank waited for data ÷ duration of the window"
    if not known:
        return Measurement("data_wait", None, "fraction", 0, formula=formula, reason="no window")
    mean = sum(known) / len(known)
    return Measurement("data_wait", mean, "fraction", len(known), method="mean", formula=formula, inputs=known)
