"""A command of the user's own, once on each node: how its ranks start and find each other is its affair."""

from __future__ import annotations

from trainmark.frameworks.protocol import Command, Start, Topology


class Exec:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        alone = len(topology.hosts) == 1
        ports = int(not alone or any("{master_port}" in word for word in argv))
        nodes = []
        for node, _ in enumerate(topology.hosts):
            known = {
                "nnodes": str(len(topology.hosts)),
                "nproc": str(topology.nproc),
                "node_rank": str(node),
                "master_addr": "127.0.0.1" if alone else topology.hosts[0],
            }
            if ports:
                known["master_port"] = "%PORT0%"
            # Not RANK and WORLD_SIZE: a program that finds them believes that it was started by torchrun.
            env = {f"TRAINMARK_{name.upper()}": value for name, value in known.items()}
            nodes.append((Command(node * topology.nproc, 0, tuple(_fill(word, known) for word in argv), env),))
        return Start(tuple(nodes), ports)


def _fill(word: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        word = word.replace("{" + name + "}", value)
    return word
