"""Spools outside their attempt's folder: held while their agent lives, else cleared by the next agent on the node.

A host that is switched off in mid-round, or an agent that is killed with its guardian, leaves one, and no controller
looks there.
"""

from __future__ import annotations

import fcntl
import os

from trainmark.agent.nodeplan import ELSEWHERE
from trainmark.agent.record import read_json, replace_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Iterator

OWNER = "owner.json"
TEMPORARY = "/tmp"  # noqa: S108 - where spools are unless a node has another place
_HELD: list[int] = []


def own(spool: str, folder: str) -> None:
    """Says whose spool it is, and that somebody lives who will clear it. The lock comes first: without an owner's name
    nobody touches it, and with one it is held."""
    try:
        hold(spool)
    except OSError:
        pass  # a disk without locks: nobody else gets one either, and so nobody clears it
    replace_json(os.path.join(spool, OWNER), {"dir": folder})


def hold(path: str) -> None:
    """For as long as this process or one that it forks lives, nobody takes the folder for a left one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        os.close(descriptor)
        raise
    _HELD.append(descriptor)


def unheld(root: str) -> Iterator[str]:
    """Folders of this account's attempts that nobody holds; held here for as long as the caller looks at one."""
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        if not name.startswith(ELSEWHERE) or not name[len(ELSEWHERE) :].isalnum():
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


def clear(roots: Iterable[str], folder: str) -> list[str]:
    """Clears what dead agents left below `roots`, and keeps what they had not shipped. `folder` is the asking agent's
    own. Returns the spools that are gone now."""
    cleared = []
    for root in roots:
        for spool in unheld(root):
            try:
                _clear(spool, folder)
            except OSError:
                continue  # a full disk, say: the next one may have more luck
            if not os.path.exists(spool):
                cleared.append(spool)
    return cleared


def _clear(spool: str, folder: str) -> None:
    """Its agent and its guardian are gone; so are its ranks when this returns."""
    from trainmark.agent.contain.sweep import sweep
    from trainmark.agent.ship import SPOOL, complete, remove_elsewhere, spoken

    owner = read_json(os.path.join(spool, OWNER))
    home = owner.get("dir") if isinstance(owner, dict) else None
    if not isinstance(home, str) or sweep(os.path.basename(spool)[len(ELSEWHERE) :])["left"]:
        return
    if os.path.realpath(os.path.join(home, SPOOL)) == os.path.realpath(spool):
        complete(home)
    elif not spoken(spool) or _deleted(home, folder):
        remove_elsewhere(spool)


def _deleted(home: str, folder: str) -> bool:
    """Whether `home` is gone for good, and not on a disk that is not mounted here just now: what is left of its path
    leads to `folder`, too, and on the same disk."""
    above = home
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if above in (home, os.sep) or not folder.startswith(above + os.sep):
        return False
    return os.stat(above).st_dev == os.stat(folder).st_dev
