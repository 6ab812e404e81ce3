"""TensorFlow: TF_CONFIG lists every worker with a port of its own, as MultiWorkerMirroredStrategy reads it."""

from __future__ import annotations

import msgspec

from trainmark.frameworks.plain import per_rank
from trainmark.frameworks.protocol import Start, Topology


class TensorFlow:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        if topology.world == 1:
            return Start(per_rank(topology, argv, {}))
        # The same ports on every host: one for each of its ranks.
        workers = [
            f"{topology.address(node)}:%PORT{local}%"
            for node, _ in enumerate(topology.hosts)
            for local in range(topology.nproc)
        ]

        def own(rank: int, local: int) -> dict[str, str]:  # noqa: ARG001
            told = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
            return {"TF_CONFIG": msgspec.json.encode(told).decode()}

        return Start(per_rank(topology, argv, {}, own), ports=topology.nproc)
