"""Other attempts on this host at the same time: each has a locked file, and appends its name to the files it finds.

Nothing has to be polled during the round: an attempt that started later has added its name by the time it ends.
"""

from __future__ import annotations

import fcntl
import os

from trainmark.agent import private
from trainmark.agent.reasons import Reason, reason


class OtherAttempts:
    """`folder` is shared by all agents of one account on a host, containers included."""

    def __init__(self, folder: str, host: str, token: str) -> None:
        self._folder = folder
        self._prefix = host + "."
        self._path = os.path.join(folder, self._prefix + token)
        self._name = token[:8]
        self._fd = -1
        self._found: set[str] = set()

    def enter(self) -> None:
        """A folder that cannot be used means only that other attempts are not noticed."""
        try:
            private.keep_folder(self._folder)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            path = os.path.join(self._folder, name)
            if name.startswith(self._prefix) and path != self._path:
                self._note(path, name[len(self._prefix) :])

    def _note(self, path: str, token: str) -> None:
        try:
            other = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return  # it has just ended
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)  # not locked: its agent was killed
        except OSError:
            os.write(other, (self._name + "\n").encode())
            self._found.add(token[:8])
        finally:
            os.close(other)

    def leave(self) -> list[Reason]:
        """Why the round is disturbed; empty when it was alone."""
        if self._fd < 0:
            return []
        try:
            self._found.update(os.pread(self._fd, 65536, 0).decode(errors="replace").split())
            os.unlink(self._path)
            os.close(self._fd)
        except OSError:
            pass
        self._fd = -1
        count = len(self._found)
        if count == 1:
            return [reason("other-attempt-on-host")]
        return [reason("other-attempts-on-host", count=count)] if count else []
