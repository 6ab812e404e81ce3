"""PaddlePaddle: what its own launcher would tell each trainer, without that launcher."""

from __future__ import annotations

from trainmark.frameworks.plain import per_rank
from trainmark.frameworks.protocol import Start, Topology


class Paddle:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        # The first port is for meeting; then one for each rank of a host, the same on all hosts.
        endpoints = [
            f"{topology.address(node)}:%PORT{local + 1}%"
            for node, _ in enumerate(topology.hosts)
            for local in range(topology.nproc)
        ]
        common = {
            "PADDLE_MASTER": f"{topology.meeting}:%PORT0%",
            "PADDLE_TRAINERS_NUM": str(topology.world),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        }
        if topology.backend:
            common["PADDLE_DISTRI_BACKEND"] = topology.backend

        def own(rank: int, local: int) -> dict[str, str]:
            return {
                "PADDLE_TRAINER_ID": str(rank),
                "PADDLE_RANK_IN_NODE": str(local),
                "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
            }

        return Start(per_rank(topology, argv, common, own), ports=1 + topology.nproc)
