"""The file of a journal: lines of JSON that all workers append to, in Optuna's format.

Three things differ from Optuna's own. Only what is new is read, at once. The disk is waited for after the lock was
given back, so that many who write wait for it together. And half a line, left by somebody for whom the disk was full,
is cut off before the next is written, instead of spoiling that one and with it the file.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import msgspec

from trainmark.automl.ledger.lock import Lock
from trainmark.errors import SiteError

_STEP = 1 << 16


class JournalFile:
    """Takes the place of Optuna's `JournalFileBackend`."""

    def __init__(self, path: str) -> None:
        self._path, self.lock = path, Lock(path)
        # How many lines were read, and how many bytes they have.
        self._lines, self._bytes = 0, 0
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o666))

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """All lines from that one on. What ends without a line break is not yet written, or never will be."""
        if log_number_from < self._lines:
            self._lines = self._bytes = 0
        # Opened each time: that is when NFS asks for what others have written.
        with open(self._path, "rb", buffering=0) as file:
            file.seek(self._bytes)
            data = file.readall()
        *lines, rest = data.split(b"\n")
        numbered = enumerate(lines, self._lines)
        logs = [self._decode(line, number) for number, line in numbered if number >= log_number_from]
        self._lines, self._bytes = self._lines + len(lines), self._bytes + len(data) - len(rest)
        return logs

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with self.locked() as write:
            write(logs)

    @contextlib.contextmanager
    def locked(self) -> Iterator[Any]:
        """Nobody else writes within. Gives a function that appends; what it wrote is on disk at the end."""
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            self.lock.acquire()
            written: list[int] = []
            try:
                yield lambda logs: written.append(_append(file, logs))
            finally:
                self.lock.release()
            if written:
                self.lock.settle(file, written[-1])
        finally:
            os.close(file)

    def _decode(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError:
                # Python writes numbers that are none in its own way.
                found = json.loads(line)
            if isinstance(found, dict):
                return found
        except ValueError:
            pass
        raise SiteError(f"{self._path}: line {number + 1} is damaged; this ledger cannot be read any further")


def _append(file: int, logs: list[dict[str, Any]]) -> int:
    lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
    _cut(file)
    done = 0
    while done < len(lines):
        done += os.write(file, lines[done:])
    # Closing a copy makes NFS send what was written, while others still wait.
    os.close(os.dup(file))
    return os.fstat(file).st_size


def _cut(file: int) -> None:
    """Removes half a line at the end, which nobody has read. Whole lines stay: somebody may have."""
    size = end = os.fstat(file).st_size
    while end and os.pread(file, 1, end - 1) != b"\n":
        begin = max(0, end - _STEP)
        end = begin + os.pread(file, end - begin, begin).rfind(b"\n") + 1
    if end < size:
        os.ftruncate(file, end)
