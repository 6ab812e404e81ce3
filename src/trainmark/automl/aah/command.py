"""`trial.command` of AAH and AIPerf, as arguments: environment, srun with options, a script with options. Never run."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from typing import Any

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of


class Command(msgspec.Struct):
    """What the arguments mean."""

    device: str = "cpu"
    visible: str | None = None
    devices: int = 1
    nodes: int = 1
    cpus: int | None = None
    workers: int | None = None
    batch: int | None = None
    epochs: int | None = None
    warmups: tuple[int, ...] = ()
    initial_lr: float | None = None
    final_lr: float | None = None
    smoothing: float | None = None
    searches: int | None = None
    readers: int | None = None
    data: str | None = None
    val_data: str | None = None
    notes: list[str] = []


_ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "NPU_NUM", "OBSHOME")
# Hands a command to AIPerf's own control service; here the launcher of the site starts workers.
_SUBMITTER = "submitter.py"
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
# The data set's name here.
CIFAR = "cifar-10"
_SHORT = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task"}
_SRUN = ("--nodes", "--ntasks", "--ntasks-per-node", "--cpus-per-task")
# Options of srun that say where to run: a site says that.
_SITES = {"-p": "partition", "--partition": "partition", "-A": "account", "--account": "account", "--qos": "qos"}


def parse(text: str, where: str) -> Command:
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{where}: cannot be split into words: {error}") from None
    found = Command(notes=[])
    rest = _environment(found, argv, where)
    if rest and rest[0].rpartition("/")[2] == _SUBMITTER:
        found.notes.append(f"trial.command: {rest[0]} dropped; the site says where and how workers start")
        rest = rest[1:]
    if rest and rest[0] == "srun":
        rest = _srun(found, rest[1:], where)
    rest = _program(found, rest, where)
    _script(found, rest, where)
    return found


def _environment(found: Command, argv: list[str], where: str) -> list[str]:
    at = 0
    while at < len(argv) and re.match(r"[A-Za-z_]\w*=", argv[at]):
        name, _, value = argv[at].partition("=")
        if name == "OBSHOME":
            found.notes.append(f"OBSHOME={value}: dropped; logs and results are in the run's folder")
            at += 1
            continue
        value = _filled(value, f"{where}: {name}")
        if name == "CUDA_VISIBLE_DEVICES":
            if not re.fullmatch(r"\d+(,\d+)*", value):
                raise UserError(f"{where}: {argv[at]}: allowed are numbers of devices, as in `0,1,2,3`")
            found.device, found.visible, found.devices = "nvidia", value, len(value.split(","))
        elif name == "NPU_NUM":
            found.device, found.devices = "ascend", _whole(value, f"{where}: {name}")
        else:
            raise UserError(
                f"{where}: {name}: cannot be mapped; known: {one_of(_ENVIRONMENT)}; put others into `env:` of the site"
            )
        at += 1
    return argv[at:]


def _srun(found: Command, argv: list[str], where: str) -> list[str]:
    options, rest = _options(argv, where)
    for name, value in options:
        name = _SHORT.get(name, name)
        if name in _SITES:
            raise UserError(f"{where}: srun {name}: cannot be mapped; put `slurm: {{{_SITES[name]}: …}}` into the site")
        if name not in _SRUN:
            raise UserError(
                f"{where}: srun {name}: cannot be mapped{did_you_mean(name, _SRUN)}; known: {one_of(_SRUN)}"
            )
        number = _whole(value, f"{where}: srun {name}")
        if name == "--nodes":
            found.nodes = number
        elif name == "--cpus-per-task":
            found.cpus = number
            found.notes.append(f"srun --cpus-per-task={number}: shared among the {found.devices} devices of a worker")
        elif name == "--ntasks-per-node" and number != 1:
            raise UserError(f"{where}: srun {name}: found {number}, allowed is 1: a trial is one task on each node")
    return rest


def _options(argv: list[str], where: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Leading options with their values, and what follows."""
    found, at = [], 0
    while at < len(argv) and argv[at].startswith("-"):
        name, equals, value = argv[at].partition("=")
        at += 1
        if not equals:
            if at >= len(argv):
                raise UserError(f"{where}: {name}: its value is missing")
            value, at = argv[at], at + 1
        found.append((name, value))
    return found, argv[at:]


def _program(found: Command, argv: list[str], where: str) -> list[str]:
    if not argv or not re.fullmatch(r"(.*/)?python[0-9.]*", argv[0]):
        raise UserError(f"{where}: found {' '.join(argv[:1]) or 'nothing'!r}, expected `python3 SCRIPT.py …`")
    if len(argv) < 2 or not argv[1].endswith(".py"):
        raise UserError(f"{where}: no script after {argv[0]}")
    if "cifar10" in argv[1]:
        # The script fetches its own data, so that no option names any.
        found.data = CIFAR
    found.notes.append(f"trial.command: {argv[1]} is not run; the workload `automl_trial` is trained instead")
    return argv[2:]


def _script(found: Command, argv: list[str], where: str) -> None:
    options, rest = _options(argv, where)
    if rest:
        raise UserError(f"{where}: {rest[0]!r} cannot be mapped: it is no option")
    warmups: dict[int, int] = {}
    for name, value in options:
        place = f"{where}: {name}"
        if name == "--ip":
            found.notes.append(f"--ip {value}: dropped; workers need no address of a master")
            continue
        value = _filled(value, place)
        if name.startswith("--warmup_") and name[9:] in ("1", "2", "3"):
            warmups[int(name[9:])] = _whole(value, place)
        elif name == "--maxTPEsearchNum":
            found.searches = max(0, _whole(value, place) - 1)
        elif name in _SCRIPT:
            field, kind = _SCRIPT[name]
            setattr(found, field, kind(value, place))
        else:
            known = [*_SCRIPT, "--ip", "--warmup_1", "--warmup_2", "--warmup_3", "--maxTPEsearchNum"]
            raise UserError(f"{place}: cannot be mapped{did_you_mean(name, known)}; known: {one_of(known)}")
    found.warmups = tuple(warmups[number] for number in sorted(warmups))


def _filled(text: str, place: str) -> str:
    """With the values of variables, as a shell would; but one that is not set is an error."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in os.environ:
            raise UserError(f"{place}: found `{text}`, but the variable {name} is not set here; set it and try again")
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def _whole(text: str, place: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise UserError(f"{place}: found {text!r}, allowed is a whole number from 1")
    return int(text)


def _real(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise UserError(f"{place}: found {text!r}, allowed is a number from 0")
    return value


def _text(text: str, place: str) -> str:
    if not text:
        raise UserError(f"{place}: is empty")
    return text


_Read = Callable[[str, str], Any]
_SCRIPT: dict[str, tuple[str, _Read]] = {
    "--slave": ("workers", _whole),
    "--batch_size": ("batch", _whole),
    "--epoch": ("epochs", _whole),
    "--epochs": ("epochs", _whole),
    "--initial_lr": ("initial_lr", _real),
    "--final_lr": ("final_lr", _real),
    "--train_data_dir": ("data", _text),
    "--val_data_dir": ("val_data", _text),
    "--smooth_factor": ("smoothing", _real),
    "--num_parallel_calls": ("readers", _whole),
}
