"""`experiment.yaml`: an experiment read, checked, and written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from trainmark.automl.experiment.config import (
    SYNTHETIC,
    WHOLE,
    Experiment,
    Range,
    duration,
    image_of,
    shortest,
    text_of,
)
from trainmark.automl.experiment.rules import BITS, RULES
from trainmark.automl.ledger.storage import holds_password
from trainmark.automl.search import policy
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import yamlfile
from trainmark.spec.case_id import is_name
from trainmark.spec.inputs import expanded
from trainmark.spec.yamlfile import convert

MOST_WORKERS, MOST_TRIALS = 100_000, 1_000_000
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
OPTIMIZERS = ("sgd", "adamw")


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
    for place, value, low, high in _numbers(given):
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
    if given.image and given.text:
        raise UserError(f"{where}: text: the data are either images or a text; leave out `image` or `text`")
    for name, values in given.hpo.space.items():
        _check_range(name, values, f"{where}: hpo.space.{name}")
    return _resolved(given, where, folder)


def check_rules(given: Experiment) -> None:
    """UserError for an experiment whose score could never be valid under its own rules."""
    rules, training = given.rule_set, given.training
    if not rules.counts:
        return
    way_out = "; `rules: none` (`--rules none`) runs it for its speed alone"

    def never(place: str, found: str, allowed: str) -> UserError:
        return UserError(f"{place}: found {found}; under rule set `{rules.name}` valid is only {allowed}{way_out}")

    if text_of(given) is not None and rules.metric != "loss":
        by_loss = one_of(name for name, found in RULES.items() if found.metric == "loss")
        raise UserError(f"rules: found `{rules.name}`; the score of a text is by its loss: {by_loss}{way_out}")
    if given.data == SYNTHETIC:
        raise never("data", f"`{SYNTHETIC}`", "real data")
    if given.seconds < rules.seconds:
        raise never("max_duration", f"`{given.max_duration}`", f"`{shortest(rules.seconds)}` or more")
    if BITS[training.dtype] < rules.bits:
        raise never("training.dtype", f"`{training.dtype}`", f"a format of at least {rules.bits} bits")
    if rules.images is None:
        return
    whole, classes = "ImageNet as a whole", image_of(given).classes
    for place, count in (("training.images", training.images), ("training.test_images", training.test_images)):
        if count:
            raise never(place, f"{count:,}", whole)
    if classes != rules.images[2]:
        raise never("data", f"`{given.data}` with {classes:,} classes", whole)


def _numbers(given: Experiment) -> list[tuple[str, float, float, float]]:
    """Of each number its place, itself, and the least and the most that is allowed."""
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
        ("limits.tokens", given.limits.tokens, 1, 4096),
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
        ("training.loaders", training.loaders or 0, 0, 1024),
        ("hpo.from_round", given.hpo.from_round, 0, MOST_TRIALS),
        ("hpo.searches", given.hpo.searches, 0, 10_000),
        ("hpo.patience", given.hpo.patience, 1, 10_000),
        ("threads", given.threads or 1, 1, 100_000),
    ]
    if training.asha:
        numbers += [("training.asha.first", training.asha.first, 1, 10_000)]
        numbers += [("training.asha.factor", training.asha.factor, 2, 100)]
    if given.text:
        numbers += [("text.kinds", given.text.kinds, 2, 2**15)]
    if given.image:
        numbers += [("image.size", given.image.size, 1, 4096), ("image.channels", given.image.channels, 1, 4096)]
        numbers += [("image.classes", given.image.classes, 2, 2**15)]
    return numbers


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
        return str((folder / expanded(name, str(folder))).resolve())

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


def to_yaml(given: Experiment) -> str:
    """The experiment as a file: what differs from the defaults, and always what is most asked for."""
    import yaml

    whole = msgspec.to_builtins(given)
    plain = msgspec.to_builtins(Experiment(schema=1, name="", data=""))
    always = ("schema", "name", "data", "rules", "start", "policy", "workers", "max_trials", "max_duration")
    shown = {name: whole[name] for name in always}
    for name, value in whole.items():
        if name not in shown and value != plain[name]:
            shown[name] = _differing(value, plain[name])
    recipe = {name: whole["training"][name] for name in ("batch", "epochs", "lr", "final_lr")}
    shown["training"] = {**recipe, **shown.get("training", {})}
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)


def _differing(value: Any, plain: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(plain, dict) or set(value) != set(plain):
        return value
    return {name: inner for name, inner in value.items() if inner != plain[name]}
