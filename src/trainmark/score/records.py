"""What scoring says beyond single measurements, as records: windows, verdicts, diagnoses, goodput."""

from __future__ import annotations

from typing import Literal

import msgspec

from trainmark.reasons import Reason
from trainmark.score.figures.figure import Figure

Outcome = Literal["steady", "drifting", "two-level", "too short", "fixed"]
Word = Literal["faster", "slower", "equivalent", "inconclusive"]


class Window(msgspec.Struct, frozen=True):
    """Steps after `before` up to `last`: `before` is the step at whose end the clock starts."""

    before: int
    last: int
    seconds: float
    sustained_seconds: float
    samples: int
    outcome: Outcome
    method: Reason
    # Why there is no headline, if there is none.
    reason: Reason | None = None

    @property
    def steps(self) -> int:
        return self.last - self.before


class Verdict(msgspec.Struct, frozen=True):
    """What can be said of B against A. The ratio is B ÷ A, its interval 95 %; p-values are Holm's over the family."""

    word: Word
    ratio: float
    ci_low: float | None
    ci_high: float | None
    n_a: int
    n_b: int
    method: Reason
    reason: Reason
    p_difference: float | None = None
    p_equivalent: float | None = None
    # That B lost more than the threshold.
    p_loss: float | None = None
    past_threshold: bool = False
    # Runs per side that would settle an inconclusive case; None when unknown or beyond reason.
    needed: int | None = None


class Value(msgspec.Struct, frozen=True):
    """Over rounds, with its 95 % interval; None with the reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: Reason | None = None


class Cause(msgspec.Struct, frozen=True):
    """`kind` is its heading; `seconds` is what a step would win without it."""

    kind: str
    seconds: Value
    share: float
    place: Reason


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
    disagreement: Reason | None
    causes: list[Cause]
    # Rank → class → seconds, and operator → seconds, each per step.
    ranks: dict[str, dict[str, float]] = {}
    operators: dict[str, float] = {}
    remarks: list[Reason] = []


class Recovery(msgspec.Struct, frozen=True):
    """From the last step before the end of one attempt until the next one had got as far. Seconds."""

    total: float
    # Until the next attempt's process began; from there to its first step; steps done a second time.
    until_started: float
    start: float
    redone: float
    lost_steps: int


class Goodput(msgspec.Struct, frozen=True):
    case: str
    attempts: int
    start: dict[str, Figure]
    time_to_first_step: Figure
    checkpoint_save: Figure
    checkpoint_load: Figure
    # Seconds between two checkpoints, begin to begin.
    checkpoint_every: Figure
    stall_share: Figure
    recoveries: list[Recovery]
    # Training that counts ÷ all the time the job took.
    effective_ratio: Figure
    step_time: Figure
