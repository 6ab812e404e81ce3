"""Plain processes: one per rank, which know their number and nothing of each other."""

from __future__ import annotations

from collections.abc import Callable

from trainmark.frameworks.protocol import Command, Start, Topology


class Plain:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        return Start(per_rank(topology, argv, {}))


def per_rank(
    topology: Topology,
    argv: tuple[str, ...],
    common: dict[str, str],
    own: Callable[[int, int], dict[str, str]] = lambda rank, local: {},  # noqa: ARG005
) -> tuple[tuple[Command, ...], ...]:
    """One process per rank with the variables torchrun made customary; `own` are those of a rank and local rank."""
    nodes = []
    for node, _ in enumerate(topology.hosts):
        ranks = []
        for local in range(topology.nproc):
            rank = node * topology.nproc + local
            env = {
                "RANK": str(rank),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(topology.world),
                "LOCAL_WORLD_SIZE": str(topology.nproc),
                "NODE_RANK": str(node),
                "GROUP_RANK": str(node),
                **common,
                **own(rank, local),
            }
            ranks.append(Command(rank, local, argv, env))
        nodes.append(tuple(ranks))
    return tuple(nodes)
