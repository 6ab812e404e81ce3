"""JAX: a coordinator in the first process, and the number of each process, as `jax.distributed` wants them."""

from __future__ import annotations

from trainmark.frameworks.plain import per_rank
from trainmark.frameworks.protocol import Start, Topology


class Jax:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        common = {
            "JAX_COORDINATOR_ADDRESS": f"{topology.meeting}:%PORT0%",
            "JAX_NUM_PROCESSES": str(topology.world),
        }
        return Start(per_rank(topology, argv, common, _numbers), ports=1)


def _numbers(rank: int, local: int) -> dict[str, str]:  # noqa: ARG001
    return {"JAX_PROCESS_ID": str(rank)}
