"""Spools: the folders in which ranks write events, one file per rank.

A spool outside the attempt's folder is locked while its agent lives. A host that is switched off, or an agent that is
killed together with its guardian, leaves one that no controller knows of: the next agent on the node clears it.
"""

from __future__ import annotations

import fcntl
import os
from typing import Iterable, Iterator

from trainmark.agent import private
from trainmark.agent.files import read_json, replace_json
from trainmark.agent.node_plan import SPOOL_PREFIX
from trainmark.agent.reasons import ReasonedError, reason

SPOOL = "spool"
OWNER = "owner.json"
TEMPORARY = "/tmp"  # noqa: S108 - where spools are unless a node has another place
SHARED_MEMORY = "/dev/shm"  # noqa: S108
_LOCKS: list[int] = []  # descriptors, open until the process ends


def spool_file(spool: str, rank: int) -> str:
    return os.path.join(spool, "rank%d.jsonl" % rank)


class SpoolTaken(ReasonedError):
    """Something stands where the spool was to be made."""


def make_spool(folder: str, spool: str, token: str) -> None:
    """A spool elsewhere is linked from the folder, so that `complete` finds it."""
    link = os.path.join(folder, SPOOL)
    if os.path.abspath(spool) == link:
        os.makedirs(spool, exist_ok=True)
        return
    os.makedirs(os.path.dirname(spool), 0o700, exist_ok=True)
    try:
        private.make_folder(spool)
    except FileExistsError:  # nobody else knows this name before it is made
        raise SpoolTaken(reason("spool-taken", path=spool)) from None
    claim_spool(spool, folder, token)
    os.symlink(os.path.abspath(spool), link)


def remove_spool(folder: str) -> None:
    """Removes what can be removed; ranks may have left anything there. No link is followed but our own."""
    path = os.path.join(folder, SPOOL)
    if not os.path.islink(path):
        _remove_folder(path)
        return
    spool = os.path.realpath(path)
    if os.path.basename(spool).startswith(SPOOL_PREFIX):
        remove_external_spool(spool)
    _remove(path)


def remove_external_spool(spool: str) -> None:
    _remove_folder(spool)
    _remove_folder(shared_memory_folder(spool))


def _remove_folder(path: str) -> None:
    try:
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
        os.rmdir(path)
    except OSError:
        pass  # gone already, or something in it cannot be removed


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except IsADirectoryError:
        import shutil  # follows no links; folders are rare here

        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass


def ranks_in(spool: str) -> list[int]:
    """The ranks that have a spool file."""
    names = [name[4:-6] for name in os.listdir(spool) if name.startswith("rank") and name.endswith(".jsonl")]
    return sorted(int(number) for number in names if number.isdigit() and len(number) < 10)


def shared_memory_folder(spool: str) -> str:
    """The folder for shared memory that belongs to a spool outside the attempt's folder, and is removed with it."""
    return os.path.join(SHARED_MEMORY, os.path.basename(spool))


def claim_spool(spool: str, folder: str, token: str) -> None:
    """Locks the spool and writes down which attempt it belongs to. In this order: a spool without an owner is left
    alone, and one with an owner is locked while its agent lives."""
    try:
        lock_folder(spool)
    except OSError:
        pass  # a file system without locks: no other agent gets one either, so none clears it
    replace_json(os.path.join(spool, OWNER), {"dir": folder, "token": token})


def lock_folder(path: str) -> None:
    """Holds a lock for as long as this process or one that it forks lives."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        os.close(descriptor)
        raise
    _LOCKS.append(descriptor)


def unlocked_folders(root: str) -> Iterator[str]:
    """Folders of this account's attempts that no process has locked; each is locked while the caller has it."""
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        if not name.startswith(SPOOL_PREFIX) or not name[len(SPOOL_PREFIX) :].isalnum():
            continue
        path = os.path.join(root, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # another account's, or just removed
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path
        except OSError:
            pass  # it is in use
        finally:
            os.close(descriptor)


def clear_stale(roots: Iterable[str], folder: str) -> list[str]:
    """Removes the spools of dead agents below `roots` after shipping their events. `folder` is the calling agent's own.
    Returns the spools that were removed."""
    cleared = []
    for root in roots:
        for spool in unlocked_folders(root):
            try:
                _clear_one(spool, folder)
            except OSError:
                continue  # a full disk, for example: the next agent tries again
            if not os.path.exists(spool):
                cleared.append(spool)
    return cleared


def _clear_one(spool: str, folder: str) -> None:
    """Its agent and its guardian are dead; its ranks are killed first."""
    from trainmark.agent.contain.sweep import sweep
    from trainmark.agent.events.shipper import complete

    owner = read_json(os.path.join(spool, OWNER))
    home = owner.get("dir") if isinstance(owner, dict) else None
    if not isinstance(home, str):
        return
    token = owner.get("token") or os.path.basename(spool)[len(SPOOL_PREFIX) :]  # older agents used it as the name
    if sweep(str(token))["left"]:
        return
    if os.path.realpath(os.path.join(home, SPOOL)) == os.path.realpath(spool):
        complete(home)
    elif not ranks_in(spool) or _deleted(home, folder):
        remove_external_spool(spool)


def _deleted(home: str, folder: str) -> bool:
    """Whether `home` was deleted, rather than being on a disk that is not mounted now: the part of its path that exists
    also leads to `folder`, on the same disk."""
    above = home
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if above in (home, os.sep) or not folder.startswith(above + os.sep):
        return False
    return os.stat(above).st_dev == os.stat(folder).st_dev
