"""Memory and files that Open MPI shares between the ranks of a node: in folders of the attempt's own.

By itself it puts them straight into /dev/shm and /tmp, where a killed launcher leaves them for good.
"""

from __future__ import annotations

import fcntl
import os

from trainmark.agent.nodeplan import ELSEWHERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping

_MEMORY = "/dev/shm"  # noqa: S108
_SESSION = "session"
_HELD: list[int] = []


def twin(spool: str) -> str:
    """The folder for shared memory that belongs to a spool outside the attempt's folder, and goes with it."""
    return os.path.join(_MEMORY, os.path.basename(spool))


def furnish(spool: str, env: MutableMapping[str, str]) -> None:
    """Makes the folders, and tells Open MPI of them unless the user has told it of others. They are called the same on
    every node, as the spool is."""
    session = os.path.join(spool, _SESSION)
    os.makedirs(session, exist_ok=True)
    env.setdefault("OMPI_MCA_orte_tmpdir_base", session)
    _clear_stale()
    try:
        os.mkdir(twin(spool), 0o700)
        _hold(twin(spool))
    except OSError:
        return  # Open MPI finds another place where this one cannot be written to
    env.setdefault("OMPI_MCA_btl_vader_backing_directory", twin(spool))


def _hold(path: str) -> None:
    """For as long as this process lives, nobody takes the folder for a left one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _HELD.append(descriptor)


def _clear_stale() -> None:
    """Removes what is left of attempts whose agent was killed, and that nobody has come back to."""
    try:
        names = [name for name in os.listdir(_MEMORY) if name.startswith(ELSEWHERE)]
    except OSError:
        return
    for name in names:
        path = os.path.join(_MEMORY, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # another account's, or just removed
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # it is in use
        finally:
            os.close(descriptor)
