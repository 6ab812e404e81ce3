"""The lock of a journal file that many workers write to at once.

Optuna's own waits twice as long after each failure, up to a second, so that with 64 workers the file lies idle most of
the time; this one is tried again after some milliseconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import struct
import tempfile
import time
import uuid
import weakref

# Nobody holds the lock for longer than a write takes: then its owner is gone.
_GONE_SECONDS = 30.0
_SHORT, _LONG = 0.0005, 0.008
# Which file, by device and number, and how many of its bytes are on disk.
_NOTE = struct.Struct("QQQ")


class Lock:
    """A file that must not exist: opening it is atomic, also on NFS from version 3 on. Of the workers on one host only
    one at a time asks for it; the others sleep until the kernel lets them in. Whoever has it may take it again; of
    threads, one at a time must ask."""

    def __init__(self, path: str) -> None:
        self._file = f"{path}.lock"
        name = f"trainmark-{os.getuid()}-{hashlib.sha256(os.path.abspath(path).encode()).hexdigest()[:16]}"
        self._door = os.path.join(tempfile.gettempdir(), name)
        self._inside = -1
        self._depth = 0
        self.leave = weakref.finalize(self, _leave, self._door)

    def acquire(self) -> bool:
        if not self._depth:
            self._enter()
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            # Missing where somebody took it from us.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file)
            os.close(self._inside)

    def settle(self, file: int, size: int) -> None:
        """Returns when the first `size` bytes of the locked file are on disk. Of the workers on one host who wait for
        that, one asks the disk for all; how much is there is noted in a file beside the door."""
        found = os.fstat(file)
        which = struct.pack("QQ", found.st_dev, found.st_ino)
        note = self._open("disk")
        try:
            if _covers(os.pread(note, _NOTE.size, 0), which, size):
                return
            fcntl.flock(note, fcntl.LOCK_EX)
            # Whoever had it before may have asked for us, too.
            if not _covers(os.pread(note, _NOTE.size, 0), which, size):
                there = os.fstat(file).st_size
                os.fsync(file)
                os.pwrite(note, which + struct.pack("Q", there), 0)
        finally:
            os.close(note)  # and with it goes the lock

    def _open(self, kind: str) -> int:
        return os.open(f"{self._door}.{kind}", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def _enter(self) -> None:
        door = self._open("lock")
        fcntl.flock(door, fcntl.LOCK_EX)
        since, seen = time.monotonic(), (0, 0)
        while True:
            try:
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                self._inside = door
                return
            except FileExistsError:
                # Another file each time as long as it changes hands.
                now = self._which()
                if now != seen:
                    since, seen = time.monotonic(), now
                elif time.monotonic() - since > _GONE_SECONDS:
                    self._break(seen)
                time.sleep(random.uniform(_SHORT, _LONG))  # noqa: S311 - not a secret
            except BaseException:
                os.close(door)
                raise

    def _which(self) -> tuple[int, int]:
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_mtime_ns

    def _break(self, seen: tuple[int, int]) -> None:
        """Takes the lock from whoever is gone; of several who try, one renames it and the others find it missing."""
        if self._which() == seen:
            apart = f"{self._file}.{uuid.uuid4().hex}"
            with contextlib.suppress(FileNotFoundError):
                os.rename(self._file, apart)
                os.unlink(apart)


def _leave(door: str) -> None:
    """Removes the files of this host unless somebody is inside. Whoever comes next makes new ones: they save waiting,
    the lock itself is another file."""
    with contextlib.suppress(OSError):
        held = os.open(f"{door}.lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(f"{door}.lock")
            os.unlink(f"{door}.disk")
        finally:
            os.close(held)


def _covers(note: bytes, which: bytes, size: int) -> bool:
    return note[:-8] == which and size <= _NOTE.unpack(note)[2]
