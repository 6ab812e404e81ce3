"""The command line of the agent: one verb per task of a node. Only the module of the verb is imported."""

from __future__ import annotations

import importlib
import sys

from trainmark.agent.files import to_json

_USAGE = """usage: agent run NODEPLAN.json           do what the plan says, write result.json into its folder
       agent sweep TOKEN                 kill whatever an attempt left behind
       agent selftest                    try each kind of containment on this host
       agent health [DIR …]              what kernel and tools say of this host, and of the file systems of folders
       agent detect [VENDOR …]           which devices there are
       agent watch-devices VENDOR S      readings of a vendor's devices every S seconds, for the agent of a round
       agent exporter ADDRESS PORT DIR … readings for Prometheus, with the rounds of runs in the folders
       agent shared-folder DIR TOKEN     check that DIR is the folder in which another host holds the token's lock
       agent relay WORK                  serve a controller on standard input and output, with files in WORK
       agent slurm-job DIR               the batch job of a Slurm allocation: starts a step for each order in DIR
       agent slurm-step ORDER NODES      one node of such a step
       agent slurm-cleanup ORDER NODES   clean up after a step that was killed
       agent modelarts CODE [--NAME=VALUE …]   a worker of a cloud training job; its folders are in the environment
       agent mpi-head, mpi-member …      the nodes of a command that starts ranks on all of them (mpirun, srun)
       agent mpi-ssh, mpi-rank …         the programs such a command finds on its PATH
       agent worker N [PORT PORT HOST …] a worker of a job that is a command
       agent worker-session FILE         what the sshd of such a worker runs
"""
# verb → where its function is, and how many arguments it takes (None: four or more, -1: any).
# A function returns the exit code, or something that is printed as JSON.
_VERBS: dict[str, tuple[str, str, int | None]] = {
    "run": ("trainmark.agent.attempt", "run", 1),
    "sweep": ("trainmark.agent.contain.sweep", "sweep", 1),
    "selftest": ("trainmark.agent.contain.selftest", "selftest", 0),
    "health": ("trainmark.agent.health.collect", "from_command", -1),
    "detect": ("trainmark.devices.node_side.watch", "detect", -1),
    "watch-devices": ("trainmark.devices.node_side.watch", "watch", -1),
    "exporter": ("trainmark.agent.exporter.serve", "serve", -1),
    "shared-folder": ("trainmark.agent.relay.check", "shared_folder", 2),
    "relay": ("trainmark.agent.relay.main", "serve", 1),
    "slurm-job": ("trainmark.agent.slurm.batch_job", "batch_job", 1),
    "slurm-step": ("trainmark.agent.slurm.step", "run_step", 2),
    "slurm-devices": ("trainmark.agent.slurm.devices", "seen", -1),
    "slurm-cleanup": ("trainmark.agent.slurm.step", "clean_up", 2),
    "modelarts": ("trainmark.agent.modelarts.worker", "worker", -1),
    "mpi-head": ("trainmark.agent.mpi.head", "head", None),
    "mpi-member": ("trainmark.agent.mpi.member", "member", None),
    "mpi-ssh": ("trainmark.agent.mpi.wrappers", "ssh", -1),
    "mpi-rank": ("trainmark.agent.mpi.wrappers", "rank", -1),
    "worker": ("trainmark.agent.workers.worker", "worker", -1),
    "worker-session": ("trainmark.agent.workers.sshd", "session", 1),
}


def main(argv: list[str]) -> int:
    """Runs one verb; returns the exit code."""
    verb, arguments = (argv[0], argv[1:]) if argv else ("", [])
    module, name, count = _VERBS.get(verb, ("", "", 0))
    fits = count in (-1, len(arguments)) or (count is None and len(arguments) > 3)
    if not module or not fits:
        sys.stderr.write(_USAGE)
        return 2
    found = getattr(importlib.import_module(module), name)(*arguments)
    if isinstance(found, int):
        return found
    sys.stdout.write(to_json(found) + "\n")
    return 0 if found.get("ok", True) else 1


def entry() -> None:
    """For `__main__`."""
    sys.exit(main(sys.argv[1:]))
