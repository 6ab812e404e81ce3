"""From a line of a training log to what it says: pure functions over the table in `spec/log_lines.py`.

Used on files by `import` and line by line on a living program by `exec`; knows nothing of either.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from trainmark.errors import UserError, one_of
from trainmark.spec.log_lines import BY_NAME, Clock, Pattern, find_pattern

# No program prints a longer record; on longer lines a hostile text could keep an expression busy for ever.
LONGEST_RECORD = 2048


class Reading(msgspec.Struct, frozen=True):
    """What one line says. Everything may be unknown."""

    step: int | None = None
    epoch: int | None = None
    samples: float | None = None
    seconds: float | None = None
    rate: float | None = None
    steps_per_second: float | None = None
    loss: float | None = None
    # Seconds on the log's own clock; `day` is False when the line holds no date.
    stamp: float | None = None
    day: bool = True


class LineReader:
    """Reads the lines of one log in order. `read` gives None for a line that is no record."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._regex = re.compile(pattern.regex)
        self._context = re.compile(pattern.context) if pattern.context else None
        self._before: dict[str, str] = {}

    def read(self, text: str) -> Reading | None:
        if len(text) > LONGEST_RECORD:
            return None
        if self._context is not None:
            before = self._context.search(text)
            if before:
                self._before = before.groupdict()
                return None
        for need in self.pattern.needs:
            if need not in text:
                return None
        found = self._regex.search(text)
        return reading(self.pattern, {**self._before, **found.groupdict()}) if found else None


def reading(pattern: Pattern, groups: Mapping[str, str | None]) -> Reading:
    """The named parts of a line as numbers. A part that is no number is unknown."""
    found: dict[str, Any] = {name: _NUMBERS[name](text) for name, text in groups.items() if text is not None}
    if "stamp" in found:
        found["stamp"], found["day"] = found["stamp"]
    ms = found.pop("ms", None)
    if ms is not None:
        found["seconds"] = ms / 1000
    step = found.get("step")
    if step is not None:
        found["step"] = (step * (found.get("epoch") or 1) if pattern.product else step) + pattern.zero
    return Reading(**found)


def real(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def whole(text: str) -> int | None:
    # A number with more digits is no step, and costs more than a line may.
    return int(text) if len(text) < 16 and text.isdecimal() else None


def seconds_of(text: str) -> tuple[float | None, bool]:
    """(seconds, whether a date stands there) of `2020-09-01 12:00:00,202`, `12:00:00.202`, or seconds since 1970."""
    if ":" not in text:
        return real(text), True
    try:
        head, _, clock = text.replace("T", " ").rpartition(" ")
        hour, minute, rest = clock.replace(",", ".").split(":")
        seconds = int(hour) * 3600 + int(minute) * 60 + float(rest)
        return (seconds + _day(head), True) if head else (seconds, False)
    except ValueError:
        return None, True


@functools.lru_cache(maxsize=64)
def _day(date: str) -> float:
    """Seconds since 1970 at which a day began; in UTC, since only differences count."""
    import calendar

    year, month, day = date.split("-")
    return float(calendar.timegm((int(year), int(month), int(day), 0, 0, 0)))


_NUMBERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("samples", "seconds", "ms", "rate", "steps_per_second", "loss"), real),
    **dict.fromkeys(("step", "epoch"), whole),
    "stamp": seconds_of,
}
_TELLING_TIME = ("seconds", "ms", "rate", "steps_per_second", "stamp")


def get(text: str, place: str = "pattern") -> Pattern:
    """A pattern by its name, or made of a regular expression; unlike on a living program, it must tell a time."""
    found = find_pattern(text, place)
    if text in BY_NAME:
        return found
    names = set(re.compile(text).groupindex)
    if not names & set(_TELLING_TIME):
        raise UserError(f"{place}: `{text}` tells no time; name a group {one_of(_TELLING_TIME)}")
    clock: Clock = "stamp" if "stamp" in names else "seconds" if names & {"seconds", "ms"} else "rate"
    return msgspec.structs.replace(found, clock=clock)
