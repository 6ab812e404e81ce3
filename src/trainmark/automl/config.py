"""An experiment: what is searched, how it is trained, and by which rules it is scored. `experiment.yaml`, checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.automl import policy
from trainmark.automl.rules import RULES, RuleSet
from trainmark.automl.schedule import EarlyStop
from trainmark.automl.storage import holds_password
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import yamlfile
from trainmark.spec.case_id import is_name
from trainmark.spec.convert import convert

SYNTHETIC = "synthetic"
MOST_WORKERS, MOST_TRIALS = 100_000, 1_000_000
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# What a hyper-parameter search may change, and between which bounds that makes sense.
SEARCHABLE = {
    "dropout": (0.0, 0.95),
    "kernel_size": (1, 15),
    "batch": (1, 1 << 20),
    "lr": (0.0, 1e3),
    "final_lr": (0.0, 1e3),
    "momentum": (0.0, 0.9999),
    "weight_decay": (0.0, 10.0),
    "label_smoothing": (0.0, 0.99),
    "optimizer": None,
}
WHOLE = ("kernel_size", "batch")
OPTIMIZERS = ("sgd", "adamw")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: a key that is not known is an error."""


class Picture(Strict, frozen=True):
    """The images that networks take. What is left out follows from a data set with a name."""

    size: int = 224
    channels: int = 3
    classes: int = 1000


class Slot(Strict, frozen=True):
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
    # Images of an epoch, and to test on; 0: all. For short demonstrations.
    images: int = 0
    test_images: int = 0
    # Processes that read pictures ahead of a rank.
    loaders: int = 0


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


class Experiment(Strict, frozen=True):
    schema: Literal[1]
    name: str
    data: str
    # Only where test data lies apart from training data.
    val_data: str | None = None
    image: Picture | None = None
    rules: str = "release"
    start: str = "resnet50"
    # Of a start model that has some: `blocks` and `width` of `small_cnn`.
    start_options: dict[str, int] = {}
    init_models: list[str] = []
    policy: str = "morphism-bo"
    policy_options: dict[str, Any] = {}
    limits: Bounds = Bounds()
    architectures_per_trial: int = 1
    workers: int = 1
    slot: Slot = Slot()
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
    # Weights of so many of the best trials are kept for their children.
    keep_weights: int = 32
    seed: int = 0
    author: str = ""

    @property
    def seconds(self) -> float:
        return duration(self.max_duration, "max_duration")

    @property
    def rule_set(self) -> RuleSet:
        return RULES[self.rules]

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


def load(path: Path) -> Experiment:
    return check(convert(yamlfile.load(path), Experiment, str(path)), str(path), path.parent)


def check(given: Experiment, where: str, folder: Path) -> Experiment:
    """The experiment with its paths resolved, or a UserError for the first thing that cannot be meant."""

    def bad(place: str, found: object, allowed: str) -> UserError:
        return UserError(f"{where}: {place}: found {found!r}, allowed is {allowed}")

    if not is_name(given.name) or len(given.name) > 60:
        raise bad("name", given.name, "up to 60 letters, digits, `.`, `_`, `-`")
    if given.rules not in RULES:
        raise UserError(
            f"{where}: rules: no rule set `{given.rules}`{did_you_mean(given.rules, RULES)}; there is {one_of(RULES)}"
        )
    policy.check(given.policy, f"{where}: policy")
    duration(given.max_duration, f"{where}: max_duration")
    training, slot = given.training, given.slot
    numbers: list[tuple[str, float, float, float]] = [
        ("workers", given.workers, 1, MOST_WORKERS),
        ("max_trials", given.max_trials, 1, MOST_TRIALS),
        ("architectures_per_trial", given.architectures_per_trial, 1, 1000),
        ("keep_weights", given.keep_weights, 1, MOST_TRIALS),
        ("slot.nodes", slot.nodes, 1, MOST_WORKERS),
        ("slot.devices", slot.devices, 1, 1024),
        ("slot.per_node", slot.per_node or 1, 1, 1024),
        ("limits.parameters", given.limits.parameters, 1, 2**31),
        ("limits.depth", given.limits.depth, 1, 4096),
        ("limits.kernel", given.limits.kernel, 1, 63),
        ("training.batch", training.batch, 1, 1 << 20),
        ("training.lr", training.lr, 0, 1e3),
        ("training.final_lr", training.final_lr, 0, 1e3),
        ("training.momentum", training.momentum, 0, 1),
        ("training.weight_decay", training.weight_decay, 0, 10),
        ("training.label_smoothing", training.label_smoothing, 0, 0.99),
        ("training.dropout", training.dropout or 0.0, 0, 0.95),
        ("training.early_stop.patience", training.early_stop.patience, 1, 10_000),
        ("training.images", training.images, 0, 1e9),
        ("training.test_images", training.test_images, 0, 1e9),
        ("training.loaders", training.loaders, 0, 1024),
        ("hpo.from_round", given.hpo.from_round, 0, MOST_TRIALS),
        ("hpo.searches", given.hpo.searches, 0, 10_000),
        ("hpo.patience", given.hpo.patience, 1, 10_000),
        ("threads", given.threads or 1, 1, 100_000),
    ]
    if training.asha:
        numbers += [("training.asha.first", training.asha.first, 1, 10_000)]
        numbers += [("training.asha.factor", training.asha.factor, 2, 100)]
    if given.image:
        numbers += [("image.size", given.image.size, 1, 4096), ("image.channels", given.image.channels, 1, 4096)]
        numbers += [("image.classes", given.image.classes, 2, 2**15)]
    for place, value, low, high in numbers:
        if not low <= value <= high:
            raise bad(place, value, f"{low:g} to {high:g}")
    if not training.epochs or not all(1 <= epochs <= 100_000 for epochs in training.epochs):
        raise bad("training.epochs", training.epochs, "a list of whole numbers from 1, one for each round")
    if slot.nodes > 1 and (slot.per_node or 1) > 1:
        raise bad("slot.per_node", slot.per_node, "1 where a worker has several nodes")
    if given.ledger and holds_password(given.ledger):
        raise UserError(
            f"{where}: ledger: holds a password, which results would keep; leave it to the database's own file"
        )
    if given.ledger and not re.match(r"journal:/|(?!grpc)[a-z0-9+]+://", given.ledger):
        raise bad("ledger", given.ledger, "journal:/PATH or the URL of a database")
    for name, values in given.hpo.space.items():
        _check_range(name, values, f"{where}: hpo.space.{name}")
    return _resolved(given, where, folder)


