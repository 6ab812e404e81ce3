"""What a framework is, and the records it speaks in.

A framework is a class with one method, `start(topology, argv) -> Start`: the commands of every node, `argv` being
the training program as one process alone would run it.
"""

from __future__ import annotations

import msgspec

from trainmark.plugins import Registry

# Stands for the host of a node that a scheduler is yet to choose; its agent fills it in.
HOST = "%HOST{}%"


class Topology(msgspec.Struct, frozen=True):
    """Where the ranks of one case are, and what starts them there."""

    hosts: tuple[str, ...]
    nproc: int
    backend: str
    interface: str | None = None
    # Which program starts ranks that agents do not: `srun`, `mpirun` or `horovodrun`, None for the framework's usual
    # one; what the site adds to its command line.
    starter: str | None = None
    options: tuple[str, ...] = ()
    # A file on the hosts that tells where every device is, for frameworks that want one.
    rank_table: str | None = None
    # What is in it, where it is not there yet: it is sent along, and `rank_table` says where to.
    rank_table_text: str = ""

    @property
    def world(self) -> int:
        return len(self.hosts) * self.nproc

    @property
    def meeting(self) -> str:
        """The host at which ranks meet. On one node the loopback address works without any name service."""
        return self.hosts[0] if len(self.hosts) > 1 else "127.0.0.1"

    @property
    def meeting_address(self) -> str:
        """The same as a number, for frameworks that take no names: each agent fills it in."""
        return f"%ADDRESS:{self.meeting}%" if len(self.hosts) > 1 else self.meeting

    def address(self, node: int) -> str:
        """How other ranks reach those of `node`."""
        return self.hosts[node] if len(self.hosts) > 1 else "127.0.0.1"


class Command(msgspec.Struct, frozen=True):
    """One process on a node: what to run and what it must know. `%PORT0%` stands for the first agreed port, `%DIR%` for
    the folder of the node, `%ADDRESS:name%` for the address of a host, `%AGENT%` as the first word for the agent."""

    rank: int
    local_rank: int
    argv: tuple[str, ...]
    env: dict[str, str]


class Helper(msgspec.Struct, frozen=True):
    """A process that ranks need and that is none of them; it is ended when they have ended."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]


class Start(msgspec.Struct, frozen=True):
    """The commands of each node, in node order, and how many ports they must agree on.

    `files` are written into the folder of each node before anything starts. `launched`: the commands are no ranks;
    one of them starts the ranks, which register through the probe.
    `helpers` run on the first node.
    """

    nodes: tuple[tuple[Command, ...], ...]
    ports: int = 0
    files: dict[str, str] = {}
    launched: bool = False
    helpers: tuple[Helper, ...] = ()


REGISTRY = Registry(
    "framework",
    {
        "pytorch": "trainmark.frameworks.pytorch:PyTorch",
        "mindspore": "trainmark.frameworks.mindspore:MindSpore",
        "tensorflow": "trainmark.frameworks.tensorflow:TensorFlow",
        "jax": "trainmark.frameworks.jax:Jax",
        "paddle": "trainmark.frameworks.paddle:Paddle",
        "none": "trainmark.frameworks.plain:Plain",
        "exec": "trainmark.frameworks.command:Exec",
        "mpi": "trainmark.frameworks.mpi:Mpi",
        "horovod": "trainmark.frameworks.horovod:Horovod",
    },
)
