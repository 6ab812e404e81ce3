"""The command line of the agent: one verb per task of a node. Each imports only what it needs."""

from __future__ import annotations

import sys

from trainmark.agent.files import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_USAGE = """usage: agent run NODEPLAN.json           do what the plan says, write result.json into its folder
       agent sweep TOKEN                 kill whatever an attempt left behind
       agent complete DIR                ship events that a killed agent left in its spool into events.jsonl
       agent facts                       print what is known of this host
       agent selftest                    try each kind of containment on this host
       agent shared-folder DIR TOKEN     check that DIR is the folder in which another host holds the token's lock
       agent relay WORK                  serve a controller on standard input and output, with files in WORK
       agent slurm-job DIR               the batch job of a Slurm allocation: starts a step for each order in DIR
       agent slurm-step ORDER NODES      one node of such a step
       agent slurm-cleanup ORDER NODES   clean up after a step that was killed
       agent mpi-head, mpi-member …      the nodes of a command that starts ranks on all of them (mpirun, srun)
       agent mpi-ssh, mpi-rank …         the programs such a command finds on its PATH
"""


def _run(path: str) -> int:
    from trainmark.agent.attempt import run

    return run(path)


def _sweep(token: str) -> int:
    from trainmark.agent.contain.sweep import sweep

    return _print(sweep(token))


def _complete(folder: str) -> int:
    from trainmark.agent.events.shipper import complete

    return _print({"completed": complete(folder)})


def _facts() -> int:
    from trainmark.devices.cpu.node import detect

    return _print(detect())


def _selftest() -> int:
    from trainmark.agent.contain.selftest import selftest

    report = selftest()
    return _print(report) or int(not report["ok"])


def _shared_folder(folder: str, token: str) -> int:
    from trainmark.agent.relay.check import SharedFolder

    return _print({"why": SharedFolder(folder, token).step("look")})


def _relay(work: str) -> int:
    from trainmark.agent.relay.main import serve

    return serve(work)


def _slurm_job(folder: str) -> int:
    from trainmark.agent.slurm.batch_job import batch_job

    return batch_job(folder)


def _slurm_step(order: str, nodes: str) -> int:
    from trainmark.agent.slurm.step import run_step

    return run_step(order, nodes)


def _slurm_cleanup(order: str, nodes: str) -> int:
    from trainmark.agent.slurm.step import clean_up

    return clean_up(order, nodes)


def _mpi_head(*words: str) -> int:
    from trainmark.agent.mpi.head import head

    return head(list(words), sys.argv[0])


def _mpi_member(*words: str) -> int:
    from trainmark.agent.mpi.member import member

    return member(list(words), sys.argv[0])


def _mpi_ssh(*words: str) -> int:
    from trainmark.agent.mpi.wrappers import ssh

    return ssh(list(words))


def _mpi_rank(*words: str) -> int:  # noqa: ARG001 - a launcher may add some
    from trainmark.agent.mpi.wrappers import rank

    return rank()


def _print(value: Any) -> int:
    sys.stdout.write(to_json(value) + "\n")
    return 0


# verb → function, fewest and most arguments
_VERBS: dict[str, tuple[Callable[..., int], int, int]] = {
    "run": (_run, 1, 1),
    "sweep": (_sweep, 1, 1),
    "complete": (_complete, 1, 1),
    "facts": (_facts, 0, 0),
    "selftest": (_selftest, 0, 0),
    "shared-folder": (_shared_folder, 2, 2),
    "relay": (_relay, 1, 1),
    "slurm-job": (_slurm_job, 1, 1),
    "slurm-step": (_slurm_step, 2, 2),
    "slurm-cleanup": (_slurm_cleanup, 2, 2),
    "mpi-head": (_mpi_head, 4, sys.maxsize),
    "mpi-member": (_mpi_member, 4, sys.maxsize),
    "mpi-ssh": (_mpi_ssh, 0, sys.maxsize),
    "mpi-rank": (_mpi_rank, 0, sys.maxsize),
}


def main(argv: list[str]) -> int:
    """Runs one verb; returns the exit code."""
    verb, arguments = (argv[0], argv[1:]) if argv else ("", [])
    if verb in _VERBS:
        function, fewest, most = _VERBS[verb]
        if fewest <= len(arguments) <= most:
            return function(*arguments)
    sys.stderr.write(_USAGE)
    return 2


def entry() -> None:
    """For `__main__`."""
    sys.exit(main(sys.argv[1:]))
