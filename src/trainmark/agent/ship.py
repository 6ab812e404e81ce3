"""Events on their way: from the ranks' spool files into ONE events.jsonl per node, whole lines only."""

from __future__ import annotations

import os
import time

from trainmark.agent.lines import Lines
from trainmark.agent.nodeplan import ELSEWHERE
from trainmark.agent.record import Appender, Log, drop_reserve
from trainmark.agent.stream import Stream, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

EVENTS = "events.jsonl"
SPOOL = "spool"
_TURN = "completing"


class Shipper:
    """All local ranks' streams into events.jsonl, one write at a time."""

    def __init__(self, folder: str, spool: str, ranks: list[int], is_open: bool = False) -> None:
        make_spool(folder, spool)
        self._folder = folder
        self._spool = spool if is_open else None  # where ranks may appear that nobody announced
        self._events = Appender(os.path.join(folder, EVENTS))
        self.streams = {rank: Stream(rank, spool_file(spool, rank)) for rank in ranks}
        self.shipped = 0
        self._lost = False  # something could not be written: the rest must wait for whoever completes the folder

    def ship(self, now_ns: int) -> bool:
        """Moves what is new; whether there was any, be it a part of a line."""
        if self._lost:
            return False
        if self._spool is not None:
            for rank in spoken(self._spool):
                if rank not in self.streams:
                    self.streams[rank] = Stream(rank, spool_file(self._spool, rank))
        data = b"".join(stream.take(now_ns) for stream in self.streams.values())
        if data:
            self._lost = True
            self._events.append(data)
            self._lost = False
            self.shipped += data.count(b"\n")
        return any(stream.moved for stream in self.streams.values())

    def finish(self) -> list[str]:
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


def spool_file(spool: str, rank: int) -> str:
    return os.path.join(spool, "rank%d.jsonl" % rank)


def make_spool(folder: str, spool: str) -> None:
    """A spool elsewhere is linked from the folder, so that whoever completes the folder finds it."""
    link = os.path.join(folder, SPOOL)
    if os.path.abspath(spool) == link:
        os.makedirs(spool, exist_ok=True)
        return
    from trainmark.agent.stale_spools import own

    os.makedirs(spool, 0o700, exist_ok=True)
    own(spool, folder)
    os.symlink(os.path.abspath(spool), link)


def remove_spool(folder: str) -> None:
    """Removes what can be removed; ranks may have left anything there. No link is followed but our own."""
    path = os.path.join(folder, SPOOL)
    if not os.path.islink(path):
        _remove_folder(path)
        return
    spool = os.path.realpath(path)
    if os.path.basename(spool).startswith(ELSEWHERE):
        remove_elsewhere(spool)
    _remove(path)


def remove_elsewhere(spool: str) -> None:
    from trainmark.agent.mpi.shared_memory import twin

    _remove_folder(spool)
    _remove_folder(twin(spool))


def _remove_folder(path: str) -> None:
    try:
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
        os.rmdir(path)
    except OSError:
        pass  # gone already, or something in it cannot be removed


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except IsADirectoryError:
        import shutil  # which follows no links; a rank that makes folders here is rare enough

        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass


class _Known:
    """Which (rank, seq) are in a file: a run from 0 per rank costs one number, whatever its length."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._later: dict[int, set[int]] = {}

    def add(self, rank: int, seq: int) -> bool:
        """Notes one; False when it was known."""
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
    source = Lines(path)
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
    """Brings what a killed agent left in its spool into events.jsonl, each event once; returns how many.

    May be called again at any time, and by anybody, once the ranks are gone: what has arrived is known by (rank, seq).
    """
    spool = os.path.join(folder, SPOOL)
    drop_reserve(folder)
    turn = _turn(os.path.realpath(spool))
    try:
        return _complete(folder, spool) if os.path.isdir(spool) else 0
    finally:
        if turn is not None:
            os.close(turn)


def _turn(spool: str) -> int | None:
    """A spool elsewhere may be completed by the next agent on the node, too: one after the other."""
    if not os.path.basename(spool).startswith(ELSEWHERE):
        return None
    import fcntl

    try:
        descriptor = os.open(os.path.join(spool, _TURN), os.O_RDWR | os.O_CREAT, 0o600)
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
        _mend(path)
        known = _Known()
        for line in _lines(path):
            _new(line, known)
        for rank in spoken(spool):
            stream = Stream(rank, spool_file(spool, rank))
            count += _bring(stream, events, known)
            for warning in stream.warnings():
                log.line(warning)
        events.sync()
    finally:
        events.close()
    remove_spool(folder)
    return count


def spoken(spool: str) -> list[int]:
    """The ranks that have a spool file."""
    names = [name[4:-6] for name in os.listdir(spool) if name.startswith("rank") and name.endswith(".jsonl")]
    return sorted(int(number) for number in names if number.isdigit() and len(number) < 10)


def _bring(stream: Stream, events: Appender, known: _Known) -> int:
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


def _mend(path: str) -> None:
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
