"""Frameworks whose ranks are started by a launcher of their own, on the first node, for all nodes."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.frameworks.protocol import Command, Start, Topology

# What the launcher starts: it becomes the program of the case, on each node as that node calls it.
RANK = "trainmark-rank"


def launched(
    topology: Topology, launcher: Sequence[str], program: Sequence[str], env: dict[str, str], files: dict[str, str]
) -> Start:
    """The launcher on the first node, and on each other node a member through which it reaches that node's agent."""
    first, *others = topology.hosts
    head = ("%AGENT%", "mpi-head", "%PORT0%" if others else "0", str(len(others)), str(len(launcher)))
    nodes = [(Command(0, 0, (*head, *launcher, *program), env),)]
    for index, host in enumerate(others, 1):
        member = ("%AGENT%", "mpi-member", first, "%PORT0%", host, *program)
        nodes.append((Command(index * topology.nproc, 0, member, env),))
    return Start(tuple(nodes), ports=int(bool(others)), files=files, launched=True)


def starter(command: Command) -> str:
    """The program that the first node starts for all, of a command made above."""
    return command.argv[5]


def unless_given(options: Sequence[str], *words: str) -> list[str]:
    """An option and its values, left out where the site gives that option itself."""
    name = words[0].partition("=")[0]
    given = any(option.partition("=")[0] == name for option in options)
    return [] if given else list(words)
