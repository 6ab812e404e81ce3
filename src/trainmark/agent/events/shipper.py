"""Moves events from the ranks' spool files into one events.jsonl per node, in whole lines."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Iterator

from trainmark.agent.events.reader import EventStream, LineReader, parsed
from trainmark.agent.events.spools import SPOOL, make_spool, ranks_in, remove_spool, spool_file
from trainmark.agent.files import Appender, Log, drop_reserve
from trainmark.agent.node_plan import SPOOL_PREFIX
from trainmark.agent.reasons import Reason, log_text

EVENTS = "events.jsonl"
_LOCK = "completing"


class Shipper:
    """Appends the new events of all local ranks to events.jsonl, one write at a time."""

    def __init__(self, folder: str, spool: str, ranks: list[int], is_open: bool = False, token: str = "") -> None:
        make_spool(folder, spool, token)
        self._folder = folder
        self._spool = spool if is_open else None  # ranks that the plan does not list may appear here
        self._events = Appender(os.path.join(folder, EVENTS))
        self.streams = {rank: EventStream(rank, spool_file(spool, rank)) for rank in ranks}
        self.shipped = 0
        self._lost = False  # a write failed: `complete` ships the rest later
        self._bytes = 0
        self._digest: Any = None  # of all that was shipped, from the first event on

    def ship(self, now_ns: int) -> bool:
        """Moves what is new. Returns whether there was anything, even a part of a line."""
        if self._lost:
            return False
        if self._spool is not None:
            for rank in ranks_in(self._spool):
                if rank not in self.streams:
                    self.streams[rank] = EventStream(rank, spool_file(self._spool, rank))
        data = b"".join(stream.take(now_ns) for stream in self.streams.values())
        if data:
            self._lost = True
            self._events.append(data)
            self._lost = False
            self.shipped += data.count(b"\n")
            self._add_up(data)
        return any(stream.moved for stream in self.streams.values())

    def _add_up(self, data: bytes) -> None:
        if self._digest is None:
            import hashlib  # the ranks have started by now

            self._digest = hashlib.sha256()
        self._digest.update(data)
        self._bytes += len(data)

    def digests(self) -> Dict[str, Dict[str, object]]:
        """Of events.jsonl, without reading it again; no digest where more events are to come from the spool."""
        if self._digest is None and not self._lost:
            return {}
        return {EVENTS: {"bytes": self._bytes, "sha256": None if self._lost else self._digest.hexdigest()}}

    def finish(self) -> list[Reason]:
        """Ships the rest and removes the spool, unless events had to stay there. Warns of what was left out."""
        while self.ship(time.monotonic_ns()):
            pass
        if self._lost:
            self.close()
            return []
        if self.shipped:
            self._events.sync()
        self.close()
        remove_spool(self._folder)
        return [warning for stream in self.streams.values() for warning in stream.warnings()]

    def close(self) -> None:
        self._events.close()
        for stream in self.streams.values():
            stream.close()


class _Known:
    """Which (rank, seq) are in a file: a run from 0 per rank costs one number, whatever its length."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._later: dict[int, set[int]] = {}

    def add(self, rank: int, seq: int) -> bool:
        """Adds one; False when it was known."""
        following = self._next.get(rank, 0)
        later = self._later.setdefault(rank, set())
        if 0 <= seq < following or seq in later:
            return False
        if seq != following:
            later.add(seq)
            return True
        following += 1
        while following in later:
            later.remove(following)
            following += 1
        self._next[rank] = following
        return True


def _lines(path: str) -> Iterator[bytes]:
    """The whole lines of a file, one at a time."""
    source = LineReader(path)
    try:
        while True:
            yield from source.take().split(b"\n")
            if not source.moved:
                return
    finally:
        source.close()


def _new(line: bytes, known: _Known) -> bool:
    """Whether the line is an event not known before; it is known from now on."""
    event = parsed(line)
    rank, seq = event.get("rank"), event.get("seq")
    return isinstance(rank, int) and isinstance(seq, int) and known.add(rank, seq)


def complete(folder: str) -> int:
    """Appends what a killed agent left in its spool to events.jsonl, each event once; returns how many.

    May be called again at any time once the ranks are gone: events are recognised by (rank, seq).
    """
    spool = os.path.join(folder, SPOOL)
    drop_reserve(folder)
    lock = _lock(os.path.realpath(spool))
    try:
        return _complete(folder, spool) if os.path.isdir(spool) else 0
    finally:
        if lock is not None:
            os.close(lock)


def _lock(spool: str) -> int | None:
    """Locks a spool outside the folder: the next agent on the node may complete it at the same time."""
    if not os.path.basename(spool).startswith(SPOOL_PREFIX):
        return None
    import fcntl

    try:
        descriptor = os.open(os.path.join(spool, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return None  # gone by now, or a disk without locks
    return descriptor


def _complete(folder: str, spool: str) -> int:
    path = os.path.join(folder, EVENTS)
    events = Appender(path)
    log = Log(os.path.join(folder, "agent.log"))
    count = 0
    try:
        _cut_torn_line(path)
        known = _Known()
        for line in _lines(path):
            _new(line, known)
        for rank in ranks_in(spool):
            stream = EventStream(rank, spool_file(spool, rank))
            count += _append_new(stream, events, known)
            for warning in stream.warnings():
                log.line(log_text(warning))
        events.sync()
    finally:
        events.close()
    remove_spool(folder)
    return count


def _append_new(stream: EventStream, events: Appender, known: _Known) -> int:
    """Appends the unknown events of one rank, a few megabytes at a time."""
    count = 0
    try:
        while True:
            chunk = stream.take(0)
            fresh = [line + b"\n" for line in chunk.split(b"\n") if _new(line, known)]
            if fresh:
                events.append(b"".join(fresh))
                count += len(fresh)
            if not stream.moved:
                return count
    finally:
        stream.close()


def _cut_torn_line(path: str) -> None:
    """Cuts a torn last line: its event is still whole in the spool."""
    size = os.path.getsize(path)
    with open(path, "rb+") as file:
        keep = size
        while keep:
            start = max(0, keep - 65536)
            file.seek(start)
            block = file.read(keep - start)
            cut = block.rfind(b"\n")
            if cut >= 0:
                keep = start + cut + 1
                break
            keep = start
        if keep < size:
            file.truncate(keep)
