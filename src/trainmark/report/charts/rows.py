"""Charts of rows below each other: dots with their interval, and bars made of parts."""

from __future__ import annotations

from trainmark.i18n.texts import Text, label
from trainmark.report import numbers
from trainmark.report.charts import axes
from trainmark.report.charts.axes import Axis
from trainmark.report.charts.records import Bar, BarChart, Row, RowChart
from trainmark.report.charts.svg import (
    COLOURS,
    WIDE,
    WIDTH,
    Frame,
    colour,
    drawing,
    figure,
    fit,
    text,
    ticks,
    titled,
    upright_grid,
    width_of,
)
from trainmark.report.render import escape
from trainmark.report.render.markup import Markup

# In a narrow drawing a row's name stands above its dots, in a wide one beside them.
_NARROW, _WIDE = 400, WIDE
_TOP, _BOTTOM = 10, 40
# A drawing with more rows has its axis at both ends, and one with still more scrolls in its own box.
_LONG, _TALL = 15, 30
# To either side, as a share of the largest value.
_LEAST_SPAN = 0.01
_BAR_TOP, _BAR_PITCH, _BAR, _BAR_BOTTOM = 8, 30, 18, 42


def row_chart(page: Markup, chart: RowChart, kind: str = "") -> str:
    if not chart.rows:
        return ""
    shown = rows_svg(page, chart, wide=False)
    if chart.wide:
        shown = f'<div class="wide">{rows_svg(page, chart, wide=True)}</div><div class="narrow">{shown}</div>'
    if len(chart.rows) > _TALL:
        shown = f'<div class="tall" tabindex="0" role="group"{page.named(chart.title)}>{shown}</div>'
    return figure(page, chart.caption or chart.title, shown, chart.legend, kind=kind)


def rows_svg(page: Markup, chart: RowChart, *, wide: bool) -> str:
    """A drawing as high as its rows need."""
    rows = chart.rows
    values = [value for row in rows for value in axes.known([*row.points, row.mean, row.low, row.high])]
    values += chart.zone or ()
    log = bool(values) and min(values) > 0 and max(values) > 20 * min(values)
    if values and not log:
        # Runs that differ by a hair must not look far apart.
        values += [max(values) * (1 - _LEAST_SPAN), max(values) * (1 + _LEAST_SPAN)]
    x = axes.make(values, chart.unit, ticks=8 if wide else 4, log=log)
    width, pitch = (_WIDE, 30) if wide else (_NARROW, 46)
    left = min(430.0, max(width_of(page.text(row.name)) for row in rows) + 16) if wide else 12.0
    notes = max(width_of(page.text(row.note)) for row in rows) + 16 if wide else 0.0
    edge = max(14.0, notes, width_of(x.labels[-1]) / 2 + 2)
    top = _TOP + 16 if len(rows) > _LONG else _TOP
    place = Frame(left, width - edge, top, top + pitch * len(rows))
    parts = [_zone(chart.zone, place, x), upright_grid(place, x)]
    parts.append(titled(page, place.right, place.bottom + 34, chart.x_title, x.unit, "end"))
    if top > _TOP:
        parts.append(ticks(place, x, _TOP + 2))
    for index, row in enumerate(rows):
        parts.append(_row(page, row, place, x, top + pitch * index, pitch, wide))
    desc = _desc(len(rows), x, x.low)
    return drawing(page, chart.title, desc, "".join(parts), (width, place.bottom + _BOTTOM))


def _zone(zone: tuple[float, float] | None, place: Frame, x: Axis) -> str:
    """From edge to edge, and the line that stands for no difference: the middle on a logarithm."""
    if zone is None:
        return ""
    low, high = (x.place(edge, place.left, place.right) for edge in zone)
    middle = x.place((zone[0] * zone[1]) ** 0.5 if zone[0] > 0 else sum(zone) / 2, place.left, place.right)
    size = f'width="{high - low:.1f}" height="{place.bottom - place.top:.1f}"'
    return (
        f'<rect class="zone" x="{low:.1f}" y="{place.top:.1f}" {size}/>'
        f'<path class="even" d="M{middle:.1f} {place.top:.0f}V{place.bottom:.0f}"/>'
    )


