"""What scoring says, as records: figures of runs, measurements of cases, windows, verdicts, diagnoses, goodput."""

from __future__ import annotations

from typing import Literal

import msgspec

from trainmark.reasons import Reason
from trainmark.spec.workload import Target

# Of the formulas and rules; a measurement says which version made it.
SCORER_VERSION = 5

Outcome = Literal["steady", "drifting", "two-level", "unsteady", "too short", "fixed"]
Severity = Literal["note", "warning", "severe"]
SEVERITIES: tuple[Severity, ...] = ("note", "warning", "severe")
VerdictWord = Literal["faster", "slower", "equivalent", "inconclusive"]


class Flag(msgspec.Struct, frozen=True):
    """What is wrong with a figure that is given all the same. `rounds` `of` so many have it; None: the whole case has.

    `reason` is that of the round in which it weighs most."""

    severity: Severity
    reason: Reason
    rounds: int | None = None
    of: int | None = None


class Figure(msgspec.Struct, frozen=True):
    """Without a value there is a reason: the value is not known, or would be a false one."""

    value: float | None
    reason: Reason | None = None
    # How it was found, where there is more than one way.
    how: Reason | None = None


def known(value: float | None, otherwise: Reason | None) -> Figure:
    return Figure(value) if value is not None else Figure(None, otherwise)


def ratio(part: Figure, whole: float | None, otherwise: Reason | None) -> Figure:
    """`part` ÷ `whole`; what is missing in either is missing in the ratio, for the same reason."""
    if whole is None or whole <= 0:
        return Figure(None, otherwise)
    if part.value is None:
        return Figure(None, part.reason)
    return Figure(part.value / whole)


class Measurement(msgspec.Struct, frozen=True):
    """`value` is None when it is not known, and `reason` says why. An interval needs at least two runs."""

    name: str
    value: float | None
    unit: str
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    # How the values of runs made one, and how they were found themselves.
    method: list[Reason] = []
    # In English; `report.i18n` has it in other languages, by the name of the figure.
    formula: str = ""
    inputs: list[float] = []
    reason: list[Reason] = []
    scorer: int = SCORER_VERSION
    seed: int | None = None
    # Of a figure that says how long or how far it was to a target.
    target: Target | None = None
    # What is wrong with the value, though it is given.
    flags: list[Flag] = []


class Window(msgspec.Struct, frozen=True):
    """Steps after `before` up to `last`: `before` is the step at whose end the clock starts."""

    before: int
    last: int
    seconds: float
    sustained_seconds: float
    samples: int
    outcome: Outcome
    method: Reason
    flags: list[Flag] = []
    # Of a window with several levels: the speed at its slowest and at its fastest ÷ that of the whole window.
    slowest: float = 1.0
    fastest: float = 1.0

    @property
    def steps(self) -> int:
        return self.last - self.before


class Verdict(msgspec.Struct, frozen=True):
    """What can be said of B against A. The ratio is B ÷ A, its interval 95 %; p-values are Holm's over the family."""

    word: VerdictWord
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
    # Causes that may cost something: their intervals reach down to nothing, or too few rounds tell of them.
    uncertain: list[Cause] = []


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
