"""Bars made of parts that add up, one bar per round."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report import numbers
from trainmark.report.charts import axes
from trainmark.report.charts.figure import COLOURS, colour, figure, table
from trainmark.report.charts.svg import WIDTH, Frame, document, text, titled, upright_grid, width_of
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element

_TOP, _PITCH, _BAR, _BOTTOM = 8, 30, 18, 42


class Bar(msgspec.Struct, frozen=True):
    name: Label
    parts: dict[str, float]


def chart(
    speak: Speaker, title: Label, bars: Sequence[Bar], unit: str, x_title: Label, group: str, known: Sequence[str]
) -> str:
    """`group` names the words for parts: `phase` looks `phase.train` up. `known` parts have the first colours, in this
    order, so that they look alike in every drawing."""
    bars = [Bar(bar.name, {name: one for name, one in bar.parts.items() if axes.drawable(one)}) for bar in bars]
    bars = [bar for bar in bars if any(value > 0 for value in bar.parts.values())]
    if not bars:
        return ""
    found = dict.fromkeys(name for bar in bars for name in bar.parts)
    colours = {name: index for index, name in enumerate([*known, *(name for name in found if name not in known)])}
    names = [name for name in found if any(bar.parts.get(name, 0) > 0 for bar in bars)]
    x = axes.make([sum(bar.parts.values()) for bar in bars], unit, ticks=4, zero=True)
    left = 12 + max(width_of(bar.name.text) for bar in bars)
    place = Frame(left, WIDTH - max(10.0, width_of(x.labels[-1]) / 2 + 2), _TOP, _TOP + _PITCH * len(bars))
    parts = [upright_grid(place, x), titled(place.right, place.bottom + 34, x_title, x.unit, "end")]
    for index, bar in enumerate(bars):
        middle = _TOP + _PITCH * (index + 0.5)
        parts.append(text(0, middle + 4, bar.name))
        parts.append(_bar(bar, colours, place, x, middle))
    desc = speak("chart.desc_rows", len(bars), x.shown(0.0), x.shown(x.high * x.divisor))
    svg = document(title, desc, "".join(parts), (WIDTH, place.bottom + _BOTTOM))
    legend = [(f"area {colour(colours[name])}", speak.named(group, name)) for name in names]
    return figure(title, svg, legend, _as_table(speak, bars, names, unit, group))


def _bar(bar: Bar, colours: dict[str, int], place: Frame, x: axes.Axis, middle: float) -> str:
    parts, start = [], 0.0
    for name, value in bar.parts.items():
        if value > 0:
            left, right = (x.place(edge, place.left, place.right) for edge in (start, start + value))
            d = f"M{left:.1f} {middle - _BAR / 2:.0f}H{right:.1f}v{_BAR}H{left:.1f}z"
            parts.append(f'<path class="s{colours[name] % COLOURS + 1}" d="{d}"/>')
            start += value
    return f'<g class="bar">{"".join(parts)}</g>'


def _as_table(speak: Speaker, bars: Sequence[Bar], names: Sequence[str], unit: str, group: str) -> str:
    head = [speak("round"), *(speak.named(group, name) for name in names)]
    rows: list[list[Label | str]] = []
    for bar in bars:
        rows.append([bar.name, *(numbers.quantity(bar.parts.get(name), unit) for name in names)])
    return f"<details>{element('summary', speak('as_table'))}{table(head, rows, kind='small')}</details>"
