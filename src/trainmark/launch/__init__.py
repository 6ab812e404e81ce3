"""Where agents start. Every launcher starts the same agent with the same node plan and speaks these words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.plan.records import CasePlan
from trainmark.plugins import Registry
from trainmark.spec.states import JobState


class Finding(msgspec.Struct, frozen=True):
    """One thing that `doctor` looked at. `good` is None for something worth knowing that is no fault."""

    host: str
    what: str
    good: bool | None
    found: str
    cure: str = ""


class NodeJob(msgspec.Struct, frozen=True):
    """One agent to start: its folder and its node plan."""

    host: str
    dir: Path
    plan: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One attempt, rendered: everything needed to start it, nothing started yet."""

    attempt_dir: Path
    token: str
    nodes: tuple[NodeJob, ...]


class Job(msgspec.Struct, frozen=True):
    """A started attempt: its address and its folder."""

    handle: str
    attempt_dir: Path
    token: str


class Ended(msgspec.Struct, frozen=True):
    """How an attempt stands; `failure` names the first failing rank and its last lines."""

    state: JobState
    reason: str = ""
    failure: dict[str, Any] | None = None


class AttemptSpec(msgspec.Struct, frozen=True):
    """Which attempt of which case to render."""

    run: str
    run_dir: Path
    attempt_dir: Path
    case: CasePlan
    round: int
    attempt: int
    token: str
    epoch: int
    seed: int


# `stop` gives ranks their grace, `kill` gives none, `destroy` does not even ask the agent.
How = Literal["stop", "kill", "destroy"]


REGISTRY = Registry(
    "launcher",
    {
        "local": "trainmark.launch.local.launcher:LocalLauncher",
        "ssh": "trainmark.launch.ssh.launcher:SshLauncher",
        "slurm": "trainmark.launch.slurm.launcher:SlurmLauncher",
    },
)
