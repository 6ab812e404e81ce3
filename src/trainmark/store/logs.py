"""Reading logs, which may be larger than the memory: forward a piece at a time, or the last lines from the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 18
# A line without an end is shown in pieces of this size.
_LONGEST = 1 << 20
_ALL = 1 << 62


def last_lines(path: Path, count: int) -> list[bytes]:
    """The last lines of a file, read backwards; fewer when it has fewer, or when they are longer than a log's are."""
    with path.open("rb") as file:
        begin, end = _last(file, count, max(_LONGEST, count * 4096))
        file.seek(begin)
        return file.read(end - begin).splitlines()


def _last(file: BinaryIO, count: int, most: int) -> tuple[int, int]:
    """Where the last `count` lines begin, within the last `most` bytes, and where they end. One piece of the file is in
    memory at a time."""
    at = end = file.seek(0, os.SEEK_END)
    missing = count + 1  # the end of the line before them
    while at > 0 and count and end - at < most:
        size = min(_CHUNK, at)
        at -= size
        file.seek(at)
        piece = file.read(size)
        if at + size == end and not piece.endswith(b"\n"):
            missing -= 1  # the last line has no end
        if (here := piece.count(b"\n")) < missing:
            missing -= here
            continue
        place = size
        for _ in range(missing):
            place = piece.rindex(b"\n", 0, place)
        return at + place + 1, end
    return (at if count else end), end


class Follower:
    """What is added to a file, in whole lines, a piece at a time."""

    def __init__(self, path: Path, last: int | None = None) -> None:
        """`last`: begins with so many lines before the end."""
        self._path = path
        self._at = 0
        self._rest = b""
        if last is not None:
            with path.open("rb") as file:
                self._at = _last(file, last, _ALL)[0]

    def lines(self, final: bool) -> Iterator[str]:
        """The new ones; `final` also takes a last line that has no end."""
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._at:  # it grew too large and has begun again
                self._at, self._rest = 0, b""
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
