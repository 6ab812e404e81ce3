"""Horovod: `horovodrun` on the first node, or `mpirun` as Horovod's documentation has it; under Slurm `srun`."""

from __future__ import annotations

from trainmark.frameworks.launched import RANK, launched
from trainmark.frameworks.mpi import AS_ROOT, HOSTFILE, hosts_text, mpirun, srun
from trainmark.frameworks.protocol import Start, Topology

# Plain TCP beside the collective library: what Horovod recommends where it is started without `horovodrun`.
_TRANSPORT = ("--mca", "pml", "ob1", "--mca", "btl", "^openib")


class Horovod:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        if topology.starter == "srun":
            return launched(topology, srun(topology), argv, {}, {})
        by_mpi = topology.starter == "mpirun"
        words = [*mpirun(topology)[:-1], *_TRANSPORT, RANK] if by_mpi else horovodrun(topology)
        return launched(topology, words, argv, dict(AS_ROOT), {HOSTFILE: hosts_text(topology)})


def horovodrun(topology: Topology) -> list[str]:
    """Its documented form. Which of Gloo and MPI carries the ranks is Horovod's choice, or the site's (`--gloo`)."""
    words = ["horovodrun", "-np", str(topology.world), "-hostfile", f"%DIR%/{HOSTFILE}"]
    if topology.interface and len(topology.hosts) > 1 and "--network-interface" not in topology.options:
        words += ["--network-interface", topology.interface]
    return [*words, *topology.options, RANK]
