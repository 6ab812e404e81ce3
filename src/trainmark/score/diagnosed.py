"""A diagnosis as records: seconds per step by class, and the causes worth naming."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True):
    """Over rounds, with its 95 % interval; None with the reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


class Cause(msgspec.Struct, frozen=True):
    """`kind` is its heading; `seconds` is what a step would win without it."""

    kind: str
    seconds: Value
    share: float
    place: str


class Diagnosis(msgspec.Struct, frozen=True):
    case: str
    rounds: int
    # Seconds per step, mean over ranks; they add up to `traced_step`.
    classes: dict[str, Value]
    traced_step: Value
    plain_step: Value
    # By how much tracing slowed the steps down, as a share.
    slow_down: Value
    # The share of communication that computing hides.
    overlap: Value
    # Communication that is not hidden: by the trace, and by training without it.
    by_trace: Value
    by_ablation: Value
    disagreement: str
    causes: list[Cause]
    # Rank → class → seconds, and operator → seconds, each per step.
    ranks: dict[str, dict[str, float]] = {}
    operators: dict[str, float] = {}
    remarks: list[str] = []
