"""Files that users see: those of a job's run, those its command left, and their own. No path leaves its folder.

Every part of a path is opened below the one before it, and no link is followed: what a job leaves in its folder may
point anywhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainmark.store import rundir
from trainmark.web.service.errors import Conflict, NotFound

# Of a run only what tells of results is shown: its other files hold keys of attempts, orders and environments.
_OF_NODE = re.compile(
    r"(rank\d+\.out\.log|agent\.log|facts\.json|result\.json|events\.jsonl|samples\.jsonl|status\.json)"
)
_OF_RUN = (rundir.MANIFEST, rundir.RUN_LOG, "journal.jsonl", "report.html")
_LONGEST_PART, _MOST_PARTS = 255, 16
MOST_LISTED = 5000
PIECE = 1 << 18
# Of one user's own files, in bytes.
QUOTA = 20 << 30


class FileInfo(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    changed: float


def parts_of(path: str) -> list[str]:
    """The parts of a path that was sent; NotFound for one that no file of ours can have."""
    parts = path.strip("/").split("/")
    good = len(parts) <= _MOST_PARTS and all(
        part not in ("", ".", "..")
        and len(part.encode("utf-8", "surrogateescape")) <= _LONGEST_PART
        and _printable(part)
        for part in parts
    )
    if not good:
        raise NotFound("no such file")
    return parts


def _printable(part: str) -> bool:
    return "\0" not in part and part.isprintable()


def open_below(top: Path, path: str) -> int:
    """A descriptor of a plain file below `top`, for reading."""
    with folder_below(top, parts_of(path)[:-1]) as folder:
        try:
            handle = os.open(
                parts_of(path)[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder
            )
        except OSError:
            raise NotFound("no such file") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotFound("no such file")
    return handle


@contextlib.contextmanager
def folder_below(top: Path, parts: list[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder below `top`."""
    handle = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=handle)
            try:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            except OSError:
                raise NotFound("no such file") from None
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def shown_of_run(path: str) -> bool:
    """`journal.jsonl`, `CASE/roundN/attemptN/NODE/result.json`, and what ranks left in their folders."""
    parts = parts_of(path)
    if len(parts) == 1:
        return parts[0] in _OF_RUN
    if len(parts) == 5:
        return bool(_OF_NODE.fullmatch(parts[4]))
    if len(parts) < 5:
        return False
    # A rank's own folder also has what it was told; below `home` all is the job's.
    of_rank = bool(re.fullmatch(r"rank\d+", parts[4])) and parts[5] not in ("env.log", "config.json")
    return of_rank or parts[4] == "home"


def listed(top: Path, *, of_run: bool = False) -> list[FileInfo]:
    """Plain files below `top`, links left out; at most so many."""
    found: list[FileInfo] = []
    for folder, folders, names in os.walk(top, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), top)
            try:
                info = os.lstat(os.path.join(folder, name))
                wanted = stat.S_ISREG(info.st_mode) and (not of_run or shown_of_run(path))
            except (OSError, NotFound):
                continue
            if wanted and _printable(path):
                found.append(FileInfo(path, info.st_size, info.st_mtime))
            if len(found) >= MOST_LISTED:
                return found
    return found


# A user's own files.


def append(top: Path, path: str, start: int, total: int, data: bytes) -> int:
    """One piece of an upload, which must begin where the last one ended. Returns how much is there. The file has its
    name only when it is whole; until then it has one that no user can name."""
    parts = parts_of(path)
    if parts[-1].startswith(".part-"):
        raise NotFound("no such file")
    if start + len(data) > total:
        raise Conflict("the piece ends beyond the file")
    used = sum(one.bytes for one in listed(top)) if top.is_dir() else 0
    if used + len(data) > QUOTA:
        raise Conflict(f"your files may take {QUOTA >> 30} GiB in all")
    top.mkdir(0o700, parents=True, exist_ok=True)
    with folder_below(top, parts[:-1], make=True) as folder:
        part = f".part-{parts[-1]}"[:_LONGEST_PART]
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if start == 0 else 0)
        handle = os.open(part, flags, 0o600, dir_fd=folder)
        try:
            there = os.fstat(handle).st_size
            if there != start:
                raise Conflict(f"the next piece begins at {there}")
            written = 0
            while written < len(data):
                written += os.pwrite(handle, data[written:], start + written)
            there += written
        finally:
            os.close(handle)
        if there == total:
            os.replace(part, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        return there


def uploaded(top: Path, path: str) -> int:
    """How much of an upload is there, to go on with it."""
    parts = parts_of(path)
    for name in (f".part-{parts[-1]}", parts[-1]):
        with contextlib.suppress(OSError, NotFound), folder_below(top, parts[:-1]) as folder:
            return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    return 0


def remove(top: Path, path: str) -> None:
    parts = parts_of(path)
    try:
        with folder_below(top, parts[:-1]) as folder:
            os.unlink(parts[-1], dir_fd=folder)
    except OSError:
        raise NotFound("no such file") from None
