"""AAH's and AIPerf's `config.yml`: read as people have it, copied from a document, as an experiment.

The command in it is split into arguments and never run. What has no meaning here is an error; what is dropped or
changed is reported.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from trainmark.automl.aah.command import CIFAR, Command, parse
from trainmark.automl.experiment.config import KNOWN_IMAGES, Experiment, Hpo, Picture, Training, WorkerShape, duration
from trainmark.automl.experiment.reading import check
from trainmark.automl.experiment.schedule import EarlyStop
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import inputs, yamlfile

_MARK = re.compile(r"(?:^|\s)#\s*\d+\s*$")
# AAH trains so many more times in a trial; AIPerf's `--maxTPEsearchNum` counts the first training, too.
SEED_SEARCHES = 30
_ROUNDS = (15, 30, 45)
_KEYS = (
    *("authorName", "experimentName", "trialConcurrency", "maxExecDuration", "maxTrialNum"),
    *("trainingServicePlatform", "useAnnotation", "logLevel", "tuner", "trial"),
)


def is_theirs(path: Path) -> bool:
    """Whether the file is one of theirs: it names what no file of ours does."""
    try:
        text = inputs.read(path).decode(errors="replace")
    except UserError:
        return False
    return bool(re.search(r"^\s*(trialConcurrency|maxTrialNum|maxExecDuration)\s*:", text, re.MULTILINE))


def read(path: Path) -> tuple[Experiment, list[str]]:
    """The experiment, and a line for everything that was cleaned, changed or dropped."""
    clean, notes = cleaned(inputs.read_text(path))
    raw = yamlfile.parse(path, clean.encode()).content
    experiment, more = translated(raw, str(path))
    return check(experiment, str(path), path.parent), notes + more


def cleaned(text: str) -> tuple[str, list[str]]:
    """The YAML that was meant: without Markdown's escapes, tabs, footnote marks, and continuations of a command."""
    lines: list[str] = []
    found: dict[str, list[int]] = {}

    def note(number: int, what: str) -> None:
        found.setdefault(what, []).append(number)

    for number, raw in enumerate(text.splitlines(), 1):
        line = raw
        if re.match(r"\s*\\#", line):
            line = line.replace("\\#", "#", 1)
            note(number, "`\\#` read as `#` (an escape of Markdown)")
        if "\t" in line:
            line = line.expandtabs(8)
            note(number, "tabs read as spaces")
        marked = _MARK.search(line)
        if marked and line.strip("# 0123456789"):
            line = line[: marked.start()]
            note(number, "footnote marks such as `#2` left out")
        line = line.rstrip()
        if line.endswith("\\"):
            line = line[:-1].rstrip()
            note(number, "`\\` at the end of the line read as a continuation")
        lines.append(line)
    notes = [f"{what} (line {', '.join(map(str, numbers))})" for what, numbers in found.items()]
    return "\n".join(lines) + "\n", notes


