"""Optuna's journal storage on a file that all workers see, made ready for many workers and full disks."""

from __future__ import annotations

import contextlib
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
_PAUSE_SECONDS = (0.001, 0.02)


def journal_storage(path: Path) -> JournalStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    return JournalStorage(_File(str(path), _Lock(str(path))))


class _File(JournalFileBackend):
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
        since, seen = time.monotonic(), None
        while True:
            try:
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                break
            except FileExistsError:
                if self._identity() != seen:
                    since, seen = time.monotonic(), self._identity()
                elif time.monotonic() - since > GRACE_SECONDS and self._identity() == seen:
                    self.release()
                time.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - not a secret
        _remove_half_line(self._journal)
        return True

    def release(self) -> None:
        # It is missing when another worker took us for gone.
        with contextlib.suppress(RuntimeError):
            super().release()

    def _identity(self) -> tuple[int, int] | None:
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
