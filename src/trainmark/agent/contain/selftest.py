"""Tries every kind of containment with a real round."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from typing import Any

from trainmark.agent.contain import choose as contain
from trainmark.agent.files import read_json, to_json
from trainmark.agent.linux import Proc

# The rank leaves a child in a session of its own: the containment has to end it.
_RANK = ["/bin/sh", "-c", "setsid sleep 600 </dev/null >/dev/null 2>&1 & exit 0"]


def selftest() -> dict[str, Any]:
    """For each kind: whether it can be used, why not, and how long it took; `ok` when one works and none leaks."""
    kinds = {name: _try(name) for name in contain.KINDS}
    usable = [name for name, found in kinds.items() if found["usable"]]
    clean = all(kinds[name]["left"] == 0 for name in usable)
    return {"ok": bool(usable) and clean, "best": usable[0] if usable else None, "kinds": kinds}


def _try(name: str) -> dict[str, Any]:
    """One kind, in a process of its own: a namespace cannot be left again."""
    folder = tempfile.mkdtemp(prefix="trainmark-selftest-")
    token = os.urandom(8).hex()
    try:
        _child(_plan(folder, token, name))
        result = read_json(os.path.join(folder, "node", "result.json")) or {}
        usable = result.get("state") == "SUCCEEDED"
        left = len(Proc().with_token(token))
        return {
            "usable": usable,
            "why": None if usable else result.get("reason", "the agent gave no result"),
            "left": left,
            "seconds": result.get("duration"),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _plan(folder: str, token: str, kind: str) -> str:
    path = os.path.join(folder, "plan.json")
    plan = {
        "schema": 1,
        "token": token,
        "dir": os.path.join(folder, "node"),
        "ranks": [{"rank": 0, "local_rank": 0, "argv": _RANK}],
        "probe": False,
        "containment": kind,
        "deadlines": {"total": 20.0, "stop": 1.0},
    }
    with open(path, "w") as file:
        file.write(to_json(plan))
    return path


def _child(path: str) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            from trainmark.agent.attempt import run

            run(path)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 40.0
    while time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG)[0] == 0:
        time.sleep(0.01)
