"""When a score counts: named sets of rules, each checked from the record of the experiment. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from trainmark.reasons import Reason, reason

HOUR = 3600.0
# Number formats, by how many bits they have.
BITS = {"fp32": 32, "tf32": 19, "bf16": 16, "fp16": 16}


Metric = Literal["accuracy", "loss"]


class RuleSet(msgspec.Struct, frozen=True):
    """What an experiment must have reached, and how it is reported."""

    name: str
    title: str
    accuracy: float
    seconds: float
    # A report can be asked for while it runs once so much time is over.
    report_after: float
    # The points of the curves are so far apart.
    interval: float
    bits: int = 16
    # The batch must be so many samples per GiB of a device's memory.
    batch_per_gib: float | None = None
    # Whose formulas count the operations.
    flops: Literal["aiperf", "trainmark"] = "trainmark"
    # The data set: its training images, test images and classes; None: any that is real.
    images: tuple[int, int, int] | None = None
    # Whether a score can be valid at all.
    counts: bool = True
    # What the error is made of: 1 − accuracy, or loss ÷ ln(classes); `accuracy` above is 1 − that error.
    metric: Metric = "accuracy"


IMAGENET = (1_281_167, 50_000, 1000)


RULES = {
    "seed": RuleSet(
        "seed",
        "AAH v1.0: accuracy of 65 %, 12 hours, 16 bits, batch of 14 samples per GiB",
        accuracy=0.65,
        seconds=12 * HOUR,
        report_after=1 * HOUR,
        interval=1 * HOUR,
        batch_per_gib=14.0,
        flops="aiperf",
        images=IMAGENET,
    ),
    "release": RuleSet(
        "release",
        "AIPerf: accuracy of 70 %, 1 hour, 16 bits",
        accuracy=0.70,
        seconds=1 * HOUR,
        report_after=0.25 * HOUR,
        interval=0.1 * HOUR,
        flops="aiperf",
        images=IMAGENET,
    ),
    "demo": RuleSet(
        "demo",
        "a few minutes on any machine: accuracy of 80 %, 2 minutes",
        accuracy=0.80,
        seconds=120.0,
        report_after=20.0,
        interval=10.0,
    ),
    "demo-loss": RuleSet(
        "demo-loss",
        "trainmark's own, for texts and images: error by loss of at most 60 %, 2 minutes",
        accuracy=0.40,
        seconds=120.0,
        report_after=20.0,
        interval=10.0,
        metric="loss",
    ),
    "none": RuleSet(
        "none",
        "no rules: for speed alone, never valid",
        accuracy=0.0,
        seconds=0.0,
        report_after=20.0,
        interval=10.0,
        counts=False,
    ),
}


class Facts(msgspec.Struct, frozen=True):
    """What the rules are held against, all from the record."""

    seconds: float
    accuracy: float
    synthetic: bool
    dtypes: tuple[str, ...]
    # Per worker, each only once: its training images, test images and classes; 0 where an old record has none.
    images: tuple[tuple[int, int, int], ...] = ()
    # Per worker: the batch of its first training, and the memory of its device in GiB if it has its own.
    batches: tuple[tuple[int, float | None], ...] = ()


class RuleVerdict(msgspec.Struct, frozen=True):
    """One rule: whether it was met (None: it has nothing to be held against), and what was found."""

    rule: str
    met: bool | None
    wanted: Reason
    found: Reason | list[Reason]


def judge(rules: RuleSet, facts: Facts) -> list[RuleVerdict]:
    """Every rule of the set. The score is valid when none was missed."""
    if not rules.counts:
        return [RuleVerdict("rules", False, reason("automl-rules-wanted"), reason("automl-rules-none"))]
    narrow = sorted({BITS.get(dtype, 0) for dtype in facts.dtypes})
    data = reason("automl-data-synthetic" if facts.synthetic else "automl-data-real")
    dtypes = reason("automl-precision-found", dtypes=list(facts.dtypes))
    # A number format that no file tells is held against nobody.
    unknown = bool(facts.dtypes) and not any(facts.dtypes)
    verdicts = [
        RuleVerdict("data", not facts.synthetic, reason("automl-data-wanted"), data),
        _reached(rules, facts.accuracy),
        RuleVerdict(
            "time",
            facts.seconds >= rules.seconds,
            reason("automl-time-wanted", time=_time(rules.seconds)),
            _time(facts.seconds),
        ),
        RuleVerdict(
            "precision",
            None if unknown else bool(narrow) and narrow[0] >= rules.bits,
            reason("automl-precision-wanted", bits=rules.bits),
            reason("automl-images-unknown" if unknown else "automl-nothing-trained")
            if unknown or not facts.dtypes
            else dtypes,
        ),
    ]
    if rules.images is not None:
        verdicts.append(_data_set(rules.images, facts.images))
    if rules.batch_per_gib is not None:
        verdicts.append(_batch(rules.batch_per_gib, facts.batches))
    return verdicts


def _reached(rules: RuleSet, accuracy: float) -> RuleVerdict:
    met = accuracy >= rules.accuracy
    if rules.metric == "loss":
        wanted = reason("automl-error-wanted", percent=100 * (1 - rules.accuracy))
        return RuleVerdict("error", met, wanted, reason("automl-error-found", percent=100 * (1 - accuracy)))
    wanted = reason("automl-accuracy-wanted", percent=100 * rules.accuracy)
    return RuleVerdict("accuracy", met, wanted, reason("automl-accuracy-found", percent=100 * accuracy))


def _data_set(wanted: tuple[int, int, int], images: Sequence[tuple[int, int, int]]) -> RuleVerdict:
    known = [_images(found) for found in images if all(found)]
    met = all(found == wanted for found in images) if len(known) == len(images) else None
    found = known or reason("automl-images-unknown" if images else "automl-nothing-trained")
    return RuleVerdict(
        "data-set", met if images else False, reason("automl-images-wanted", images=_images(wanted)), found
    )


def _images(found: tuple[int, int, int]) -> Reason:
    train, test, classes = found
    return reason("automl-images", train=train, test=test, classes=classes)


def _batch(per_gib: float, batches: Sequence[tuple[int, float | None]]) -> RuleVerdict:
    known = [(batch, round(memory) * per_gib) for batch, memory in batches if memory is not None]
    wanted = reason("automl-batch-wanted", per_gib=per_gib)
    if not known:
        return RuleVerdict("batch", None, wanted, reason("automl-no-device-memory"))
    # AIPerf takes the smallest device and whole GiB; one GiB more or less is how vendors count.
    wrong = dict.fromkeys((batch, right) for batch, right in known if abs(batch - right) > per_gib)
    found = [reason("automl-batch-wrong", batch=batch, right=right) for batch, right in wrong]
    return RuleVerdict("batch", not found, wanted, found or reason("automl-batch-met"))


def _time(seconds: float) -> Reason:
    if seconds < HOUR:
        return reason("automl-minutes", minutes=seconds / 60)
    return reason("automl-hours", hours=seconds / HOUR)
