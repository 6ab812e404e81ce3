"""Kills what an attempt left when its agent and its guardian were both killed."""

from __future__ import annotations

import os
import time

from trainmark.agent.contain import cgroup
from trainmark.agent.linux import Proc

_SECONDS = 5.0


def sweep(token: str, proc: Proc | None = None) -> dict[str, int]:
    """Kills every process that carries the token, and the token's cgroup. Returns how many were killed and left.

    `proc`: the host's /proc, for an agent that has mounted another one over it."""
    proc = proc or Proc()
    killed: set[int] = set()
    deadline = time.monotonic() + _SECONDS
    folders = _cgroups(token, proc)
    while True:
        for folder in folders:
            killed.update(_members(folder))
            cgroup.end(folder)
        found = proc.with_token(token)
        proc.destroy(found)
        killed.update(found)
        folders = [folder for folder in folders if not _removed(folder)]
        if not found and not folders:
            return {"killed": len(killed), "left": 0}
        if time.monotonic() > deadline:
            return {"killed": len(killed), "left": len(found) + sum(map(cgroup.members, folders))}
        time.sleep(0.02)


def _cgroups(token: str, proc: Proc) -> list[str]:
    """The token's folders in the version 2 hierarchy, wherever the agent ran."""
    mounted = cgroup.mount_point(proc.read("self/mountinfo"))
    found = []
    for folder, _, _ in os.walk(mounted[0]) if mounted else ():
        if os.path.basename(folder) == cgroup.prefix(token):
            found.append(folder)
    return found


def _members(folder: str) -> list[int]:
    with open(os.path.join(folder, "cgroup.procs"), "rb") as file:
        return [int(pid) for pid in file.read().split()]


def _removed(folder: str) -> bool:
    if cgroup.populated(folder):
        return False
    cgroup.remove(folder)
    return True
