"""The output of ranks: a program that prints without end must not fill the disk."""

from __future__ import annotations

import contextlib
import os

from trainmark.agent.files import FIRST_PART, LAST_PART, part_of, write_all
from trainmark.agent.ranks import Rank
from trainmark.agent.reasons import Reason, reason

# Of one rank. Beyond it the log begins again; its first part, and the last one before that, are kept beside it.
MOST_BYTES = 128 << 20
_KEPT = 1 << 20


class OutputLimit:
    """Looked at once a second. The ranks append to their logs themselves, so a log can be cut while they write."""

    def __init__(self, ranks: list[Rank], most: int = MOST_BYTES) -> None:
        self._ranks = ranks
        self._most = most
        self._dropped: dict[int, int] = {}

    def look(self) -> None:
        for rank in self._ranks:
            try:
                if os.path.getsize(rank.log) > self._most:
                    self._cut(rank)
            except OSError:
                continue  # no log yet, or a rank has removed it

    def _cut(self, rank: Rank) -> None:
        first, last = part_of(rank.log, FIRST_PART), part_of(rank.log, LAST_PART)
        descriptor = os.open(rank.log, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if not os.path.exists(first):
                _keep(first, os.pread(descriptor, _KEPT, 0))
            _keep(last, os.pread(descriptor, _KEPT, max(0, size - _KEPT)))
            os.ftruncate(descriptor, 0)
            dropped = self._dropped[rank.rank] = self._dropped.get(rank.rank, 0) + size
            text = "trainmark: %d bytes of output were dropped here; the first are in %s, the last in %s\n"
            write_all(descriptor, (text % (dropped, os.path.basename(first), os.path.basename(last))).encode())
        finally:
            os.close(descriptor)

    def warnings(self) -> list[Reason]:
        limit = self._most >> 20
        return [
            reason("output-dropped", rank=rank, bytes=dropped, limit=limit) for rank, dropped in self._dropped.items()
        ]


def _keep(path: str, data: bytes) -> None:
    """In place of what is there. On a full disk nothing is kept: that the log is cut matters more."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