def _check_range(name: str, given: Range, place: str) -> None:
    """A space that cannot be searched, or a value that cannot be trained with, is found before anything starts."""
    if name not in SEARCHABLE:
        raise UserError(f"{place}: cannot be searched{did_you_mean(name, SEARCHABLE)}; there is {one_of(SEARCHABLE)}")
    if (given.choices is None) == (given.low is None and given.high is None):
        raise UserError(f"{place}: give either `choices`, or `low` and `high`")
    bounds = SEARCHABLE[name]
    if given.choices is not None:
        if not given.choices:
            raise UserError(f"{place}.choices: an empty list leaves nothing to choose from")
        for value in given.choices:
            _check_value(value, bounds, name in WHOLE, f"{place}.choices")
            if name == "kernel_size" and int(value) % 2 == 0:
                raise UserError(f"{place}.choices: found {value!r}, allowed are odd numbers")
        return
    if bounds is None:
        raise UserError(f"{place}: found a range, allowed are choices among {one_of(OPTIMIZERS)}")
    if given.low is None or given.high is None:
        raise UserError(f"{place}: `{'low' if given.low is None else 'high'}` is missing")
    if name == "kernel_size":
        raise UserError(f"{place}: found a range, allowed are `choices` of odd numbers")
    for value in (given.low, given.high):
        _check_value(value, bounds, name in WHOLE, place)
    if given.low > given.high:
        raise UserError(f"{place}: low ({given.low:g}) is above high ({given.high:g}): nothing lies between them")
    if given.log and given.low <= 0:
        raise UserError(f"{place}: found low = {given.low:g}, allowed with `log` is above 0")


def _check_value(value: object, bounds: tuple[float, float] | None, whole: bool, place: str) -> None:
    if bounds is None:
        if value not in OPTIMIZERS:
            raise UserError(f"{place}: found {value!r}, allowed is {one_of(OPTIMIZERS)}")
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not bounds[0] <= value <= bounds[1]:
        raise UserError(f"{place}: found {value!r}, allowed is {bounds[0]:g} to {bounds[1]:g}")
    if whole and value != int(value):
        raise UserError(f"{place}: found {value!r}, allowed are whole numbers")


def _resolved(given: Experiment, where: str, folder: Path) -> Experiment:
    """Files that the experiment names, from its own folder; those of this machine must be there."""

    def here(name: str) -> str:
        return str((folder / Path(name).expanduser()).resolve())

    changes: dict[str, Any] = {}
    if given.start.endswith(".json"):
        changes["start"] = here(given.start)
    changes["init_models"] = [here(name) for name in given.init_models]
    if given.weights:
        changes["weights"] = here(given.weights)
    for name in ("data", "val_data"):
        value = getattr(given, name)
        # A name without a slash is that of a data set; an absolute path may be one of other hosts.
        if value and "/" in value and not value.startswith("/"):
            changes[name] = here(value)
    for place, name in [
        *((f"init_models[{index}]", name) for index, name in enumerate(changes["init_models"])),
        *([("weights", changes["weights"])] if given.weights else []),
    ]:
        if not Path(name).is_file():
            raise UserError(f"{where}: {place}: there is no file {name}")
    return msgspec.structs.replace(given, **changes)


# What is known of data sets that have a name.
KNOWN_IMAGES = {
    "fashion-mnist": Picture(size=28, channels=1, classes=10),
    "mnist": Picture(size=28, channels=1, classes=10),
    "cifar-10": Picture(size=32, channels=3, classes=10),
}


def image_of(given: Experiment) -> Picture:
    return given.image or KNOWN_IMAGES.get(given.data, Picture())


def to_yaml(given: Experiment) -> str:
    """The experiment as a file: what differs from the defaults, and always what is most asked for."""
    import yaml

    whole = msgspec.to_builtins(given)
    plain = msgspec.to_builtins(Experiment(schema=1, name="", data=""))
    always = ("schema", "name", "data", "rules", "start", "policy", "workers", "max_trials", "max_duration")
    kept = {name: whole[name] for name in always}
    for name, value in whole.items():
        if name not in kept and value != plain[name]:
            kept[name] = _differing(value, plain[name])
    recipe = {name: whole["training"][name] for name in ("batch", "epochs", "lr", "final_lr")}
    kept["training"] = {**recipe, **kept.get("training", {})}
    return yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=100)


def _differing(value: Any, plain: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(plain, dict) or set(value) != set(plain):
        return value
    return {name: inner for name, inner in value.items() if inner != plain[name]}
