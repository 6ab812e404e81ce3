"""What a site says of its Slurm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from trainmark.errors import UserError

_TIME = r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}|UNLIMITED|INFINITE"
_MEMORY = r"\d+[KMGT]?"
# What would make another kind of job, or another program, of the one that was planned.
_OWN = (
    *("--array", "--wrap", "--parsable", "--job-name", "--output", "--error", "--nodes", "--ntasks", "--test-only"),
    # Its jobs would be looked for on this one.
    "--clusters",
)
_SECONDS = {"queue_seconds": 1, "lost_seconds": 5, "idle_seconds": 5}


class Slurm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to ask Slurm for. What is left out is left to the cluster; `options` go to sbatch as they are."""

    # One job for the whole suite, for each block, or for each round.
    allocation: Literal["suite", "block", "round"] = "suite"
    # How many nodes, where `hosts` does not name them.
    nodes: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | int | None = None
    memory: str | None = None
    cpus_per_node: int | None = None
    gpus_per_node: int | None = None
    gres: str | None = None
    exclusive: bool = True
    constraint: str | None = None
    reservation: str | None = None
    options: list[str] = []
    step_options: list[str] = []
    # Another slurm.conf than the machine's own.
    conf: str | None = None
    queue_seconds: float = 86400.0
    lost_seconds: float = 120.0
    # An allocation that no controller asks for anything is given back after so long.
    idle_seconds: float = 300.0


def check(slurm: Slurm, where: Path) -> None:
    """UserError for what Slurm would refuse, or would take for something else."""
    for name in ("partition", "account", "qos", "constraint", "reservation", "gres", "conf"):
        value = getattr(slurm, name)
        if value is not None and (not value or not value.isprintable()):
            raise UserError(f"{where}: slurm.{name}: found {value!r}, allowed is a line of text")
    for name in ("nodes", "cpus_per_node", "gpus_per_node"):
        value = getattr(slurm, name)
        if value is not None and value < 1:
            raise UserError(f"{where}: slurm.{name}: found {value}, allowed is 1 and more")
    if slurm.time is not None and not (isinstance(slurm.time, str) and re.fullmatch(_TIME, slurm.time)):
        raise UserError(
            f"{where}: slurm.time: found {slurm.time!r}, allowed is minutes, `hours:minutes:seconds` or "
            "`days-hours`, in quotes (YAML takes 1:30 for a number)"
        )
    if slurm.memory is not None and not re.fullmatch(_MEMORY, slurm.memory):
        raise UserError(f"{where}: slurm.memory: found {slurm.memory!r}, allowed is megabytes per node, or as `64G`")
    for name, least in _SECONDS.items():
        if getattr(slurm, name) < least:
            raise UserError(f"{where}: slurm.{name}: found {getattr(slurm, name):g}, allowed is {least} and more")
    for name in ("options", "step_options"):
        for position, option in enumerate(getattr(slurm, name)):
            _check_option(option, f"{where}: slurm.{name}[{position}]")


def _check_option(option: str, where: str) -> None:
    word = option.partition("=")[0]
    if not option.startswith("--") or not option.isprintable():
        raise UserError(f"{where}: found {option!r}, allowed is one long option, as in `--hint=nomultithread`")
    if word in _OWN:
        raise UserError(f"{where}: found {option!r}; {word} is trainmark's own")
