"""Optuna's journal storage on a file that all workers see, made ready for many workers and full disks."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

from trainmark.errors import SiteError

# Nobody holds the lock for longer than a write takes: after this time its owner is gone.
GRACE_SECONDS = 30.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.032


def journal_storage(path: Path) -> JournalStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    return JournalStorage(_File(str(path), _Lock(str(path))))


class _File(JournalFileBackend):
    """As Optuna's, but the disk is waited for after the lock was given back, so that many writers wait for it together.
    The file only grows: what a loss of power takes is its end, for all readers alike."""

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with open(self._file_path, "ab") as file:
            self._lock.acquire()
            try:
                file.write(lines.encode())
                file.flush()
                # Closing a copy makes NFS send what was written while others still wait.
                os.close(os.dup(file.fileno()))
            finally:
                self._lock.release()
            os.fsync(file.fileno())

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        try:
            yield from super().read_logs(log_number_from)
        except ValueError as error:
            raise SiteError(f"{self._file_path}: is damaged and cannot be read any further: {error}") from None


class _Lock(JournalFileOpenLock):
    """Optuna's lock for NFS from version 3 on: a file that only one worker can create.

    Two things differ. Optuna doubles its pause after each failure, up to a second, so that with 64 workers the file is
    idle most of the time; here pauses stay short. And half a line at the end of the journal, left by a writer that died
    or found the disk full, is removed: Optuna would append to it and could not read the result.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._journal, self._file = path, f"{path}.lock"

    def acquire(self) -> bool:
        since, seen, pause = time.monotonic(), None, _SHORTEST_PAUSE
        while True:
            try:
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                break
            except FileExistsError:
                holder = self._holder()
                if holder != seen:
                    since, seen = time.monotonic(), holder
                elif time.monotonic() - since > GRACE_SECONDS:
                    self.release()
                time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
                pause = min(2 * pause, _LONGEST_PAUSE)
        _remove_half_line(self._journal)
        return True

    def release(self) -> None:
        # It is missing when another worker took us for gone.
        with contextlib.suppress(RuntimeError):
            super().release()

    def _holder(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns


def _remove_half_line(path: str) -> None:
    """Nobody has read it: readers wait for the end of a line."""
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read() in (b"", b"\n"):
            return
        file.seek(0)
        file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
