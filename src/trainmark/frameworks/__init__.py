"""How each framework's ranks start and find each other. Pure: topology in, commands and environment out.

A framework is a class with one method, `start(topology, argv) -> Start`: the commands of every node, `argv` being
the training program as one process alone would run it.
"""

from __future__ import annotations

import msgspec

from trainmark.plugins import Registry


class Topology(msgspec.Struct, frozen=True):
    """Where the ranks of one case are."""

    hosts: tuple[str, ...]
    nproc: int
    backend: str

    @property
    def world(self) -> int:
        return len(self.hosts) * self.nproc


class Command(msgspec.Struct, frozen=True):
    """One process on a node: what to run and what it must know. `%PORT0%` stands for the first agreed port."""

    rank: int
    local_rank: int
    argv: tuple[str, ...]
    env: dict[str, str]


class Start(msgspec.Struct, frozen=True):
    """The commands of each node, in node order, and how many ports they must agree on."""

    nodes: tuple[tuple[Command, ...], ...]
    ports: int = 0


REGISTRY = Registry(
    "framework",
    {
        "pytorch": "trainmark.frameworks.pytorch:PyTorch",
        "none": "trainmark.frameworks.plain:Plain",
        "exec": "trainmark.frameworks.command:Exec",
    },
)
