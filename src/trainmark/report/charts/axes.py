"""Axes: where a value stands, which ticks help to read it, and how many points of a curve can be seen."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from trainmark.report import numbers
from trainmark.report.charts.records import MOST_POINTS

# Past this ratio of the largest value to the middle one, a straight axis shows nothing of the rest.
_SPREAD = 8.0
_TINY, _HUGE = 1e-25, 1e25


class Axis(msgspec.Struct, frozen=True):
    """From `low` to `high` in shown units: `divisor` of the data's units each."""

    low: float
    high: float
    ticks: list[float]
    labels: list[str]
    divisor: float = 1.0
    suffix: str = ""
    unit: str = ""
    log: bool = False
    dates: bool = False

    def line(self, start: float, end: float) -> tuple[float, float]:
        """a and b of pixel = a · value + b, value in the data's units (its logarithm on a log axis)."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        a = (end - start) / (high - low)
        if self.log:
            return a, start - a * (low + math.log10(self.divisor))
        return a / self.divisor, start - a * low

    def place(self, value: float, start: float, end: float) -> float:
        a, b = self.line(start, end)
        return a * (math.log10(value) if self.log else value) + b

    def shown(self, value: float) -> str:
        """A value in the data's units as the axis would write it."""
        if self.dates:
            return numbers.moment(value)
        return f"{numbers.number(value / self.divisor)}{self.suffix} {self.unit}".rstrip()


def drawable(value: float | None) -> bool:
    """Known, finite, and of a size that anything is measured in: beyond it sums lose all digits."""
    return value is not None and (value == 0 or _TINY < abs(value) < _HUGE)


def known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and (value == 0 or _TINY < abs(value) < _HUGE)]


def wants_log(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) > _SPREAD * median(values)


def make(
    values: Sequence[float],
    unit: str,
    *,
    ticks: int = 5,
    zero: bool = False,
    log: bool = False,
    tight: bool = False,
    whole: bool = False,
) -> Axis:
    """An axis that holds all values. `tight` ends where the values do, else at a tick; `whole` is for counts."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    divisor, suffix, shown = numbers.axis(unit, max(abs(low), abs(high)))
    low, high = low / divisor, high / divisor
    if log and low > 0:
        return _log(low, high, divisor, suffix, shown)
    if zero or (not tight and 0 < low < 0.5 * high):
        low = min(low, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = abs(high) * 0.1 or 0.5
        low, high = low - (0 if zero and low == 0 else room), high + room
    step = nice_step((high - low) / ticks)
    if whole:
        step = max(1.0 / divisor, step)
    if not tight:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    places = [index * step for index in range(first, last + 1)]
    return Axis(low, high, places, [numbers.tick(place, step) + suffix for place in places], divisor, suffix, shown)


# Seconds between two ticks of a date axis, and how a tick is written.
_TIMES = (
    *((60.0 * minutes, "%H:%M") for minutes in (1, 5, 15, 30)),
    *((3600.0 * hours, "%m-%d %H:%M") for hours in (1, 3, 6, 12)),
    *((86400.0 * days, "%Y-%m-%d") for days in (1, 2, 7, 14, 30, 91, 182, 365)),
)


def dates(values: Sequence[float], ticks: int = 5) -> Axis:
    """An axis of moments in seconds since 1970, in UTC, with some room at both ends."""
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or 3600.0
    low, high = low - room, high + room
    step, written = next((one for one in _TIMES if (high - low) / one[0] <= ticks), _TIMES[-1])
    first, last = math.ceil(low / step), math.floor(high / step)
    every = max(1, -(-(last - first + 1) // (ticks + 1)))
    places = [index * step for index in range(first, last + 1, every)] or [(low + high) / 2]
    labels = [time.strftime(written, time.gmtime(place)) for place in places]
    return Axis(low, high, places, labels, unit="UTC", dates=True)


def nice_step(rough: float) -> float:
    """The next of 1, 2, 5 × 10ⁿ."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))


def _log(low: float, high: float, divisor: float, suffix: str, unit: str) -> Axis:
    """Ends at 1, 2 or 5 × 10ⁿ; as few ticks as can be read."""
    grid = [step * 10.0**power for power in range(-320, 308) for step in (1, 2, 5)]
    start = max(index for index, place in enumerate(grid) if place <= low * (1 + 1e-9))
    end = min(index for index, place in enumerate(grid) if place >= high * (1 - 1e-9))
    places = grid[start : max(end, start + 1) + 1]
    inner = places if len(places) <= 6 else [place for place in places if f"{place:e}".startswith("1.0")]
    every = -(-len(inner) // 6)
    inner = inner[::every]
    labels = [numbers.tick(place, min(place, 1)) + suffix for place in inner]
    return Axis(places[0], places[-1], inner, labels, divisor, suffix, unit, log=True)


def thin(
    xs: Sequence[float], ys: Sequence[float | None], most: int = MOST_POINTS
) -> tuple[Sequence[float], Sequence[float | None]]:
    """Fewer points that look the same: of each stretch the lowest and the highest. Peaks stay, so that no
    stall vanishes; a stretch without values stays a gap."""
    size = min(len(xs), len(ys))
    if size <= most:
        return xs, ys
    stretches = max(1, most // 2)
    shown: list[int] = []
    for part in range(stretches):
        start, end = part * size // stretches, (part + 1) * size // stretches
        seen = [(value, index) for index, value in enumerate(ys[start:end], start) if value is not None]
        shown.extend(sorted({min(seen)[1], max(seen)[1]}) if seen else [start])
    return [xs[index] for index in shown], [ys[index] for index in shown]
