"""An experiment: what is searched, how it is trained, and by which rules scored. `reading.py` reads it."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from trainmark.automl.experiment.rules import RULES, Metric, RuleSet
from trainmark.automl.experiment.schedule import EarlyStop
from trainmark.errors import UserError

SYNTHETIC = "synthetic"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Hyper-parameters that are whole numbers.
WHOLE = ("kernel_size", "batch")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: a key that is not known is an error."""


class Picture(Strict, frozen=True):
    """The images that networks take. What is left out follows from a data set with a name."""

    size: int = 224
    channels: int = 3
    classes: int = 1000


class Words(Strict, frozen=True):
    """The text that networks read, where the data is one: what a token is, and how many kinds of them there are."""

    tokenizer: Literal["characters", "bytes"] = "bytes"
    kinds: int = 256


class WorkerShape(Strict, frozen=True):
    """What one worker trains on: devices of a node, or whole nodes."""

    nodes: int = 1
    devices: int = 1
    # Workers on a node; on this machine alone as many as there are workers, elsewhere one, if not given.
    per_node: int | None = None


class Asha(Strict, frozen=True):
    """Trainings that are behind at a rung end there; 1 of `factor` goes on."""

    first: int = 3
    factor: int = 3


class Training(Strict, frozen=True):
    batch: int = 448
    # Epochs by round; a round is as many trials as there are workers.
    epochs: list[int] = msgspec.field(default_factory=lambda: [15, 30, 45, 60])
    lr: float = 0.2
    final_lr: float = 1e-5
    optimizer: Literal["sgd", "adamw"] = "sgd"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    label_smoothing: float = 0.1
    dropout: float | None = None
    dtype: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    early_stop: EarlyStop = EarlyStop()
    asha: Asha | None = None
    channels_last: bool = True
    # Images of an epoch, and to test on, of a text its tokens; 0: all. For short demonstrations.
    images: int = 0
    test_images: int = 0
    # Processes that read pictures ahead of a rank; if not given, as many as the ranks leave cores for.
    loaders: int | None = None


class Range(Strict, frozen=True):
    """The values of one hyper-parameter: `choices`, or `low` to `high`."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: list[float | int | str] | None = None


class Hpo(Strict, frozen=True):
    """Search for hyper-parameters inside a trial, from round `from_round` (counted from 0) on."""

    from_round: int = 3
    searches: int = 1
    # So many in a row that gain nothing end it.
    patience: int = 3
    space: dict[str, Range] = msgspec.field(
        default_factory=lambda: {"dropout": Range(low=0.0, high=0.2), "kernel_size": Range(choices=[3, 5, 7])}
    )


class Bounds(Strict, frozen=True):
    """No architecture is larger. The defaults are AIPerf's."""

    parameters: int = 2**30
    depth: int = 300
    kernel: int = 7
    # Of one text or image, for transformers.
    tokens: int = 1024


class Experiment(Strict, frozen=True):
    schema: Literal[1]
    name: str
    data: str
    # Only where test data lies apart from training data.
    val_data: str | None = None
    image: Picture | None = None
    text: Words | None = None
    rules: str = "release"
    start: str = "resnet50"
    # Of a start model that has some: `blocks` and `width` of `small_cnn`, more of `vit` and `gpt`.
    start_options: dict[str, int] = {}
    init_models: list[str] = []
    policy: str = "morphism-bo"
    policy_options: dict[str, Any] = {}
    limits: Bounds = Bounds()
    architectures_per_trial: int = 1
    workers: int = 1
    slot: WorkerShape = WorkerShape()
    device: str = "cpu"
    visible_devices: str | None = None
    threads: int | None = None
    max_trials: int = 6000
    max_duration: str = "24h"
    training: Training = Training()
    hpo: Hpo = Hpo()
    weights: str | None = None
    # Where the ledger is, if not in the run's folder: a database's URL.
    ledger: str | None = None
    # Weights of so many of the best trials stay, for their children.
    keep_weights: int = 32
    seed: int = 0
    author: str = ""

    @property
    def seconds(self) -> float:
        return duration(self.max_duration, "max_duration")

    @property
    def overtime(self) -> float:
        """So many seconds after its end an epoch that is under way may still take: half an epoch counts nothing."""
        return max(600.0, 0.1 * self.seconds)

    @property
    def rule_set(self) -> RuleSet:
        return RULES[self.rules]

    @property
    def metric(self) -> Metric:
        """What the error is made of. Of a text it is always the loss."""
        return "loss" if text_of(self) is not None else self.rule_set.metric

    @property
    def architectures(self) -> int:
        """All that may ever be trained."""
        return self.max_trials * self.architectures_per_trial

    def round_of(self, number: int) -> int:
        """The round of an architecture, by its number."""
        return number // (self.workers * self.architectures_per_trial)


def duration(text: str, place: str) -> float:
    """`90s`, `30m`, `24h` or `2d` in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not match or float(match[1]) <= 0:
        raise UserError(f"{place}: found {text!r}, allowed is a number with its unit, as in `90s`, `30m`, `24h`, `2d`")
    return float(match[1]) * _UNITS[match[2]]


def shortest(seconds: float) -> str:
    """Seconds as `duration` reads them, in the largest unit that has no fraction."""
    unit = next(unit for unit in ("d", "h", "m", "s") if not seconds % _UNITS[unit])
    return f"{seconds / _UNITS[unit]:g}{unit}"


# What is known of data sets that have a name.
KNOWN_IMAGES = {
    "fashion-mnist": Picture(size=28, channels=1, classes=10),
    "mnist": Picture(size=28, channels=1, classes=10),
    "cifar-10": Picture(size=32, channels=3, classes=10),
}


KNOWN_TEXTS = {"state-of-the-union": Words(tokenizer="characters", kinds=106)}


def image_of(given: Experiment) -> Picture:
    return given.image or KNOWN_IMAGES.get(given.data, Picture())


def text_of(given: Experiment) -> Words | None:
    """None where the data are images."""
    return given.text or KNOWN_TEXTS.get(given.data)


def classes_of(given: Experiment) -> int:
    """What a network chooses among: classes of images, kinds of tokens."""
    text = text_of(given)
    return text.kinds if text is not None else image_of(given).classes
