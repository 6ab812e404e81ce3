"""What a report holds, whatever it is shown as."""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.reasons import Reason
from trainmark.report.charts.records import Curve
from trainmark.score.records import Diagnosis, Flag, Goodput, Measurement, Verdict
from trainmark.spec.case_id import Value
from trainmark.spec.states import JobState
from trainmark.store.rundir import Imported


class RunSeries(msgspec.Struct, frozen=True):
    """What changes over a round. Steps count from 1; seconds are on rank 0's clock, from its first event."""

    # Seconds per step, of the slowest rank.
    step_time: Curve | None = None
    # Loss of training, the mean over ranks; and each figure of evaluations, by step.
    loss: Curve | None = None
    evaluations: list[Curve] = []
    # Of the reference band, where one applies: lowest and highest loss by step.
    band_low: Curve | None = None
    band_high: Curve | None = None
    # What the band judges: the mean loss over each of its stretches of steps.
    band_means: Curve | None = None
    # By seconds since the round began: CPU, memory, devices, power, per node.
    utilisation: list[Curve] = []


class RunReport(msgspec.Struct, frozen=True):
    """One round that counts."""

    round: int
    attempt: int
    hosts: list[str]
    # None without steps. `outcome` is steady, drifting, two-level, unsteady, too short or fixed.
    outcome: str | None
    window_first: int | None
    window_last: int | None
    throughput: float | None
    sustained: float | None
    # Why the round is `disturbed`; empty when it is not.
    disturbed: list[Reason] = []
    outlier: bool = False
    # What is not as it was when the round ended: its figures may not be what was measured.
    changed: list[Reason] = []
    # Seconds: init, train, evaluate, checkpoint, other …; they add up to `end_to_end`.
    phases: dict[str, float] = {}
    end_to_end: float | None = None
    # Seconds of single steps in the window: p50, p90, p99, max.
    step_time: dict[str, float] = {}
    # Bins of step times in the window: edges (n + 1) and counts (n).
    histogram_edges: list[float] = []
    histogram_counts: list[int] = []
    # Why it has no throughput, if it has none.
    reason: Reason | None = None
    series: RunSeries | None = None
    # What is wrong with its figures, though they are given.
    flags: list[Flag] = []


class Try(msgspec.Struct, frozen=True):
    """An attempt at a round that did not count, where there was more than one."""

    round: int
    attempt: int
    state: JobState
    reason: Reason | None


class Trained(msgspec.Struct, frozen=True):
    """What a case trained, so that a speed can be read: made by `report.make.trained`. Unknown is None."""

    workload: str
    preset: str
    unit: str
    # Trainable numbers of the model, as the program counted them; None before it ran.
    parameters: int | None = None
    # The parameters that say how large the model is: {"layers": 3, "width": 384, …}.
    model: dict[str, Value] = {}
    # Samples of one update of the weights, accumulated passes included: of one rank, and of all ranks.
    batch_per_rank: int | None = None
    global_batch: int | None = None
    ranks: int | None = None
    # Number format of the computation.
    dtype: str | None = None
    # `synthetic`, a data set's name, or the last part of a path.
    data: str | None = None
    synthetic: bool = False
    # Tokens of a sequence; pixels along each side of a picture.
    sequence_length: int | None = None
    image_size: int | None = None
    # Of a command of the user's own, which has no preset: its words, and how many numbers a rank's optimizers update.
    command: str | None = None
    updated: int | None = None


class CaseReport(msgspec.Struct, frozen=True):
    case: str
    state: JobState
    reason: Reason | None
    fingerprint: str
    division: str
    preset: str
    rounds: int
    counted: int
    measurements: dict[str, Measurement]
    failure: dict[str, Any] | None = None
    notes: list[Reason] = []
    # "5 rounds, 1 allocation, nodes n1–n4": which variation the interval covers.
    variance_level: Reason | None = None
    # `band-inside`, `band-outside`, or `band-not-applicable` with `why`.
    band: Reason | None = None
    runs: list[RunReport] = []
    trained: Trained | None = None
    # What became of earlier attempts, where rounds were tried again.
    tries: list[Try] = []
    # What is wrong with its figures, though they are given; the worst first, each once, with how many rounds have it.
    flags: list[Flag] = []


