"""Prepares a node for ranks that a command starts: the programs on its PATH, and folders for Open MPI.

Open MPI would put shared memory and session files straight into /dev/shm and /tmp, where a killed launcher leaves them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import Mapping, MutableMapping

from trainmark.agent.events.spools import SHARED_MEMORY, lock_folder, shared_memory_folder, unlocked_folders
from trainmark.agent.files import read_json, replace_json
from trainmark.agent.node_plan import NODE_PLAN

# In the spool: what `trainmark-rank` reads, and the folder of programs for the command's PATH.
RANK_FILE, BIN = "rank.json", "bin"
_SCRIPTS = {"ssh": "mpi-ssh", "trainmark-rank": "mpi-rank"}
_SESSION = "session"
NO_KEY = "trainmark: the plan of this node has no key, so its other nodes cannot be told from strangers\n"


def prepare_node(program: list[str]) -> dict[str, str]:
    """Writes what ranks on this node need. Returns the environment for the command.

    A launcher may pass the environment of one node to all others, so nothing in it may be true of one node only: the
    spool has the same name everywhere, and its content is each node's own.
    """
    env = dict(os.environ)
    spool, config = env["TRAINMARK_SPOOLS"], env["TRAINMARK_CONFIG"]
    folder = os.path.join(spool, BIN)
    os.makedirs(folder, exist_ok=True)
    python, agent = shlex.quote(sys.executable), shlex.quote(os.path.abspath(sys.argv[0]))
    for name, verb in _SCRIPTS.items():
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write('#!/bin/sh\nexec %s -I -S %s %s "$@"\n' % (python, agent, verb))
        os.chmod(path, 0o700)
    replace_json(os.path.join(spool, RANK_FILE), {"program": program, "config": config, "path": env.get("PYTHONPATH")})
    set_openmpi_folders(spool, env)
    env["PATH"] = folder + os.pathsep + env.get("PATH", os.defpath)
    return env


def attempt_key(env: Mapping[str, str]) -> str:
    """The key of the attempt, from this node's plan: other accounts see neither that file nor this memory, and
    no launcher passes it on with the environment."""
    plan = read_json(os.path.join(os.path.dirname(env["TRAINMARK_CONFIG"]), NODE_PLAN))
    return str(plan.get("key") or "") if isinstance(plan, dict) else ""


def set_openmpi_folders(spool: str, env: MutableMapping[str, str]) -> None:
    """Makes the folders and sets Open MPI's variables unless the user has. The names are the same on every node."""
    session = os.path.join(spool, _SESSION)
    os.makedirs(session, exist_ok=True)
    env.setdefault("OMPI_MCA_orte_tmpdir_base", session)
    _clear_stale()
    try:
        os.mkdir(shared_memory_folder(spool), 0o700)
        lock_folder(shared_memory_folder(spool))
    except OSError:
        return  # not writable: Open MPI uses another folder
    env.setdefault("OMPI_MCA_btl_vader_backing_directory", shared_memory_folder(spool))


def _clear_stale() -> None:
    """Removes what attempts whose agent was killed have left."""
    for path in unlocked_folders(SHARED_MEMORY):
        shutil.rmtree(path, ignore_errors=True)
