"""Two programs that a command finds on its PATH: `ssh` to other nodes, and `trainmark-rank`, which starts a rank."""

from __future__ import annotations

import os
import socket
import sys
from typing import Mapping

from trainmark.agent.events.spools import spool_file
from trainmark.agent.files import read_json, write_all
from trainmark.agent.mpi.head import HEAD
from trainmark.agent.mpi.messages import Connection, ConnectionLost
from trainmark.agent.mpi.node_setup import RANK_FILE
from trainmark.agent.private import is_ours
from trainmark.agent.ranks import make_rank_folder

# The variables in which launchers give the rank, the local rank and how many there are.
_NAMES = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "HOROVOD_RANK", "SLURM_PROCID"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "HOROVOD_LOCAL_RANK", "SLURM_LOCALID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "HOROVOD_SIZE", "SLURM_NTASKS"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "HOROVOD_LOCAL_SIZE"),
}
# Options of ssh that are followed by a value.
_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"
_REFUSED, _NOT_FOUND = 255, 127


def torchrun_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of torchrun, from those of the launcher that started this process."""
    found = {}
    for name, others in _NAMES.items():
        values = [env[other] for other in others if env.get(other, "").isdigit()]
        if values:
            found[name] = values[0]
    return found


def rank(*_: str) -> int:
    """Becomes the program of the case, as the rank that its launcher says it is."""
    env = dict(os.environ)
    spool = env.pop("TRAINMARK_SPOOLS", "")
    # What it names is run here: only if this account alone can have written it.
    here = read_json(os.path.join(spool, RANK_FILE)) if is_ours(spool) else None
    if not isinstance(here, dict):
        return _refuse("no agent of this attempt on %s: %s is not there" % (os.uname().nodename, spool or "its spool"))
    known = torchrun_variables(env)
    if "RANK" not in known:
        return _refuse("no launcher has told this process which rank it is (%s)" % ", ".join(_NAMES["RANK"]))
    number = int(known["RANK"])
    env.update(known)
    env.pop(HEAD, None)
    env["TRAINMARK_RANK"], env["TRAINMARK_CONFIG"] = str(number), here["config"]
    env["TRAINMARK_SPOOL"] = spool_file(spool, number)
    if here["path"]:
        env["PYTHONPATH"] = here["path"]
    _register(spool, number)
    program = here["program"]
    config = read_json(here["config"]) or {}
    os.chdir(make_rank_folder(os.path.dirname(here["config"]), number, config.get("code"), env))
    try:
        os.execvpe(program[0], program, env)  # noqa: S606
    except OSError as error:
        return _refuse("%s: %s" % (program[0], error.strerror))


def _register(spool: str, number: int) -> None:
    descriptor = os.open(os.path.join(spool, "hello"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    write_all(descriptor, b"started %d\n" % number)
    os.close(descriptor)


def ssh(*words: str) -> int:
    """`ssh [options] HOST COMMAND…` through the head; returns the command's exit code, as ssh does."""
    host, command = parse(list(words))
    if not host or not command:
        return _refuse("this ssh leads to the nodes of a case and needs a command to run there")
    parent = os.getppid()
    connection = Connection(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        connection.socket.connect("\0" + os.environ.get(HEAD, ""))
        connection.send({"op": "run", "host": host, "command": command})
        while True:
            for header, payload in connection.read():
                if header["op"] == "output":
                    write_all(int(header["value"]), payload)
                elif header["op"] == "exit":
                    return int(header["value"])
                elif header["op"] == "here":
                    os.execv("/bin/sh", ["sh", "-c", command])  # noqa: S606
                else:
                    return _refuse(str(header.get("why")))
    except (ConnectionLost, OSError) as error:
        # A parent that ended without waiting does not want the error message.
        return _refuse("%s: %s" % (host, error)) if os.getppid() == parent else _REFUSED


def parse(words: list[str]) -> tuple[str, str]:
    """Host and command; the options of ssh are ignored."""
    rest = list(words)
    host = ""
    while rest and (rest[0].startswith("-") or not host):
        word = rest.pop(0)
        if not word.startswith("-"):
            host = word.rpartition("@")[2]
        elif word == "--":
            host = host or (rest.pop(0).rpartition("@")[2] if rest else "")
            break
        elif len(word) == 2 and word[1] in _WITH_VALUE and rest:
            rest.pop(0)
    return host, " ".join(rest)


def _refuse(text: str) -> int:
    sys.stderr.write("trainmark: %s\n" % text)
    return _REFUSED
