"""Writing small files so that a crash at any moment leaves the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError


def write_json(path: Path, value: Any, *, durable: bool = False, mode: int = 0o644) -> None:
    write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n", durable=durable, mode=mode)


def write_whole(path: Path, data: bytes, *, durable: bool = False, mode: int = 0o644) -> None:
    """`data` in `path`, at once or not at all; `durable` waits for the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        write_all(handle, data)
        if durable:
            os.fsync(handle)
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def make_folders(folder: Path) -> None:
    """A new folder, and those above it that are missing; no other account can write to any, whatever the umask."""
    for above in reversed(folder.parents):
        if not above.is_dir():
            with contextlib.suppress(FileExistsError):  # made by another thread at this moment
                above.mkdir(0o755)
    folder.mkdir(0o755)


def write_named(path: Path, data: bytes) -> None:
    """`data` in the file that a user named with `-o`. A pipe, device or terminal is written to, never replaced."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            write_whole(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise UserError(f"--output {path}: cannot be written: {error.strerror}; name another file with -o") from None


def read_json(path: Path) -> Any:
    """The JSON in `path`, or None when it is not there or not whole."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def write_all(handle: int, data: bytes) -> None:
    """os.write may write less than asked near a full disk."""
    while data:
        data = data[os.write(handle, data) :]
