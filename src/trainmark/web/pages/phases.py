"""Phases of a job as bars over time. Places are percentages, so a drawing fits any width without a script."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec

from trainmark.spec.states import JobState
from trainmark.web.service.timeline import Span

# Cases that are drawn, the newest; ticks of the axis.
_MOST_LANES, _TICKS = 12, 5
# A shorter bar could not be seen.
_LEAST = 0.35
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


class Bar(msgspec.Struct, frozen=True):
    """`at` and `width` in percent; `kind`: its phase, or what became of the attempt that it is the work of."""

    at: float
    width: float
    kind: str
    span: Span
    seconds: float


class Lane(msgspec.Struct, frozen=True):
    name: str
    bars: list[Bar]


class Drawing(msgspec.Struct, frozen=True):
    """`ticks`: place in percent, and seconds since the job was submitted. `left`: cases that are not drawn."""

    lanes: list[Lane]
    ticks: list[tuple[float, float]]
    left: int


def draw(spans: Sequence[Span]) -> Drawing:
    begin = min(one.begin for one in spans)
    latest = max(one.end if one.end is not None else time.time() for one in spans)
    whole = max(1.0, latest - begin)
    names = list(dict.fromkeys(one.lane for one in spans))
    shown = ["", *names[1:][-_MOST_LANES:]]
    lanes = [Lane(name, [_bar(one, begin, whole, latest) for one in spans if one.lane == name]) for name in shown]
    step = next((one for one in _STEPS if whole / one <= _TICKS), 86400 * math.ceil(whole / 86400 / _TICKS))
    ticks = [(100 * at / whole, float(at)) for at in range(0, int(whole) + 1, step) if at < 0.97 * whole]
    return Drawing(lanes, ticks, len(names) - len(shown))


def _bar(one: Span, begin: float, whole: float, latest: float) -> Bar:
    seconds = max(0.0, (one.end if one.end is not None else latest) - one.begin)
    kind: str = one.phase
    if kind == "working" and one.state is not None:
        kind = "good" if one.state == JobState.SUCCEEDED else "calm" if one.state == JobState.CANCELLED else "bad"
    width = max(_LEAST, 100 * seconds / whole)
    return Bar(min(100 - _LEAST, 100 * (one.begin - begin) / whole), width, kind, one, seconds)
