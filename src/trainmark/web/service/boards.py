"""TensorBoard on the logs of jobs that have ended: one contained process for each, ended when nobody looks any more.

Logs are a job's own files, and TensorBoard opens what they name. So it sees a file system of its own, with the logs,
Python, and nothing else; it has no network, and no rights (`board_cell.py`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from trainmark.web.service.errors import Conflict, NotFound
from trainmark.web.service.files import folder_below

_MOST = 8
_IDLE_SECONDS = 900.0
_CONNECT_SECONDS = 60.0


class _Board:
    """The socket is made here and handed to the process, which sees no folder that it could put another into."""

    def __init__(self, folder: Path, name: str, top: Path, logs: list[str]) -> None:
        self.used = time.monotonic()
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = name
        # By the descriptor of its folder: a socket's path has at most 107 bytes.
        self._path = f"/proc/self/fd/{self._folder}/{name}"
        with_socket = socket.socket(socket.AF_UNIX)
        try:
            self._remove()
            with_socket.bind(self._path)
            with_socket.listen(64)
            argv = [sys.executable, "-P", "-m", "trainmark.web.service.board_cell", str(with_socket.fileno())]
            argv += [str(folder), str(top), *logs]
            self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed with the board
            said, handed = self._said, (with_socket.fileno(),)
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=said, stderr=said, pass_fds=handed, cwd="/"
            )
        except BaseException:
            self._remove()
            os.close(self._folder)
            raise
        finally:
            with_socket.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def connect(self) -> socket.socket:
        self.used = time.monotonic()
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(_CONNECT_SECONDS)
            made.connect(self._path)
            return made
        except OSError:
            made.close()
            raise Conflict(self.why()) from None

    def why(self) -> str:
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read().decode(errors="replace").splitlines() if line.strip()]
        said = lines[-1][-300:] if lines else "it does not answer"
        if "No module named" in said:
            return "tensorboard: it is not installed in the server's own Python; `pip install tensorboard` there"
        return f"tensorboard: {said}"

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()
        self._remove()
        os.close(self._folder)

    def _remove(self) -> None:
        try:
            os.unlink(self._name, dir_fd=self._folder)
        except FileNotFoundError:
            pass


class Boards:
    """`folder`: private, of this server alone; what an earlier one left there is removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._boards: dict[str, _Board] = {}

    def connect(self, job: str, top: Path, logs: list[str]) -> socket.socket:
        """To the board of a job whose logs are the folder `logs` below `top`; started if need be."""
        with self._lock:
            found = self._boards.get(job)
            if found is not None and not found.alive:
                why = found.why()
                self._boards.pop(job).close()
                raise Conflict(why)
            if found is None:
                self._make_room()
                found = self._boards[job] = _Board(self._folder, job, top, logs)
        return found.connect()

    def _make_room(self) -> None:
        """The one that was not used for longest makes way."""
        while len(self._boards) >= _MOST:
            oldest = min(self._boards, key=lambda job: self._boards[job].used)
            self._boards.pop(oldest).close()

    def stop(self, job: str) -> None:
        with self._lock:
            found = self._boards.pop(job, None)
        if found is not None:
            found.close()

    def tidy(self) -> None:
        with self._lock:
            for job, one in list(self._boards.items()):
                if not one.alive or time.monotonic() - one.used > _IDLE_SECONDS:
                    self._boards.pop(job).close()

    def close(self) -> None:
        for job in list(self._boards):
            self.stop(job)


def has_logs(top: Path, logs: list[str]) -> bool:
    """Whether anything lies in that folder."""
    try:
        with folder_below(top, logs) as handle, os.scandir(handle) as found:
            return next(iter(found), None) is not None
    except (NotFound, OSError):
        return False
