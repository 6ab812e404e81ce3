"""Events on their way: from the ranks' spool files into ONE events.jsonl per node, whole lines only."""

from __future__ import annotations

import os
import time

from trainmark.agent.lean import loads
from trainmark.agent.record import Appender, drop_reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

EVENTS = "events.jsonl"
SPOOL = "spool"
_READ = 1 << 22
_NONFINITE = ("NaN", "Infinity", "-Infinity")
_patterns: Any = None


def _compiled() -> Any:
    """The patterns, made at the first event: `re` is a tenth of the cost of a round without any."""
    global _patterns
    if _patterns is None:
        import re

        _patterns = (
            re.compile(rb'"k": ?"STEP_END"[^\n]*'),
            re.compile(rb'"n": ?(\d+)'),
            re.compile(rb'"step": ?(\d+)'),
            re.compile(rb'"t": ?(\d+)'),
        )
    return _patterns


class Stream:
    """One rank's spool, read forward, and what its events have told so far."""

    def __init__(self, rank: int, path: str) -> None:
        self.rank = rank
        self.path = path
        self._fd = -1
        self._tail = b""
        self.events = 0
        self.started = False  # it has reached its training loop
        self.step = 0  # the last step's own number
        self.steps = 0  # how many steps ended here
        self.samples = 0
        self.last_ns: int | None = None  # when it spoke last
        self.nonfinite: tuple[int, str] | None = None  # step and value of the first loss that is no number

    def take(self, now_ns: int) -> bytes:
        """The whole lines that are new."""
        data = self._tail + self._read()
        cut = data.rfind(b"\n") + 1
        chunk, self._tail = data[:cut], data[cut:]
        if chunk:
            self._look(chunk, now_ns)
        return chunk

    @property
    def torn(self) -> bool:
        return bool(self._tail)

    def _read(self) -> bytes:
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                return b""
        return os.read(self._fd, _READ)

    def _look(self, chunk: bytes, now_ns: int) -> None:
        step_end, count, step, clock = _compiled()
        self.events += chunk.count(b"\n")
        ended = step_end.findall(chunk)
        if ended:
            self.steps += len(ended)
            self.samples += sum(map(int, count.findall(b"\n".join(ended))))
            numbers = step.findall(ended[-1])
            self.step = int(numbers[0]) if numbers else self.step
        self.started = self.started or bool(ended) or b'"TRAIN_START"' in chunk
        times = clock.findall(chunk[chunk.rfind(b"\n", 0, -1) + 1 :])
        spoken = int(times[0]) if times else now_ns
        # A foreign writer may have another clock: then the time of arrival is the best there is.
        self.last_ns = spoken if (self.last_ns or 0) <= spoken <= now_ns else now_ns
        if self.nonfinite is None and (b"NaN" in chunk or b"Infinity" in chunk):
            self.nonfinite = _first_nonfinite(chunk)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _first_nonfinite(chunk: bytes) -> tuple[int, str] | None:
    for line in chunk.splitlines():
        if b"NaN" in line or b"Infinity" in line:
            for step, value in _losses(_parsed(line)):
                name = value if isinstance(value, str) else _name(value)
                if name in _NONFINITE:
                    return step, name
    return None


def _losses(event: dict[str, Any]) -> list[tuple[int, Any]]:
    if event.get("k") == "STEP_END":
        return [(event.get("step", 0), event.get("loss"))]
    if event.get("k") == "LOSS":
        return list(zip(event.get("steps") or (), event.get("values") or ()))  # noqa: B905
    return []


def _name(value: Any) -> str | None:
    if not isinstance(value, float) or value - value == 0:
        return None
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _parsed(line: bytes) -> dict[str, Any]:
    """The event in a line; an empty one when the line is no event."""
    try:
        value = loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class Shipper:
    """All local ranks' streams into events.jsonl, one write at a time."""

    def __init__(self, folder: str, spool: str, ranks: list[int]) -> None:
        make_spool(folder, spool)
        self._folder = folder
        self._events = Appender(os.path.join(folder, EVENTS))
        self.streams = {rank: Stream(rank, spool_file(spool, rank)) for rank in ranks}
        self.shipped = 0
        self._lost = False  # something could not be written: the rest must wait for whoever completes the folder

    def ship(self, now_ns: int) -> bool:
        """Moves what is new; whether there was any."""
        if self._lost:
            return False
        data = b"".join(stream.take(now_ns) for stream in self.streams.values())
        if data:
            self._lost = True
            self._events.append(data)
            self._lost = False
            self.shipped += data.count(b"\n")
        return bool(data)

    def finish(self) -> list[str]:
        """Ships the rest and removes the spool, unless events had to stay there. Returns warnings about torn ends."""
        while self.ship(time.monotonic_ns()):
            pass
        if self._lost:
            self.close()
            return []
        torn = [stream.rank for stream in self.streams.values() if stream.torn]
        if self.shipped:
            self._events.sync()
        self.close()
        remove_spool(self._folder)
        return ["rank %d: its last event was cut off and is dropped" % rank for rank in torn]

    def close(self) -> None:
        self._events.close()
        for stream in self.streams.values():
            stream.close()


def spool_file(spool: str, rank: int) -> str:
    return os.path.join(spool, "rank%d.jsonl" % rank)


def make_spool(folder: str, spool: str) -> None:
    """A spool elsewhere is linked from the folder, so that whoever completes the folder finds it."""
    os.makedirs(spool, exist_ok=True)
    link = os.path.join(folder, SPOOL)
    if os.path.abspath(spool) != link:
        os.symlink(os.path.abspath(spool), link)


def remove_spool(folder: str) -> None:
    path = os.path.join(folder, SPOOL)
    spool = os.path.realpath(path)
    for name in os.listdir(spool):
        os.unlink(os.path.join(spool, name))
    os.rmdir(spool)
    if os.path.islink(path):
        os.unlink(path)


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
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _new(line: bytes, known: _Known) -> bool:
    """Whether the line is an event not known before; it is known from now on."""
    event = _parsed(line)
    rank, seq = event.get("rank"), event.get("seq")
    return isinstance(rank, int) and isinstance(seq, int) and known.add(rank, seq)


def complete(folder: str) -> int:
    """Brings what a killed agent left in its spool into events.jsonl, each event once; returns how many.

    May be called again at any time, and by anybody, once the ranks are gone: what has arrived is known by (rank, seq).
    """
    spool = os.path.join(folder, SPOOL)
    drop_reserve(folder)
    if not os.path.isdir(spool):
        return 0
    path = os.path.join(folder, EVENTS)
    events = Appender(path)
    count = 0
    try:
        _mend(path)
        known = _Known()
        for line in _lines(path):
            _new(line, known)
        for name in sorted(os.listdir(spool)):
            count += _bring(os.path.join(spool, name), events, known)
        events.sync()
    finally:
        events.close()
    remove_spool(folder)
    return count


def _bring(path: str, events: Appender, known: _Known) -> int:
    """Appends the unknown events of one spool file, a few megabytes at a time."""
    count, size, fresh = 0, 0, []
    for line in _lines(path):
        if _new(line, known):
            fresh.append(line)
            count += 1
            size += len(line)
        if size > _READ:
            events.append(b"".join(fresh))
            size, fresh = 0, []
    events.append(b"".join(fresh))
    return count


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
