"""One rank's events as they are read from its spool, and what they tell. The scorer judges them; none may hurt here."""

from __future__ import annotations

import json

from trainmark.agent.lines import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NONFINITE = ("NaN", "Infinity", "-Infinity")
_MOST = 10**18  # a step of more digits is no step
_patterns: Any = None


def _compiled() -> Any:
    """The patterns, made at the first step: `re` is a tenth of the cost of a round without any.

    Numbers have at most 18 digits: Python refuses to make an int of a few thousand.
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


class Stream:
    """One rank's spool, read forward, and what its events have told so far."""

    def __init__(self, rank: int, path: str) -> None:
        self.rank = rank
        self.path = path
        self._lines = Lines(path)
        self._marks = (b'"rank":%d,' % rank, b'"rank": %d,' % rank)
        self.foreign = 0  # events in the name of another rank
        self.events = 0
        self.started = False  # it has reached its training loop
        self.step = 0  # the last step's own number
        self.steps = 0  # how many steps ended here
        self.samples = 0
        self.last_ns: int | None = None  # when it spoke last
        self.ended_as_asked = False  # after the number of steps it was told
        self.nonfinite: tuple[int, str] | None = None  # step and value of the first loss that is no number

    def take(self, now_ns: int) -> bytes:
        """The whole lines that are new, without those the rank may not write."""
        chunk = self._own(self._lines.take())
        if chunk:
            self._look(chunk, now_ns)
        return chunk

    @property
    def moved(self) -> bool:
        """Whether the last `take` found anything new, be it whole lines or not."""
        return self._lines.moved

    def warnings(self) -> list[str]:
        """What was left out so far, for the reader of the result."""
        lines, found = self._lines, []
        if lines.refused is not None:
            found.append("rank %d: its events are not read: %s: %s" % (self.rank, self.path, lines.refused))
        if lines.long:
            what = "a line" if lines.long == 1 else "%d lines" % lines.long
            found.append("rank %d wrote %s of more than 1 MiB, left out" % (self.rank, what))
        if self.foreign:
            what = "1 event" if self.foreign == 1 else "%d events" % self.foreign
            found.append("rank %d wrote %s in the name of another rank, left out" % (self.rank, what))
        if lines.torn:
            found.append("rank %d: its last event was cut off and is dropped" % self.rank)
        return found

    def close(self) -> None:
        self._lines.close()

    def _own(self, chunk: bytes) -> bytes:
        """The lines without those of other ranks: whose spool it is, is known, and not a matter of belief."""
        if self._plain(chunk, chunk.count(b"\n")):
            return chunk
        lines = chunk.split(b"\n")
        kept = [line for line in lines if not line or self._plain(line, 1) or self._mine(line)]
        self.foreign += len(lines) - len(kept)
        return chunk if len(kept) == len(lines) else b"\n".join(kept)

    def _plain(self, text: bytes, count: int) -> bool:
        """Whether `count` lines surely name no other rank: each "rank" there is, is followed by the right number."""
        right = sum(map(text.count, self._marks))
        return right == count == text.count(b'"rank"') and b"\\" not in text

    def _mine(self, line: bytes) -> bool:
        """A line that names no rank is nobody else's."""
        return bool(parsed(line).get("rank", self.rank) == self.rank)

    def _look(self, chunk: bytes, now_ns: int) -> None:
        self.events += chunk.count(b"\n")
        spoken = parsed(chunk[chunk.rfind(b"\n", 0, -1) + 1 :]).get("t")
        # A foreign writer may have another clock: then the time of arrival is the best there is.
        trusted = isinstance(spoken, int) and (self.last_ns or 0) <= spoken <= now_ns
        self.last_ns = spoken if trusted else now_ns
        if b'"STEP_END"' in chunk or b'"LOSS"' in chunk:
            self._look_at_steps(chunk)
        self.started = self.started or bool(self.steps) or b'"TRAIN_START"' in chunk
        self.ended_as_asked = self.ended_as_asked or b'"ended_after"' in chunk

    def _look_at_steps(self, chunk: bytes) -> None:
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
    """A number may be non-finite because it was written so, or because it is too large (1e999)."""
    if not isinstance(value, float) or value - value == 0:
        return None
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def parsed(line: bytes) -> dict[str, Any]:
    """The event in a line; an empty one when the line is no event, or none that can be taken apart."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
