"""Writing small files so that a crash at any moment leaves the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trainmark.agent.events.reader import open_plain
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


class Damaged(UserError):
    """A file of a run that is there and cannot be read as what it is. The cure is a copy of the file, or doing without
    the run; other runs are not concerned."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: broken: {why}; restore it from a copy, or leave this run out")
        self.path, self.why = path, why


# What the content of a damaged file makes decoders and those who use its values raise.
BROKEN = (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
# No file that is read whole comes near it.
MOST_BYTES = 1 << 30
T = TypeVar("T")


def read_bytes(path: Path) -> bytes:
    """A whole plain file; OSError for anything else: a pipe in its place would be waited for."""
    handle = open_plain(str(path))
    with open(handle, "rb") as file:
        if os.fstat(handle).st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, "larger than any such file can be", str(path))
        return file.read()


def decode(path: Path, kind: type[T]) -> T:
    """The record in a JSON file of ours. FileNotFoundError when there is none; Damaged for whatever else is wrong."""
    try:
        return msgspec.json.decode(read_bytes(path), type=kind)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except BROKEN as error:
        raise Damaged(path, str(error) or type(error).__name__) from None


def decode_line(data: bytes) -> Any:
    """The value in one line of JSON, or None."""
    try:
        return msgspec.json.decode(data)
    except BROKEN:
        return None


def read_json(path: Path) -> Any:
    """The JSON in `path`, or None when it is not there or not whole."""
    try:
        return decode_line(read_bytes(path))
    except OSError:
        return None


def write_all(handle: int, data: bytes) -> None:
    """os.write may write less than asked near a full disk."""
    while data:
        data = data[os.write(handle, data) :]