def translated(raw: Any, where: str) -> tuple[Experiment, list[str]]:
    """Their keys as an experiment. UserError for what cannot be mapped."""
    if not isinstance(raw, dict):
        raise UserError(f"{where}: expected keys and values, found {type(raw).__name__}")
    for name in raw:
        if name not in _KEYS:
            raise UserError(
                f"{where}: {name}: cannot be mapped{did_you_mean(str(name), _KEYS)}; known: {one_of(_KEYS)}"
            )
    notes: list[str] = []
    workers = _number(raw, "trialConcurrency", 1, where)
    _fixed(raw, "trainingServicePlatform", "local", where, "where workers run is said by `--site`")
    _fixed(raw, "useAnnotation", False, where, "there is no annotation of code here")
    if "logLevel" in raw:
        notes.append("logLevel: dropped; `--log-level` says how much is told")
    command = _trial(raw.get("trial"), where, notes)
    if command.workers is not None and command.workers != workers:
        raise UserError(
            f"{where}: trial.command: --slave {command.workers} is not trialConcurrency ({workers}); they must be equal"
        )
    image, more = _tuner(raw.get("tuner"), where, notes)
    if command.data == CIFAR:
        image = KNOWN_IMAGES[CIFAR]
        notes.append(f"data: `{CIFAR}`, with its own size of images and classes, as the script takes them")
    length = raw.get("maxExecDuration", "999d")
    duration(str(length), f"{where}: maxExecDuration")
    experiment = Experiment(
        schema=1,
        name=str(raw.get("experimentName", "aah")),
        author=str(raw.get("authorName", "")),
        workers=workers,
        max_duration=str(length),
        max_trials=_number(raw, "maxTrialNum", 99_999, where),
        rules="seed",
        start="resnet50",
        image=image,
        data=command.data or _missing(where, "--train_data_dir"),
        val_data=command.val_data,
        device=command.device,
        visible_devices=command.visible,
        threads=None if command.cpus is None else max(1, command.cpus // command.devices),
        slot=WorkerShape(nodes=command.nodes, devices=command.devices),
        training=_training(command),
        hpo=Hpo(from_round=3, searches=SEED_SEARCHES if command.searches is None else command.searches),
        **more,
    )
    notes += command.notes
    notes.append("rules: `seed`; `--rules release` for those of AIPerf")
    notes.append("weights: none are loaded; AIPerf starts from a pretrained ResNet-50, which `weights: FILE` would do")
    return experiment, notes


def _training(command: Command) -> Training:
    most = command.epochs or 60
    first = command.warmups or _ROUNDS
    epochs = [epochs for epochs in first if epochs < most]
    return Training(
        batch=command.batch or 448,
        epochs=[*epochs, most],
        lr=0.2 if command.initial_lr is None else command.initial_lr,
        final_lr=1e-5 if command.final_lr is None else command.final_lr,
        label_smoothing=0.1 if command.smoothing is None else command.smoothing,
        dtype="fp32" if command.device == "cpu" else "fp16",
        loaders=None if command.readers is None else max(1, command.readers // command.devices),
        early_stop=EarlyStop("accuracy", 10),
    )


def _trial(raw: Any, where: str, notes: list[str]) -> Command:
    if not isinstance(raw, dict) or not isinstance(raw.get("command"), str):
        raise UserError(f"{where}: trial.command: missing; it says how a trial was started")
    for name in raw:
        if name not in ("command", "codeDir", "gpuNum"):
            raise UserError(f"{where}: trial.{name}: cannot be mapped; known: `command`, `codeDir`, `gpuNum`")
    if raw.get("gpuNum", 0) not in (0, None):
        raise UserError(
            f"{where}: trial.gpuNum: found {raw['gpuNum']!r}; name devices by CUDA_VISIBLE_DEVICES in the command"
        )
    if "codeDir" in raw:
        notes.append(f"trial.codeDir: {raw['codeDir']!r} dropped; the workload `automl_trial` is trained instead")
    return parse(raw["command"], f"{where}: trial.command")


def _tuner(raw: Any, where: str, notes: list[str]) -> tuple[Picture, dict[str, Any]]:
    if not isinstance(raw, dict) or raw.get("builtinTunerName") != "NetworkMorphism":
        found = raw.get("builtinTunerName") if isinstance(raw, dict) else raw
        raise UserError(f"{where}: tuner.builtinTunerName: found {found!r}, allowed is `NetworkMorphism`")
    for name in raw:
        if name not in ("builtinTunerName", "classArgs"):
            raise UserError(f"{where}: tuner.{name}: cannot be mapped; known: `builtinTunerName`, `classArgs`")
    given = dict(raw.get("classArgs") or {})
    place = f"{where}: tuner.classArgs"
    _fixed(given, "optimize_mode", "maximize", place, "accuracy is what is searched for")
    _fixed(given, "task", "cv", place, "networks here take images")
    image = Picture(
        size=_number(given, "input_width", 32, place),
        channels=_number(given, "input_channel", 3, place),
        classes=_number(given, "n_output_node", 10, place),
    )
    more: dict[str, Any] = {"policy": "morphism-bo"}
    if "max_model_size" in given:
        from trainmark.automl.experiment.config import Bounds

        more["limits"] = Bounds(parameters=_number(given, "max_model_size", 1, place))
    if "init_model_dir" in given:
        more["init_models"] = [str(path) for path in sorted(Path(str(given["init_model_dir"])).glob("*.json"))]
        if not more["init_models"]:
            raise UserError(f"{place}.init_model_dir: {given['init_model_dir']} holds no *.json")
    known = (
        "optimize_mode",
        "task",
        "input_width",
        "input_channel",
        "n_output_node",
        "max_model_size",
        "init_model_dir",
    )
    for name in given:
        if name in ("algorithm_name", "path", "verbose"):
            notes.append(f"tuner.classArgs.{name}: dropped; it has no meaning here")
        elif name not in known:
            raise UserError(f"{place}.{name}: cannot be mapped{did_you_mean(name, known)}; known: {one_of(known)}")
    return image, more


def _number(raw: dict[str, Any], name: str, default: int, where: str) -> int:
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{where}: {name}: found {value!r}, allowed is a whole number from 1")
    return value


def _fixed(raw: dict[str, Any], name: str, value: object, where: str, why: str) -> None:
    if name in raw and raw[name] != value:
        raise UserError(f"{where}: {name}: found {raw[name]!r}, allowed is {value!r}: {why}")


def _missing(where: str, option: str) -> str:
    raise UserError(f"{where}: trial.command: {option} is missing; it says where the data is")


def with_rules(experiment: Experiment, name: str) -> Experiment:
    """Under other rules; AIPerf's release also stops a training by another rule and searches once."""
    changes: dict[str, Any] = {"rules": name}
    if name == "release":
        stop = EarlyStop("aiperf", 10)
        changes["training"] = msgspec.structs.replace(experiment.training, early_stop=stop)
        if experiment.hpo.searches == SEED_SEARCHES:
            changes["hpo"] = msgspec.structs.replace(experiment.hpo, searches=1)
    return msgspec.structs.replace(experiment, **changes)
