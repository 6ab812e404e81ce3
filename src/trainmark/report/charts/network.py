"""A network as rows from top to bottom, with arcs where a layer reads another than the one above it."""

from __future__ import annotations

from trainmark.i18n.texts import label
from trainmark.report.charts.records import NetworkChart, NetworkRow
from trainmark.report.charts.svg import WIDTH, drawing, figure, fit, text, width_of
from trainmark.report.render.markup import Markup

_WIDE = 760
_PITCH, _TOP = 19, 22
# Arcs over many rows reach further to the side, up to so far.
_ARCS = 64
# Shares of the room to the right of the arcs: what the layers are, their output, a bar for their parameters.
_SHAPE, _SIZE = 0.52, 0.74


def network_chart(page: Markup, chart: NetworkChart) -> str:
    if not chart.rows:
        return ""
    wide, narrow = (_drawn(page, chart, width) for width in (_WIDE, WIDTH))
    shown = f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
    return figure(page, chart.title, shown)


def _drawn(page: Markup, chart: NetworkChart, width: float) -> str:
    height = _TOP + _PITCH * len(chart.rows) + 6
    left = 12.0 + min(_ARCS, 5 * max((end - start for start, end in chart.links), default=1))
    largest = max(row.size for row in chart.rows) or 1
    columns = [left + 8, left + (width - left) * _SHAPE, left + (width - left) * _SIZE]
    heads = ("net.layers", "net.output", "net.parameters")
    body = "".join(text(page, at, 12, label(head), "head") for at, head in zip(columns, heads, strict=True))
    for number, row in enumerate(chart.rows):
        body += _row(page, row, _y(number), columns, width, largest)
    lines = "".join(_link(start, end, left) for start, end in chart.links)
    body += f'<path class="line s6" d="{lines}"/>'
    dots = "".join(f"M{left:.0f} {_y(number):.0f}l0 0" for number in range(len(chart.rows)))
    body += f'<path class="dots s1" d="{dots}"/>'
    desc = label("net.desc", str(len(chart.rows)), str(sum(end - start > 1 for start, end in chart.links)))
    return drawing(page, chart.title, desc, body, (width, height))


def _row(page: Markup, row: NetworkRow, y: float, columns: list[float], width: float, largest: int) -> str:
    room = columns[1] - columns[0] - 6
    # A name that fits stays one that can be shown in another language.
    name = row.name if width_of(page.text(row.name)) <= room else fit(page.text(row.name), room)
    found = _box("window", columns[0] - 4, y - 9.5, width - columns[0], 19) if row.shaded else ""
    found += text(page, columns[0], y + 4, name, "row") + text(page, columns[1], y + 4, row.shape, "row")
    if row.size:
        bar = (width - columns[2]) * (0.5 if width > WIDTH else 0.2)
        found += _box("span", columns[2], y - 5, max(1.0, bar * row.size / largest), 10)
        found += text(page, columns[2] + bar + 6, y + 4, f"{row.size:,}", "row")
    return found


def _box(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.0f}" y="{y:.1f}" width="{width:.1f}" height="{height:.0f}"/>'


def _y(number: int) -> float:
    return _TOP + _PITCH * (number + 0.5)


def _link(start: int, end: int, left: float) -> str:
    top, bottom = _y(start), _y(end)
    if end - start == 1:
        return f"M{left:.0f} {top:.0f}V{bottom:.0f}"
    out = left - min(float(_ARCS), 5.0 * (end - start)) - 6
    return f"M{left:.0f} {top:.0f}C{out:.0f} {top:.0f} {out:.0f} {bottom:.0f} {left:.0f} {bottom:.0f}"
