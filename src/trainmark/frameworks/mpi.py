"""MPI programs: `mpirun` on the first node with a host file; under Slurm a second step, `srun --mpi=pmix --overlap`."""

from __future__ import annotations

from trainmark.frameworks.launched import RANK, launched, unless_given
from trainmark.frameworks.protocol import Start, Topology
from trainmark.frameworks.ranktable import hostfile

HOSTFILE = "hostfile"
# mpirun refuses root, which is the usual account in containers and in labs; who may be root is not its affair.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Mpi:
    def start(self, topology: Topology, argv: tuple[str, ...]) -> Start:
        if topology.starter == "srun":
            return launched(topology, srun(topology), argv, {}, {})
        return launched(topology, mpirun(topology), argv, dict(AS_ROOT), {HOSTFILE: hosts_text(topology)})


def hosts_text(topology: Topology) -> str:
    """One node needs no name service."""
    names = topology.hosts if len(topology.hosts) > 1 else ("localhost",)
    return hostfile(names, topology.nproc)


def mpirun(topology: Topology) -> list[str]:
    """Open MPI's command line. Ranks go to nodes in the order of the host file; where on a node is not settled here."""
    given = topology.options
    words = ["mpirun", "-np", str(topology.world), "--hostfile", f"%DIR%/{HOSTFILE}"]
    words += unless_given(given, "--map-by", f"ppr:{topology.nproc}:node")
    words += unless_given(given, "--bind-to", "none")
    # Every node is reached from here, by the `ssh` on PATH; daemons stay below whoever started them.
    words += ["--mca", "plm_rsh_agent", "ssh", "--mca", "plm_rsh_no_tree_spawn", "1", "--leave-session-attached"]
    if topology.interface and len(topology.hosts) > 1:
        for name in ("btl_tcp_if_include", "oob_tcp_if_include"):
            words += [] if name in given else ["--mca", name, topology.interface]
    return [*words, *given, RANK]


def srun(topology: Topology) -> list[str]:
    """A step beside the agents' own, on the same nodes."""
    count = len(topology.hosts)
    words = ["srun", *unless_given(topology.options, "--mpi=pmix"), "--overlap", f"--nodes={count}"]
    words += ["--nodelist", ",".join(topology.hosts)]
    words += [f"--ntasks={topology.world}", f"--ntasks-per-node={topology.nproc}", "--distribution=block"]
    words += ["--cpu-bind=none", "--kill-on-bad-exit=1", "--input=none", "--export=ALL"]
    return [*words, *topology.options, RANK]
