"""Reading logs, which may be larger than the memory: forward a piece at a time, or the last lines from the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 18
# A line without an end is shown in pieces of this size.
_LONGEST = 1 << 20


def last_lines(path: Path, count: int) -> list[bytes]:
    """The last lines of a file, read backwards; fewer when it has fewer, or when they are longer than a log's are."""
    return tail(path, count).splitlines()


def tail(path: Path, count: int) -> bytes:
    """Where the last `count` lines begin, and what follows."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        found = b""
        while at > 0 and found.rstrip(b"\n").count(b"\n") < count and len(found) < max(_LONGEST, count * 4096):
            size = min(_CHUNK, at)
            at -= size
            file.seek(at)
            found = file.read(size) + found
    lines = found.splitlines(keepends=True)
    return b"".join(lines[-count:]) if count else b""


class Follower:
    """What is added to a file, in whole lines, a piece at a time."""

    def __init__(self, path: Path, last: int | None = None) -> None:
        """`last`: begins with so many lines before the end."""
        self._path = path
        self._at = 0 if last is None else os.path.getsize(path) - len(tail(path, last))
        self._rest = b""

    def lines(self, final: bool) -> Iterator[str]:
        """The new ones; `final` also takes a last line that has no end."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            while data := file.read(_CHUNK):
                self._at += len(data)
                *whole, self._rest = (self._rest + data).split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace")
                if len(self._rest) > _LONGEST:
                    yield self._rest.decode(errors="replace")
                    self._rest = b""
        if final and self._rest:
            yield self._rest.decode(errors="replace")
            self._rest = b""
