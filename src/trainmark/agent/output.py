"""The output of ranks: a program that prints without end must not fill the disk."""

from __future__ import annotations

import os

from trainmark.agent.files import write_all
from trainmark.agent.ranks import Rank
from trainmark.agent.reasons import Reason, reason

# Of one rank. Beyond it the log begins again; its first part is kept beside it.
MOST_BYTES = 128 << 20
_FIRST = 1 << 20


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
        first = rank.log[: -len(".log")] + ".first.log"
        descriptor = os.open(rank.log, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if not os.path.exists(first):
                _keep(first, os.pread(descriptor, _FIRST, 0))
            os.ftruncate(descriptor, 0)
            dropped = self._dropped[rank.rank] = self._dropped.get(rank.rank, 0) + size
            text = "trainmark: %d bytes of output were dropped here; its beginning is in %s\n"
            write_all(descriptor, (text % (dropped, os.path.basename(first))).encode())
        finally:
            os.close(descriptor)

    def warnings(self) -> list[Reason]:
        limit = self._most >> 20
        return [
            reason("output-dropped", rank=rank, bytes=dropped, limit=limit) for rank, dropped in self._dropped.items()
        ]


def _keep(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)
