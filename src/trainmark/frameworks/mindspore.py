"""MindSpore: a dynamic cluster of a scheduler and workers, started by the agent itself instead of msrun.

msrun puts its workers into sessions of their own and leaves them behind when it is killed. With a rank table, as
Ascend sites may have one, ranks find each other in it and no scheduler is needed.
"""

from __future__ import annotations

from trainmark.frameworks.plain import per_rank
from trainmark.frameworks.protocol import Helper, Start, Topology
from trainmark.frameworks.ranktable import RANK_TABLE

# Seconds a rank on a CPU waits for the others; with MindSpore's own 30, a rank that compiles longer spoils the
# round. How long anything may take is for the agent to say.
_PATIENCE = "86400"
_SCHEDULER = "import mindspore.communication as cluster; cluster.init()"


class MindSpore:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        common = {"RANK_SIZE": str(topology.world), "DEVICE_NUM": str(topology.nproc)}
        if topology.rank_table is not None:
            # The second name is that of the first releases.
            table = dict.fromkeys(("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH"), topology.rank_table)
            files = {RANK_TABLE: topology.rank_table_text} if topology.rank_table_text else {}
            return Start(per_rank(topology, argv, {**common, **table}, _numbers), files=files)
        if topology.world == 1:
            return Start(per_rank(topology, argv, common, _numbers))
        cluster = {
            "MS_SCHED_HOST": topology.meeting_address,
            "MS_SCHED_PORT": "%PORT0%",
            "MS_WORKER_NUM": str(topology.world),
            "MS_CPU_COMM_OP_TIMEOUT": _PATIENCE,
        }
        scheduler = Helper("scheduler", (argv[0], "-c", _SCHEDULER), {**cluster, **common, "MS_ROLE": "MS_SCHED"})
        ranks = per_rank(topology, argv, {**cluster, **common, "MS_ROLE": "MS_WORKER"}, _numbers)
        return Start(ranks, ports=1, helpers=(scheduler,))


def _numbers(rank: int, local: int) -> dict[str, str]:
    # The node id makes the cluster number its workers as we do; without it, the first to come is rank 0.
    return {"RANK_ID": str(rank), "DEVICE_ID": str(local), "MS_NODE_ID": str(rank)}