class Share(msgspec.Struct, frozen=True):
    """Some of a run's cases, and what was met while they were read."""

    cases: list[CaseReport]
    warnings: list[Reason | str]


class StudyCell(msgspec.Struct, frozen=True):
    """A configuration of a scaling study. `value` is a word in place of a speed: OOM."""

    case: str
    nodes: int
    procs: int
    batch: int | None
    state: JobState
    speeds: list[float]
    value: str | None = None
    note: list[Reason] = []
    average: float | None = None
    median: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    efficiency: float | None = None
    efficiency_low: float | None = None
    efficiency_high: float | None = None


class StudyReport(msgspec.Struct, frozen=True):
    """One series of a scaling study: a batch and a number format over the grid. `reason`: why there is no speed-up."""

    name: str
    mode: str
    baseline: str
    batch: int | None
    dtype: str | None
    unit: str
    cells: list[StudyCell]
    method: Reason | None = None
    reason: Reason | None = None
    # How its batch was found.
    note: Reason | None = None


class Rival(msgspec.Struct, frozen=True):
    """A framework among others. `word`: `fastest`; `slower`, `equivalent` or `inconclusive` beside that; or `none`."""

    framework: str
    case: str
    word: str
    # The geometric mean of its runs, and as a share of the fastest one's; None without a result, and `reason` says why.
    speed: float | None = None
    share: float | None = None
    # On the fastest (B) against this one (A).
    verdict: Verdict | None = None
    reason: list[Reason] = []


class Contest(msgspec.Struct, frozen=True):
    """Cases that differ in nothing but their framework, the fastest first."""

    question: str
    unit: str
    margin: float
    rivals: list[Rival]


class Experiment(msgspec.Struct, frozen=True):
    """What an AutoML experiment is scored by: `score`, `regulated_score`, `error` and others. `reasons`: why the score
    does not count under its rules."""

    name: str
    rules: str
    valid: bool
    reasons: list[Reason]
    figures: list[Measurement]
    # What makes two experiments the same: a digest of their configuration.
    fingerprint: str = ""


class Change(msgspec.Struct, frozen=True):
    """The run against the baseline of its hosts: the verdict on all cases together, and how many were compared."""

    baseline: str
    # `faster`, `slower`, `equivalent`, `inconclusive` or `incomplete`; None where nothing could be compared.
    word: str | None = None
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    cases: int = 0
    # Cases that lost more than 5 %, beyond doubt.
    lost: list[str] = []
    reason: Reason | None = None


class Summary(msgspec.Struct, frozen=True):
    """The few lines on top. `trust`: `good`, `fair` (warnings), `weak` (severe flags, or cases without a result), or
    `none`."""

    verdict: Reason
    trust: str
    # Cases with a result, of how many.
    results: int
    cases: int
    change: Change | None = None
    # Commands to type next.
    next: list[str] = []


class Report(msgspec.Struct, frozen=True):
    """What `--json` prints."""

    run: str
    state: JobState
    suite: str
    cases: list[CaseReport]
    # A string: of the store, about lines that could not be read.
    warnings: list[Reason | str] = []
    dir: str = ""
    created: float | None = None
    # Hosts, packages, code, settings: the manifest's provenance, in groups of name → value.
    environment: dict[str, dict[str, str]] = {}
    # For a run that another tool did: which, what it does not tell, what was flagged while reading.
    imported: Imported | None = None
    # Of a diagnostic run: why steps take as long as they do.
    diagnoses: list[Diagnosis] = []
    # What the site can reach, where that was measured: by this run, or before it was planned.
    # A record of spec/peaks.py.
    peaks: dict[str, Any] | None = None
    studies: list[StudyReport] = []
    # Of a run that goes on when it is cut off: what it made of its time.
    goodput: list[Goodput] = []
    # Which framework is faster, where the run has cases of several.
    contests: list[Contest] = []
    # Of an AutoML experiment, whose cases are its workers.
    experiment: Experiment | None = None
    # What it says in a few lines.
    summary: Summary | None = None
