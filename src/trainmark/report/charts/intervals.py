"""Rows of dots: each run a point, the mean and its interval behind them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report import numbers
from trainmark.report.charts import axes
from trainmark.report.charts.axes import Axis
from trainmark.report.charts.svg import Frame, document, fit, text, ticks, titled, upright_grid, width_of
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape

# In a narrow drawing a row's name stands above its dots, in a wide one beside them.
NARROW, WIDE = 400, 1120
_TOP, _BOTTOM = 10, 40
_LONG = 15
# To either side, as a share of the largest value.
_LEAST_SPAN = 0.01


def _shown(label: Label | str) -> str:
    return label.text if isinstance(label, Label) else label


class Row(msgspec.Struct, frozen=True):
    """`result` False: the points were seen but are no result; they are hollow."""

    name: Label | str
    points: list[float]
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    # Where a click on the name leads.
    link: str = ""
    note: Label | str = ""
    result: bool = True


def svg(speak: Speaker, title: Label, rows: Sequence[Row], unit: str, x_title: Label | str, *, wide: bool) -> str:
    """A drawing as high as its rows need."""
    values = [value for row in rows for value in axes.known([*row.points, row.mean, row.low, row.high])]
    log = bool(values) and min(values) > 0 and max(values) > 20 * min(values)
    if values and not log:
        # Runs that differ by a hair must not look far apart.
        values += [max(values) * (1 - _LEAST_SPAN), max(values) * (1 + _LEAST_SPAN)]
    x = axes.make(values, unit, ticks=8 if wide else 4, log=log)
    width, pitch = (WIDE, 30) if wide else (NARROW, 46)
    left = min(430.0, max(_name_width(row) for row in rows) + 16) if wide else 12.0
    notes = max(width_of(_shown(row.note)) for row in rows) + 16 if wide else 0.0
    edge = max(14.0, notes, width_of(x.labels[-1]) / 2 + 2)
    # A drawing that is longer than a screen has its axis at both ends.
    top = _TOP + 16 if len(rows) > _LONG else _TOP
    place = Frame(left, width - edge, top, top + pitch * len(rows))
    parts = [upright_grid(place, x), titled(place.right, place.bottom + 34, x_title, x.unit, "end")]
    if top > _TOP:
        parts.append(ticks(place, x, _TOP + 2))
    for index, row in enumerate(rows):
        parts.append(_row(row, place, x, top + pitch * index, pitch, wide))
    desc = speak("chart.desc_rows", len(rows), x.shown(x.low * x.divisor), x.shown(x.high * x.divisor))
    return document(title, desc, "".join(parts), (width, place.bottom + _BOTTOM))


def _name_width(row: Row) -> float:
    return width_of(row.name if isinstance(row.name, str) else row.name.text)


def _row(row: Row, place: Frame, x: Axis, top: float, pitch: float, wide: bool) -> str:
    middle = top + (pitch / 2 if wide else 32)
    plain = row.name if isinstance(row.name, str) else row.name.text
    room = place.left - 16 if wide else NARROW - 24 - width_of(_shown(row.note))
    name: Label | str = row.name if width_of(plain) <= room else fit(plain, room)
    base = middle + 4 if wide else top + 16
    named = text(0 if wide else place.left, base, name, "row" if isinstance(row.name, str) else "")
    if row.link:
        named = f'<a href="#{escape(row.link)}">{named}</a>'
    note = text(WIDE - 2 if wide else place.right, base, row.note, anchor="end")
    return named + (note if row.note else "") + _marks(row, place, x, middle)


def _marks(row: Row, place: Frame, x: Axis, middle: float) -> str:
    def at(value: float) -> float:
        return x.place(value, place.left, place.right)

    parts = []
    if row.low is not None and row.high is not None and axes.known([row.low, row.high]):
        start, end = at(row.low), at(row.high)
        size = f'width="{max(2.0, end - start):.1f}" height="12"'
        parts.append(f'<rect class="span" x="{start:.1f}" y="{middle - 6:.1f}" {size} rx="3"/>')
    if row.mean is not None:
        parts.append(f'<path class="mean" d="M{at(row.mean):.1f} {middle - 9:.1f}v18"/>')
    kind = "dot" if row.result else "dot loose"
    for value in axes.known(row.points):
        if not x.log or value > 0:
            said = element("title", f"{numbers.number(value / x.divisor)}{x.suffix} {x.unit}")
            parts.append(f'<circle class="{kind}" cx="{at(value):.1f}" cy="{middle:.1f}" r="4">{said}</circle>')
    return "".join(parts)
