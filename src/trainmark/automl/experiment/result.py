"""The result of an experiment, or of one that still runs: a pure function of its record."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from trainmark.automl.experiment import score
from trainmark.automl.experiment.config import SYNTHETIC, Experiment, classes_of
from trainmark.automl.experiment.record import Begin, Record
from trainmark.automl.experiment.rules import Facts, Metric, RuleVerdict, judge
from trainmark.automl.experiment.score import Point
from trainmark.reasons import Reason, as_reason, reason
from trainmark.report.records import Experiment as Scored
from trainmark.score.records import Measurement

# Gaps between trials: this share of a trial's time, or so many seconds where trials are short.
GAP_SHARE, GAP_SECONDS, SHORT_TRIAL = 0.01, 0.3, 30.0


class TrialRow(msgspec.Struct, frozen=True):
    """One trial. Times are seconds since the start; `accuracy` is None before its first epoch has ended."""

    number: int
    state: str
    round: int
    parent: int | None
    moves: list[Any]
    file: str
    accuracy: float | None
    epochs: int
    runs: int
    flops: float
    hosts: list[str]
    begin: float
    end: float | None
    attempts: int
    why: Reason | None = None
    # Of the network: parameters, operations for one image forward, and the hyper-parameters it did best with.
    parameters: int | None = None
    operations: float | None = None
    values: dict[str, float | int | str | None] = {}


class Gaps(msgspec.Struct, frozen=True):
    """Time without work between two trials of a worker."""

    count: int
    mean: float
    longest: float
    # The largest share of the time of the trial before it.
    share: float
    # How many are longer than they should be.
    late: int


class Result(msgspec.Struct, frozen=True):
    run: str
    name: str
    author: str
    state: str
    rules: str
    rules_title: str
    flops_rules: str
    valid: bool
    verdicts: list[RuleVerdict]
    start: float | None
    seconds: float
    accuracy: float
    error: float
    score: float
    regulated: float
    flops: float
    epochs: int
    images: int
    curve: list[Point]
    trials: list[TrialRow]
    best: int | None
    workers: int
    hosts: list[str]
    gaps: Gaps | None
    # Processor seconds to generate an architecture.
    generate_cpu_s: float | None
    # Share of the workers' time that epochs took, from the first begin to the last end.
    busy: float | None
    synthetic: bool
    pretrained: bool
    remarks: list[Reason]
    policy: str = ""
    data: str = ""
    max_duration: str = ""
    # How many devices trained, by kind; a worker that was started again counts once.
    devices: dict[str, int] = {}
    # What the error is made of; with `loss`, accuracies here are 1 − loss ÷ ln(classes).
    metric: Metric = "accuracy"
    classes: int = 0

    def loss_of(self, accuracy: float) -> float:
        """The loss that an accuracy stands for, where the error is made of it."""
        return (1.0 - accuracy) * math.log(self.classes)

    def shown(self, accuracy: float) -> str:
        """What a network reached, for people: its accuracy, or its test loss."""
        return f"{100 * accuracy:.2f} %" if self.metric == "accuracy" else f"{self.loss_of(accuracy):.4f}"

    @property
    def score_per_device(self) -> float | None:
        count = sum(self.devices.values())
        return self.score / count if count else None

    @property
    def reasons(self) -> list[Reason]:
        """Why the score does not count."""
        return [
            reason("automl-rule-missed", rule=reason(f"automl-rule-{one.rule}"), found=one.found, wanted=one.wanted)
            for one in self.verdicts
            if one.met is False
        ]


def build(run: str, state: str, experiment: Experiment, record: Record) -> Result:
    rules = experiment.rule_set
    epochs = record.epochs
    # An accuracy of 100 % is one that the test images cannot tell from that of one wrong image. A loss is never 0.
    images = [worker.test_images for worker in record.workers if worker.test_images]
    smallest = 1.0 / min(images) if images and experiment.metric == "accuracy" else 0.0
    curve = score.curve(epochs, rules.flops, rules.interval, smallest)
    last = curve[-1] if curve else Point(0.0, 1.0, 0.0, 0.0, 0.0, 0)
    start = score.start_of(epochs) if epochs else None
    accuracy = max((epoch.accuracy for epoch in epochs), default=0.0)
    synthetic = experiment.data == SYNTHETIC or any(worker.data == SYNTHETIC for worker in record.workers)
    facts = Facts(
        seconds=last.seconds,
        accuracy=accuracy,
        synthetic=synthetic,
        images=tuple(dict.fromkeys((w.train_images, w.test_images, classes_of(experiment)) for w in record.workers)),
        dtypes=tuple(sorted({worker.dtype for worker in record.workers})),
        batches=tuple((worker.batch, worker.memory_gib) for worker in record.workers),
    )
    verdicts = judge(rules, facts)
    # Workers of a lost controller may still be at it.
    unended = "RUNNING" if state in ("RUNNING", "LOST") else "CANCELLED"
    trials = _trials(record, rules.flops, start, unended)
    done = [trial for trial in trials if trial.accuracy is not None]
    best = max(done, key=lambda one: (one.accuracy or 0.0, -one.number), default=None)
    made = [end.generate_cpu_s for end in record.ends if end.generate_cpu_s is not None]
    pretrained = any(worker.pretrained for worker in record.workers)
    return Result(
        run=run,
        name=experiment.name,
        author=experiment.author,
        state=state,
        rules=rules.name,
        rules_title=rules.title,
        flops_rules=rules.flops,
        valid=bool(epochs) and all(one.met is not False for one in verdicts),
        verdicts=verdicts,
        start=start,
        seconds=last.seconds,
        accuracy=accuracy,
        error=last.error,
        score=last.score,
        regulated=last.regulated,
        flops=last.flops,
        epochs=len(epochs),
        images=sum(epoch.images for epoch in epochs),
        curve=curve,
        trials=trials,
        best=best.number if best else None,
        workers=experiment.workers,
        hosts=sorted({worker.host for worker in record.workers}),
        gaps=_gaps(record, trials),
        generate_cpu_s=sum(made) / len(made) if made else None,
        busy=_busy(record, last.seconds),
        synthetic=synthetic,
        pretrained=pretrained,
        remarks=_remarks(record, synthetic, pretrained),
        policy=experiment.policy,
        data=experiment.data,
        max_duration=experiment.max_duration,
        devices=_devices(record),
        metric=experiment.metric,
        classes=classes_of(experiment),
    )


def summary(found: Result, experiment: Experiment) -> Scored:
    """For reports of runs, tables and comparisons. Without an epoch nothing is known."""
    figures = (
        ("score", found.score, "FLOPS"),
        ("regulated_score", found.regulated, "FLOPS"),
        ("score_per_device", found.score_per_device, "FLOPS"),
        ("error", found.error, "fraction"),
        *([("best_accuracy", found.accuracy, "fraction")] if found.metric == "accuracy" else []),
        *([("best_loss", found.loss_of(found.accuracy), "nats")] if found.metric == "loss" else []),
        ("experiment_seconds", found.seconds, "s"),
        ("trials", float(len(found.trials)), "trials"),
        ("operations", found.flops, "FLOP"),
    )
    nothing = [] if found.epochs else [reason("automl-no-epoch")]
    return Scored(
        name=found.name,
        rules=found.rules,
        valid=found.valid,
        reasons=found.reasons,
        figures=[
            Measurement(name, value if found.epochs else None, unit, 1 if found.epochs else 0, reason=nothing)
            for name, value, unit in figures
        ],
        fingerprint=fingerprint(experiment),
    )


def with_remarks(found: Result, remarks: list[Reason]) -> Result:
    return msgspec.structs.replace(found, remarks=remarks)


def fingerprint(experiment: Experiment) -> str:
    """Equal for experiments that do the same, whoever runs them, whatever they are called and whatever they draw."""
    same = msgspec.structs.replace(experiment, name="", author="", ledger="", seed=0)
    return hashlib.sha256(msgspec.json.encode(same, order="deterministic")).hexdigest()[:16]


def _devices(record: Record) -> dict[str, int]:
    found: dict[str, int] = {}
    for worker in {worker.slot: worker for worker in record.workers}.values():
        name = worker.device_name or worker.device
        found[name] = found.get(name, 0) + worker.ranks
    return found


def _trials(record: Record, rules: str, start: float | None, unended: str) -> list[TrialRow]:
    begins: dict[int, list[Begin]] = {}
    for begin in sorted(record.begins, key=lambda one: one.wall):
        begins.setdefault(begin.number, []).append(begin)
    # An end that a lost worker recorded may be recorded again by the next one.
    ends = {end.number: end for end in sorted(record.ends, key=lambda one: -one.wall)}
    epochs: dict[int, list[Any]] = {number: [] for number in begins}
    for epoch in record.epochs:
        epochs.setdefault(epoch.trial, []).append(epoch)
    rows = []
    for number, begun in sorted(begins.items()):
        mine, end = epochs[number], ends.get(number)
        since = start if start is not None else begun[0].wall
        rows.append(
            TrialRow(
                number=number,
                state=_state(end, unended),
                round=begun[0].round,
                parent=begun[0].parent,
                moves=list(begun[0].moves),
                file=begun[0].file,
                accuracy=max((epoch.accuracy for epoch in mine), default=None),
                epochs=len(mine),
                runs=len({epoch.run for epoch in mine}),
                flops=sum(epoch.flops.get(rules, 0.0) for epoch in mine),
                hosts=list(dict.fromkeys(begin.host for begin in begun)),
                begin=begun[0].wall - since,
                end=end.wall - since if end else None,
                attempts=len(begun),
                why=as_reason(end.why) if end else None,
                parameters=end.parameters if end else None,
                operations=end.operations if end else None,
                values=end.values if end else {},
            )
        )
    return rows


def _state(end: Any, unended: str) -> str:
    if end is None:
        return unended
    if end.value is None:
        return "FAILED"
    return "PRUNED" if end.pruned else "SUCCEEDED"


def _gaps(record: Record, trials: list[TrialRow]) -> Gaps | None:
    if not record.gaps:
        return None
    length = {trial.number: (trial.end or trial.begin) - trial.begin for trial in trials}
    shares = [gap.seconds / length[gap.before] for gap in record.gaps if length.get(gap.before, 0.0) > 0]
    late = sum(gap.seconds > _allowed(length.get(gap.before, 0.0)) for gap in record.gaps)
    seconds = [gap.seconds for gap in record.gaps]
    return Gaps(len(seconds), sum(seconds) / len(seconds), max(seconds), max(shares, default=0.0), late)


def _busy(record: Record, seconds: float) -> float | None:
    slots = len({worker.slot for worker in record.workers})
    if not slots or seconds <= 0:
        return None
    return sum(epoch.end - epoch.begin for epoch in record.epochs) / (slots * seconds)


def _allowed(trial: float) -> float:
    return GAP_SECONDS if trial < SHORT_TRIAL else GAP_SHARE * trial


def _remarks(record: Record, synthetic: bool, pretrained: bool) -> list[Reason]:
    found = []
    if synthetic:
        found.append(reason("automl-synthetic"))
    if pretrained:
        found.append(reason("automl-pretrained"))
    for trial in {one.trial: one for one in record.pretrained}.values():
        found.append(
            reason(
                "automl-pretrained-accuracy",
                trial=trial.trial,
                count=trial.tensors,
                source=trial.source,
                percent=100 * trial.accuracy,
            )
        )
    parents = {begin.number: begin.parent for begin in record.begins}
    fresh = {end.number for end in record.ends if end.inherited is False and parents.get(end.number) is not None}
    if fresh:
        found.append(reason("automl-not-inherited", count=len(fresh), trials=", ".join(map(str, sorted(fresh)[:8]))))
    if record.repeated:
        found.append(reason("automl-epochs-repeated", count=record.repeated))
    if record.unreadable:
        found.append(reason("automl-records-unreadable", count=record.unreadable))
    return found