def _desc(rows: int, x: Axis, low: float) -> Text:
    return label("chart.desc_rows", str(rows), x.shown(low * x.divisor), x.shown(x.high * x.divisor))


def _row(page: Markup, row: Row, place: Frame, x: Axis, top: float, pitch: float, wide: bool) -> str:
    middle = top + (pitch / 2 if wide else 32)
    plain = page.text(row.name)
    room = place.left - 16 if wide else _NARROW - 24 - width_of(page.text(row.note))
    name: Text = row.name if width_of(plain) <= room else fit(plain, room)
    base = middle + 4 if wide else top + 16
    named = text(page, 0 if wide else place.left, base, name, "row" if isinstance(row.name, str) else "")
    if row.link:
        named = f'<a href="#{escape.html(row.link)}">{named}</a>'
    note = text(page, _WIDE - 2 if wide else place.right, base, row.note, anchor="end") if row.note else ""
    return named + note + _marks(row, place, x, middle)


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
            said = escape.html(f"{numbers.number(value / x.divisor)}{x.suffix} {x.unit}")
            place_at = f'cx="{at(value):.1f}" cy="{middle:.1f}"'
            parts.append(f'<circle class="{kind}" {place_at} r="4"><title>{said}</title></circle>')
    return "".join(parts)


def drawable_bars(chart: BarChart) -> tuple[list[Bar], list[str]]:
    """Bars that have a length, and the parts that they are made of."""
    bars = [Bar(bar.name, {name: one for name, one in bar.parts.items() if axes.drawable(one)}) for bar in chart.bars]
    bars = [bar for bar in bars if any(value > 0 for value in bar.parts.values())]
    found = dict.fromkeys(name for bar in bars for name in bar.parts)
    return bars, [name for name in found if any(bar.parts.get(name, 0) > 0 for bar in bars)]


def bar_chart(page: Markup, chart: BarChart, after: str = "") -> str:
    """`after` is markup below the drawing."""
    bars, names = drawable_bars(chart)
    if not bars:
        return ""
    others = dict.fromkeys(name for bar in bars for name in bar.parts if name not in chart.known)
    colours = {name: index for index, name in enumerate([*chart.known, *others])}
    x = axes.make([sum(bar.parts.values()) for bar in bars], chart.unit, ticks=4, zero=True)
    left = 12 + max(width_of(page.text(bar.name)) for bar in bars)
    bottom = _BAR_TOP + _BAR_PITCH * len(bars)
    place = Frame(left, WIDTH - max(10.0, width_of(x.labels[-1]) / 2 + 2), _BAR_TOP, bottom)
    parts = [upright_grid(place, x), titled(page, place.right, bottom + 34, chart.x_title, x.unit, "end")]
    for index, bar in enumerate(bars):
        middle = _BAR_TOP + _BAR_PITCH * (index + 0.5)
        parts.append(text(page, 0, middle + 4, bar.name))
        parts.append(_bar(bar, colours, place, x, middle))
    svg = drawing(page, chart.title, _desc(len(bars), x, 0.0), "".join(parts), (WIDTH, bottom + _BAR_BOTTOM))
    legend = [(f"area {colour(colours[name])}", chart.names.get(name, name)) for name in names]
    return figure(page, chart.title, svg, legend, after)


def _bar(bar: Bar, colours: dict[str, int], place: Frame, x: Axis, middle: float) -> str:
    parts, start = [], 0.0
    for name, value in bar.parts.items():
        if value > 0:
            left, right = (x.place(edge, place.left, place.right) for edge in (start, start + value))
            d = f"M{left:.1f} {middle - _BAR / 2:.0f}H{right:.1f}v{_BAR}H{left:.1f}z"
            parts.append(f'<path class="s{colours[name] % COLOURS + 1}" d="{d}"/>')
            start += value
    return f'<g class="bar">{"".join(parts)}</g>'
