"""Memory and files that Open MPI shares between the ranks of a node: in folders of the attempt's own.

By itself it puts them straight into /dev/shm and /tmp, where a killed launcher leaves them for good.
"""

from __future__ import annotations

import os

from trainmark.agent.stale_spools import hold, unheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping

_MEMORY = "/dev/shm"  # noqa: S108
_SESSION = "session"


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
        hold(twin(spool))
    except OSError:
        return  # Open MPI finds another place where this one cannot be written to
    env.setdefault("OMPI_MCA_btl_vader_backing_directory", twin(spool))


def _clear_stale() -> None:
    """Removes what is left of attempts whose agent was killed, and that nobody has come back to."""
    import shutil

    for path in unheld(_MEMORY):
        shutil.rmtree(path, ignore_errors=True)
