"""Reads the spool file of a rank forward, in whole lines, and counts what its events say.

The writer may be broken or hostile: no file, line or event may hurt the agent. The scorer judges the events later.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any

from trainmark.agent.reasons import Reason, reason

_READ = 1 << 22
LONGEST = 1 << 20  # of a line, in bytes: no event comes near it
_NONFINITE = ("NaN", "Infinity", "-Infinity")
_MOST = 10**18  # a step of more digits is no step
_patterns: Any = None
_REFUSED = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EACCES, errno.EPERM, errno.ENOTDIR)


def open_plain(path: str) -> int:
    """A descriptor for reading a regular file; OSError ENODEV for anything else. Never blocks, follows no link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ENODEV, "not a plain file", path)
    return descriptor


class LineReader:
    """Whole lines as they come; those longer than `LONGEST` are dropped and counted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._tail = bytearray()  # grows in place: a line that comes in many pieces is not copied each time
        self._skipping = False  # inside a line that is too long
        self.refused: str | None = None  # why the file is not read at all
        self.long = 0
        self.moved = False  # the last `take` found new bytes, be they whole lines or not

    @property
    def torn(self) -> bool:
        return bool(self._tail)

    def take(self) -> bytes:
        """The whole lines that are new."""
        data = self._read()
        self.moved = bool(data)
        if self._skipping:
            end = data.find(b"\n") + 1
            self._skipping = not end
            data = data[end:] if end else b""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._hold_back(data)
            return b""
        chunk = bytes(self._tail) + data[:cut]
        self._tail = bytearray()
        self._hold_back(data[cut:])
        return chunk if len(chunk) <= LONGEST else self._without_long(chunk)

    def _hold_back(self, rest: bytes) -> None:
        """The beginning of a line whose end has not come yet."""
        self._tail += rest
        if len(self._tail) > LONGEST:
            self._tail = bytearray()
            self._skipping = True
            self.long += 1

    def _without_long(self, chunk: bytes) -> bytes:
        lines = chunk.split(b"\n")
        kept = [line for line in lines if len(line) < LONGEST]
        self.long += len(lines) - len(kept)
        return chunk if len(kept) == len(lines) else b"\n".join(kept)

    def _read(self) -> bytes:
        if self._fd < 0 and not self._open():
            return b""
        data = os.read(self._fd, _READ)
        if not data and os.fstat(self._fd).st_size < os.lseek(self._fd, 0, os.SEEK_CUR):
            os.lseek(self._fd, 0, os.SEEK_SET)  # a log that has begun again
            data = os.read(self._fd, _READ)
        return data

    def _open(self) -> bool:
        if self.refused is not None:
            return False
        try:
            self._fd = open_plain(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            self.refused = error.strerror
            return False
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _compiled() -> Any:
    """The patterns of steps and losses, compiled at the first step.

    Numbers have at most 18 digits: Python refuses to convert thousands of them.
    """
    global _patterns
    if _patterns is None:
        import re

        _patterns = (
            re.compile(rb'"k": ?"STEP_END"[^\n]*'),
            re.compile(rb'"n": ?(\d{1,18})(?!\d)'),
            re.compile(rb'"step": ?(\d{1,18})(?!\d)'),
            re.compile(rb'"loss": ?-?[\d.]+[eE]\+?\d{3}'),
            re.compile(rb'"k": ?"LOSS"[^\n]*'),
            re.compile(rb"[eE]\+?\d{3}"),
        )
    return _patterns


_ENDING = "ending"
_BEFORE_STEPS = ("starting", "importing", "loading")
_WARM_UP_STEPS = 5
_LONGEST_PHASE = 24


class EventStream:
    """The events of one rank and the figures they gave so far."""

    def __init__(self, rank: int, path: str) -> None:
        self.rank = rank
        self.path = path
        self._lines = LineReader(path)
        self._marks = (b'"rank":%d,' % rank, b'"rank": %d,' % rank)
        self.foreign = 0  # events in the name of another rank
        self.events = 0
        self.started = False  # the training loop was reached
        self.phase = "starting"
        self.step = 0  # the number of the last step
        self.steps = 0  # how many steps ended here
        self.samples = 0
        self.last_ns: int | None = None  # time of the last event
        self.ended_as_asked = False  # after the number of steps that were asked for
        self.nonfinite: tuple[int, str] | None = None  # step and value of the first loss that is not finite

    def take(self, now_ns: int) -> bytes:
        """The new whole lines, without those that name another rank."""
        chunk = self._own(self._lines.take())
        if chunk:
            self._count(chunk, now_ns)
        return chunk

    @property
    def moved(self) -> bool:
        """Whether the last `take` found anything new, be it whole lines or not."""
        return self._lines.moved

    def warnings(self) -> list[Reason]:
        """What was left out so far."""
        lines = self._lines
        found: list[Reason] = []
        if lines.refused is not None:
            found.append(reason("events-not-read", rank=self.rank, path=self.path, error=lines.refused))
        if lines.long:
            code = "long-line-left-out" if lines.long == 1 else "long-lines-left-out"
            found.append(reason(code, rank=self.rank, count=lines.long))
        if self.foreign:
            code = "foreign-event-left-out" if self.foreign == 1 else "foreign-events-left-out"
            found.append(reason(code, rank=self.rank, count=self.foreign))
        if lines.torn:
            found.append(reason("last-event-cut-off", rank=self.rank))
        return found

    def close(self) -> None:
        self._lines.close()

    def _own(self, chunk: bytes) -> bytes:
        """The lines without those that name another rank: the spool file says which rank this is."""
        if self._surely_own(chunk, chunk.count(b"\n")):
            return chunk
        lines = chunk.split(b"\n")
        kept = [line for line in lines if not line or self._surely_own(line, 1) or self._mine(line)]
        self.foreign += len(lines) - len(kept)
        return chunk if len(kept) == len(lines) else b"\n".join(kept)

    def _surely_own(self, text: bytes, count: int) -> bool:
        """Whether `count` lines name no other rank, found without parsing: every "rank" has the right number."""
        right = sum(map(text.count, self._marks))
        return right == count == text.count(b'"rank"') and b"\\" not in text

    def _mine(self, line: bytes) -> bool:
        """A line that names no rank counts as its own."""
        return bool(parsed(line).get("rank", self.rank) == self.rank)

    def _count(self, chunk: bytes, now_ns: int) -> None:
        self.events += chunk.count(b"\n")
        said = parsed(chunk[chunk.rfind(b"\n", 0, -1) + 1 :]).get("t")
        # A writer other than the probe may use another clock: then the time of arrival is used.
        trusted = isinstance(said, int) and (self.last_ns or 0) <= said <= now_ns
        self.last_ns = said if trusted else now_ns
        if b'"STEP_END"' in chunk or b'"LOSS"' in chunk:
            self._count_steps(chunk)
        self.started = self.started or bool(self.steps) or b'"TRAIN_START"' in chunk
        self.phase = self._phase(chunk)
        self.ended_as_asked = self.ended_as_asked or b'"ended_after"' in chunk

    def _phase(self, chunk: bytes) -> str:
        """What the rank does after these events, for people who wait."""
        begins, ends = chunk.rfind(b'"PHASE_BEGIN"'), chunk.rfind(b'"PHASE_END"')
        if begins > ends:
            name = parsed(chunk[chunk.rfind(b"\n", 0, begins) + 1 : chunk.find(b"\n", begins)]).get("name")
            return str(name)[:_LONGEST_PHASE]
        if b'"TRAIN_END"' in chunk or b'"FINISHED"' in chunk or self.phase == _ENDING:
            return _ENDING
        if self.started:
            if begins == ends and self.phase not in _BEFORE_STEPS and b'"STEP_END"' not in chunk:
                return self.phase  # in a phase still
            return "training" if self.step > _WARM_UP_STEPS else "warming up"
        if b'"imported"' in chunk or self.phase == "loading":
            return "loading"
        return "importing"

    def _count_steps(self, chunk: bytes) -> None:
        step_end, count, step, overflow, losses, exponent = _compiled()
        ended = step_end.findall(chunk)
        if ended:
            self.steps += len(ended)
            self.samples += sum(map(int, count.findall(b"\n".join(ended))))
            numbers = step.findall(ended[-1])
            self.step = int(numbers[0]) if numbers else self.step
        if self.nonfinite is None:
            named = b"NaN" in chunk or b"Infinity" in chunk
            if named or overflow.search(chunk) or any(map(exponent.search, losses.findall(chunk))):
                self.nonfinite = _first_nonfinite(chunk)


def _first_nonfinite(chunk: bytes) -> tuple[int, str] | None:
    exponent = _compiled()[-1]
    for line in chunk.split(b"\n"):
        if b"NaN" in line or b"Infinity" in line or exponent.search(line):
            for step, value in _losses(parsed(line)):
                name = value if isinstance(value, str) else _name(value)
                if name in _NONFINITE and isinstance(step, int) and -_MOST < step < _MOST:
                    return step, name
    return None


def _losses(event: dict[str, Any]) -> list[tuple[Any, Any]]:
    if event.get("k") == "STEP_END":
        return [(event.get("step", 0), event.get("loss"))]
    steps, values = event.get("steps"), event.get("values")
    if event.get("k") == "LOSS" and isinstance(steps, list) and isinstance(values, list):
        return list(zip(steps, values))  # noqa: B905
    return []


def _name(value: Any) -> str | None:
    """The name of a float that is not finite; a number that is too large (1e999) is read as one."""
    if not isinstance(value, float) or value - value == 0:
        return None
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def parsed(line: bytes) -> dict[str, Any]:
    """The event in a line; empty when the line is not a JSON object."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
