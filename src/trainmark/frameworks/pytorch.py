"""PyTorch: `env://` rendezvous, one process per rank, started by the agent itself instead of torchrun."""

from __future__ import annotations

from trainmark.frameworks.plain import per_rank
from trainmark.frameworks.protocol import Start, Topology


class PyTorch:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        common = {"MASTER_ADDR": topology.meeting, "MASTER_PORT": "%PORT0%"}
        return Start(per_rank(topology, argv, common), ports=1)
