"""A command of the user's own as a workload: `command:` in a suite, in a workload.yaml, or after `trainmark exec --`.

The command is an argument vector. `{batch}` in a word stands for the parameter `batch`; `{nnodes}`, `{nproc}`,
`{node_rank}`, `{master_addr}` and `{master_port}` for where it runs. Two parameters mean more than their value:
`batch` is what each process trains in a step, and after `steps` steps the command is ended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.agent.secrets import looks_secret, masked, secret_option
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec.case_id import CaseId, Value, is_name, value_text
from trainmark.spec.log_lines import find_pattern
from trainmark.spec.scaling import Scaling
from trainmark.spec.site import LogLevel
from trainmark.spec.workload import EXEC, Deadlines, Found, Parameter, Workload

# What a node knows only when its turn has come; filled in by the framework `exec`.
PLACES = ("nnodes", "nproc", "node_rank", "master_addr", "master_port")
# Nothing is known of a program that was not written for trainmark: it gets time.
DEADLINES = Deadlines(start=1800.0, step=1800.0, total=86400.0)
DEFAULT_NAME = "command"
_WORD = r"\{([a-z_][a-z0-9_]*)\}"
_LAUNCHERS = ("python", "torchrun", "accelerate", "deepspeed", "mpirun", "srun", "bash", "sh", "env")


class CommandEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case of a suite that is a command. `repeat`, `set`, `matrix` and `deadlines` are as in any case."""

    command: list[str]
    name: str | None = None
    unit: str | None = None
    batch: int | None = None
    steps: int | None = None
    pattern: str | None = None
    cwd: str | None = None
    env: dict[str, str] = {}
    device: str = "cpu"
    nnodes: int = 1
    nproc: int = 1
    repeat: int | Literal["auto"] = 1
    matrix: dict[str, Any] | None = None
    set: dict[str, Value] = {}
    deadlines: dict[str, float] = {}
    log_level: LogLevel | None = None
    scaling: Scaling | None = None


def found(entry: CommandEntry, folder: Path, preset: str, place: str) -> Found:
    """The workload that such a case stands for; `folder` is where it runs unless `cwd` says otherwise."""
    if not entry.command or not entry.command[0]:
        raise UserError(f"{place}.command: empty; give the program and its arguments as a list")
    name = entry.name or default_name(entry.command)
    if not is_name(name):
        raise UserError(f"{place}.name: found {name!r}, allowed are letters, digits, `.`, `_`, `-`")
    for what, count in (("batch", entry.batch), ("steps", entry.steps)):
        if count is not None and count < 1:
            raise UserError(f"{place}.{what}: found {count}, allowed is a whole number from 1")
    check_env(entry.env, f"{place}.env")
    pattern = None if entry.pattern is None else find_pattern(entry.pattern, f"{place}.pattern")
    values: dict[str, Value] = {key: number for key, number in _own(entry) if number is not None}
    # A number that is a secret is text: what stands for it in files is text, too.
    values.update({key: str(value) if secret_option(key) else value for key, value in entry.set.items()})
    for axis, choices in (entry.matrix or {}).items():
        if axis not in _AXES and axis not in values:
            values[axis] = choices[0] if isinstance(choices, list) and choices else choices
    workload = Workload(
        schema=1,
        name=name,
        title=" ".join(masked(entry.command, {})),
        unit=entry.unit or (pattern.unit if pattern else "samples"),
        command=list(entry.command),
        cwd=entry.cwd,
        env=dict(entry.env),
        pattern=entry.pattern,
        parameters={key: _parameter(value, f"{place}.set.{key}") for key, value in values.items()},
        presets={preset: {}},
        deadlines=DEADLINES,
    )
    return Found(workload, folder)


_AXES = ("device", "nodes", "procs")


def _own(entry: CommandEntry) -> tuple[tuple[str, int | None], ...]:
    return ("batch", entry.batch), ("steps", entry.steps)


def case_id(entry: CommandEntry, name: str, place: str) -> CaseId:
    head = f"{name}:{EXEC}:{entry.device}:{entry.nnodes}:{entry.nproc}:{entry.repeat}"
    try:
        return CaseId.parse(head)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def default_name(argv: Sequence[str]) -> str:
    """The script's name without its ending, else the program's. What follows `sh -c` is no name, but may hold one."""
    scripts = [piece for word in argv for piece in word.split() if piece.endswith(".py")]
    programs = [os.path.basename(word) for word in argv if re.fullmatch(r"[\w.,:=@+/][\w.,:=@+/-]*", word)]
    others = [word for word in programs if not word.startswith(_LAUNCHERS)]
    text = Path(scripts[0]).stem if scripts else (others or programs or [DEFAULT_NAME])[0]
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text).strip("._-")[:64]
    return plain or DEFAULT_NAME


def _parameter(value: Value, place: str) -> Parameter:
    """What kind of value it is, is told by the value itself."""
    for kind, python in (("bool", bool), ("int", int), ("float", float), ("str", str)):
        if isinstance(value, python):
            return Parameter(type=kind, default=value)  # type: ignore[arg-type]
    raise UserError(f"{place}: expected a plain value; found {value!r}")


def check_env(env: Mapping[str, str], place: str) -> None:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise UserError(f"{place}: found {name!r}, which is no name of a variable")
        if looks_secret(name, value):
            raise UserError(
                f"{place}.{name} looks like a secret, and results keep it; "
                "export it instead: the command inherits the environment"
            )


def check_words(workload: Workload, place: str) -> None:
    """A word that is nothing but a placeholder must have a value."""
    known = [*workload.parameters, *PLACES]
    for position, word in enumerate(workload.command):
        whole = re.fullmatch(_WORD, word)
        if whole and whole[1] not in known:
            raise UserError(
                f"{place}.command[{position}]: nothing is called `{whole[1]}`{did_you_mean(whole[1], known)}; "
                f"there is {one_of(known)}"
            )


def fill(argv: Sequence[str], values: Mapping[str, Value]) -> tuple[str, ...]:
    """The words with every known placeholder replaced; other braces are the program's own."""
    return tuple(
        re.sub(_WORD, lambda match: value_text(values[match[1]]) if match[1] in values else match[0], word)
        for word in argv
    )


def variables(values: Mapping[str, Value]) -> dict[str, str]:
    """The parameters for programs that rather read the environment."""
    return {f"TRAINMARK_PARAM_{name.upper()}": value_text(value) for name, value in values.items()}


def pattern_of(workload: Workload, place: str) -> dict[str, Any] | None:
    """How its output is read, in plain words for the node."""
    return None if workload.pattern is None else msgspec.to_builtins(find_pattern(workload.pattern, place))
