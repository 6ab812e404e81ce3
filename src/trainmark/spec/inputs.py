"""Files and paths that users name: read within stated limits, and nothing that would never end."""

from __future__ import annotations

import os
import select
import stat
import time
from pathlib import Path

from trainmark.errors import UserError

# Stated in docs/security.md. 100,000 host names are two of these megabytes.
MOST_BYTES = 8 << 20
_CHUNK = 1 << 16
# For what comes through a pipe (`trainmark run <(program)`): its writer has this long.
_PIPE_SECONDS = 30.0


def read(path: Path) -> bytes:
    """The content of a file, or of a pipe that somebody writes to; UserError names the place and what is wrong."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{shown(path)}: no name of a file has a NUL in it") from None
    try:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise UserError(f"{path}: cannot be read: Is a directory")
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            raise UserError(f"{path}: neither a file nor a pipe; name a file")
        return _all(handle, path, waits=stat.S_ISFIFO(kind))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)


def _all(handle: int, path: Path, waits: bool) -> bytes:
    parts: list[bytes] = []
    size, deadline = 0, time.monotonic() + _PIPE_SECONDS
    while True:
        if waits and not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise UserError(f"{path}: nothing more came through this pipe within {_PIPE_SECONDS:g} s")
        part = os.read(handle, _CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise UserError(f"{path}: larger than {MOST_BYTES >> 20} MiB, which no such file is; name another one")


def read_text(path: Path) -> str:
    try:
        return read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def expanded(name: str, place: str) -> Path:
    """A path with `~` and `~user` spelled out."""
    if "\0" in name:
        raise UserError(f"{place}: found {shown(name)}, and no path has a NUL in it")
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UserError(f"{place}: found {name!r}, and there is no such user here") from None


def is_folder(path: Path) -> bool:
    """Also for names that cannot be any."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def shown(value: object, most: int = 80) -> str:
    """A value for a message: in quotes, and not longer than a line."""
    text = repr(str(value))
    return text if len(text) <= most else f"{text[:most]}… ({len(str(value))} characters)"
