"""How each framework's ranks start and find each other. Pure: topology in, commands and environment out.

A framework is a class with one method, `start(topology, argv) -> Start`: the commands of every node, `argv` being
the training program as one process alone would run it.
"""

from __future__ import annotations

import msgspec

from trainmark.plugins import Registry


class Topology(msgspec.Struct, frozen=True):
    """Where the ranks of one case are, and what starts agents there."""

    hosts: tuple[str, ...]
    nproc: int
    backend: str
    launcher: str = "local"
    interface: str | None = None
    # Which program starts ranks, where there are several that could; what the site adds to its command line.
    starter: str | None = None
    options: tuple[str, ...] = ()

    @property
    def world(self) -> int:
        return len(self.hosts) * self.nproc


class Command(msgspec.Struct, frozen=True):
    """One process on a node: what to run and what it must know. `%PORT0%` stands for the first agreed port, `%DIR%` for
    the folder of the node, `%AGENT%` as the first word for the agent itself."""

    rank: int
    local_rank: int
    argv: tuple[str, ...]
    env: dict[str, str]


class Start(msgspec.Struct, frozen=True):
    """The commands of each node, in node order, and how many ports they must agree on.

    `files` are written into the folder of each node before anything starts. `launched`: the commands are no ranks;
    one of them starts the ranks, which register through the probe.
    """

    nodes: tuple[tuple[Command, ...], ...]
    ports: int = 0
    files: dict[str, str] = {}
    launched: bool = False


REGISTRY = Registry(
    "framework",
    {
        "pytorch": "trainmark.frameworks.pytorch:PyTorch",
        "none": "trainmark.frameworks.plain:Plain",
        "exec": "trainmark.frameworks.command:Exec",
        "mpi": "trainmark.frameworks.mpi:Mpi",
        "horovod": "trainmark.frameworks.horovod:Horovod",
    },
)
