"""Bars made of parts that add up, one bar per round."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report import numbers
from trainmark.report.charts import axes
from trainmark.report.charts.figure import COLOURS, colour, figure, table
from trainmark.report.charts.svg import WIDTH, Frame, document, text, titled, width_of
from trainmark.report.markup import element
from trainmark.report.words import Label, Speaker

_TOP, _PITCH, _BAR, _BOTTOM = 8, 30, 18, 42


class Bar(msgspec.Struct, frozen=True):
    name: Label
    parts: dict[str, float]


def chart(
    speak: Speaker, title: Label, bars: Sequence[Bar], unit: str, x_title: Label, group: str, known: Sequence[str]
) -> str:
    """`group` names the words for parts: `phase` looks `phase.train` up. `known` parts have the first colours, in this
    order, so that they look alike in every drawing."""
    bars = [bar for bar in bars if any(value > 0 for value in bar.parts.values())]
    if not bars:
        return ""
    found = dict.fromkeys(name for bar in bars for name in bar.parts)
    colours = {name: index for index, name in enumerate([*known, *(name for name in found if name not in known)])}
    names = [name for name in found if any(bar.parts.get(name, 0) > 0 for bar in bars)]
    x = axes.make([sum(bar.parts.values()) for bar in bars], unit, ticks=4, zero=True)
    left = 12 + max(width_of(bar.name.text) for bar in bars)
    place = Frame(left, WIDTH - max(10.0, width_of(x.labels[-1]) / 2 + 2), _TOP, _TOP + _PITCH * len(bars))
    parts = [_axis(place, x), titled(place.right, place.bottom + 34, x_title, x.unit, "end")]
    for index, bar in enumerate(bars):
        middle = _TOP + _PITCH * (index + 0.5)
        parts.append(text(0, middle + 4, bar.name))
        parts.append(_bar(speak, bar, names, colours, place, x, middle, group))
    desc = speak("chart.desc_rows", len(bars), x.shown(0.0), x.shown(x.high * x.divisor))
    svg = document(title, desc, "".join(parts), (WIDTH, place.bottom + _BOTTOM))
    legend = [(f"area {colour(colours[name])}", speak.named(group, name)) for name in names]
    return figure(title, svg, legend, _as_table(speak, bars, names, unit, group))


def _axis(place: Frame, x: axes.Axis) -> str:
    at = [x.place(tick * x.divisor, place.left, place.right) for tick in x.ticks]
    rules = "".join(f"M{one:.1f} {place.top}V{place.bottom}" for one in at)
    labels = "".join(
        text(one, place.bottom + 16, label, anchor="middle") for one, label in zip(at, x.labels, strict=True)
    )
    return f'<path class="grid" d="{rules}"/>{labels}'


def _bar(
    speak: Speaker,
    bar: Bar,
    names: Sequence[str],
    colours: dict[str, int],
    place: Frame,
    x: axes.Axis,
    middle: float,
    group: str,
) -> str:
    parts, start = [], 0.0
    for name in names:
        value = max(0.0, bar.parts.get(name, 0.0))
        if not value:
            continue
        edges = [x.place(edge, place.left, place.right) for edge in (start, start + value)]
        said = element("title", f"{speak.named(group, name).text}: {x.shown(value)}")
        box = f'x="{edges[0]:.1f}" y="{middle - _BAR / 2:.1f}" width="{edges[1] - edges[0]:.1f}" height="{_BAR}"'
        parts.append(f'<rect class="part s{colours[name] % COLOURS + 1}" {box}>{said}</rect>')
        start += value
    return "".join(parts)


def _as_table(speak: Speaker, bars: Sequence[Bar], names: Sequence[str], unit: str, group: str) -> str:
    head = [speak("round"), *(speak.named(group, name) for name in names)]
    rows: list[list[Label | str]] = []
    for bar in bars:
        rows.append([bar.name, *(numbers.quantity(bar.parts.get(name), unit) for name in names)])
    return f"<details>{element('summary', speak('as_table'))}{table(head, rows)}</details>"
