"""Files of an attempt: replaced or appended as a whole, and a reserve of space for when the disk is full."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import Any

# A rank may replace a file by a pipe or a link: neither blocks, and no link is followed.
_CAREFUL = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
RESERVE = "reserve"
_RESERVE_BYTES = 65536
# What is kept of a log that grew too large: how it began, and what came before it last began again.
FIRST_PART, LAST_PART = ".first.log", ".last.log"


def to_json(value: Any) -> str:
    """A value as JSON on one line; numbers that are not finite are refused (ValueError)."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def is_disk_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def part_of(log: str, part: str) -> str:
    """The name of what is kept of a log that grew too large and has begun again."""
    return log[: -len(".log")] + part


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_json(path: str) -> Any:
    """The value in a JSON file, or None when it is missing or not whole."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


def replace_json(path: str, value: Any, durable: bool = False, mode: int = 0o644) -> None:
    """Readers see the old file or the new one, never a part. `durable` waits for the disk."""
    draft = path + ".tmp"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFUL, mode)
        try:
            write_all(descriptor, (to_json(value) + "\n").encode())
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, path)
    except OSError as error:
        _drop(draft)
        raise OSError(error.errno, error.strerror, path) from error
    if durable:
        sync_folder(os.path.dirname(path))


def write_file(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFUL, 0o644)
    try:
        write_all(descriptor, text.encode())
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Makes the names in a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


class Appender:
    """A file that only grows, by whole pieces: a piece that does not fit is taken back."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _CAREFUL, 0o644)

    def append(self, data: bytes) -> None:
        size = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, data)
        except OSError as error:
            os.ftruncate(self._fd, size)
            raise OSError(error.errno, error.strerror, self.path) from error

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class Log:
    """agent.log: what the agent did and saw. Opened at the first line; a full disk does not stop it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def line(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime())
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _CAREFUL, 0o644)
            try:
                os.write(descriptor, (stamp + text + "\n").encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
        except OSError:
            pass


def make_reserve(folder: str) -> None:
    """Sets space aside so that a full disk can still be named in the result."""
    path = os.path.join(folder, RESERVE)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, _RESERVE_BYTES)
    except OSError as error:
        if is_disk_full(error):
            raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)


def drop_reserve(folder: str) -> None:
    _drop(os.path.join(folder, RESERVE))
