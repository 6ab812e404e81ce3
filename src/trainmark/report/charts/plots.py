"""Charts over two axes: lines, histograms, lines over decades, and search trees."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.i18n.texts import Text, label
from trainmark.report.charts import axes
from trainmark.report.charts.axes import Axis, thin
from trainmark.report.charts.records import Band, Curve, Histogram, Line, LineChart, LogChart, Node, Trail, TreeChart
from trainmark.report.charts.svg import Frame, colour, figure, fine, frame, grid, path, plot, stairs
from trainmark.report.render.markup import Markup

# More lines than this in one chart cannot be told apart.
_MOST_LINES = 8
_MOST_TRAILS = 12
# Up to so many points each is marked.
_FEW = 24
# More than this many branches are only a blot.
_MOST_BRANCHES = 3000
# Of so few nobody knows which of them is the odd one.
_FEW_NODES = 5


def line_chart(page: Markup, chart: LineChart) -> str:
    """Nothing when there is nothing to show."""
    shown = [line for line in chart.lines if any(map(axes.drawable, line.curve.y))][:_MOST_LINES]
    if not shown:
        return ""
    window, band, most = chart.window, chart.band, chart.most
    heights = [value for line in shown for value in axes.known(_inside(line.curve, window))]
    log = window is not None and axes.wants_log(heights)
    if band is not None:
        heights += axes.known(band.low.y) + axes.known(band.high.y)
    along = [value for line in shown for value in (line.curve.x[0], line.curve.x[-1])]
    unit = shown[0].curve.unit if chart.y_unit is None else chart.y_unit
    x = axes.make(along, chart.x_unit, tight=True, whole=not chart.x_unit)
    y = axes.make(heights, unit, zero=chart.zero, log=log)
    place = frame(y, x)
    body = _window(window, place, x) + grid(page, place, x, y, chart.x_title, chart.y_title)
    drawn = (_line(index, line, place, x, y, most) for index, line in enumerate(shown))
    body += fine(_band(band, place, x, y, most) + "".join(drawn))
    svg = plot(page, chart.title, len(shown), body, place, x, y)
    cut = any(value is not None and value > y.high * y.divisor for line in shown for value in line.curve.y)
    remarks = [("", label(key)) for key, holds in (("chart.log", log), ("chart.cut", cut)) if holds]
    return figure(page, chart.title, svg, [*_legend(chart, shown), *remarks])


def _inside(curve: Curve, window: tuple[float, float] | None) -> Sequence[float | None]:
    """Without a window, or without anything in it, all."""
    if window is None:
        return curve.y
    return [value for at, value in zip(curve.x, curve.y, strict=False) if window[0] <= at <= window[1]] or curve.y


def _legend(chart: LineChart, shown: Sequence[Line]) -> list[tuple[str, Text]]:
    marks: list[tuple[str, Text]] = []
    marks += [(f"line {colour(index)}", line.name) for index, line in enumerate(shown) if line.name]
    if chart.window is not None:
        marks.append(("area window", label("chart.window")))
    if chart.band is not None:
        marks.append(("area band", chart.band.name))
    if len(chart.lines) > len(shown) >= _MOST_LINES:
        marks.append(("", label("more_lines", str(len(chart.lines) - len(shown)))))
    return marks


def _line(index: int, line: Line, place: Frame, x: Axis, y: Axis, most: int) -> str:
    xs, ys = thin(line.curve.x, line.curve.y, most)
    drawn = f'<path class="line {colour(index)}" d="{path(xs, ys, place, x, y)}"/>'
    if len(xs) > _FEW:
        return drawn
    return f'{drawn}<path class="dots {colour(index)}" d="{path(xs, ys, place, x, y, joined=False)}"/>'


def _window(window: tuple[float, float] | None, place: Frame, x: Axis) -> str:
    if window is None:
        return ""
    start, end = (min(place.right, max(place.left, x.place(edge, place.left, place.right))) for edge in window)
    width, height = max(1.0, end - start), place.bottom - place.top
    return f'<rect class="window" x="{start:.1f}" y="{place.top:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _band(band: Band | None, place: Frame, x: Axis, y: Axis, most: int) -> str:
    """Edges there and back; what lies outside the plot is cut at its edge."""
    if band is None or not axes.known(band.low.y) or not axes.known(band.high.y):
        return ""
    inside = [
        [
            (min(x.high, max(x.low, at / x.divisor)) * x.divisor, value)
            for at, value in zip(*thin(edge.x, edge.y, most // 2), strict=False)
            if value is not None
        ]
        for edge in (band.low, band.high)
    ]
    points = inside[0] + inside[1][::-1]
    d = path([at for at, _ in points], [value for _, value in points], place, x, y)
    return f'<path class="band" d="{d}Z"/>'


def histogram(page: Markup, chart: Histogram) -> str:
    shown = [one for one in chart.bins if one.counts and len(axes.known(one.edges)) == len(one.counts) + 1]
    if not shown:
        return ""
    x = axes.make([edge for one in shown for edge in (one.edges[0], one.edges[-1])], chart.unit, tight=True)
    y = axes.make([float(count) for one in shown for count in one.counts], "", zero=True, whole=True)
    place = frame(y, x)
    outlines = "".join(
        f'<path class="hist {colour(index)}" d="{stairs(one.edges, one.counts, place, x, y)}"/>'
        for index, one in enumerate(shown)
    )
    body = grid(page, place, x, y, chart.x_title, chart.y_title) + fine(outlines)
    legend = [(f"line {colour(index)}", one.name) for index, one in enumerate(shown) if one.name]
    return figure(page, chart.title, plot(page, chart.title, len(shown), body, place, x, y), legend)


def log_chart(page: Markup, chart: LogChart) -> str:
    shown = [trail for trail in chart.trails if trail.points and all(a > 0 and b > 0 for a, b in trail.points)]
    shown = shown[:_MOST_TRAILS]
    if not shown:
        return ""
    x = axes.make([a for trail in shown for a, _ in trail.points], chart.x_unit, log=True)
    y = axes.make([b for trail in shown for _, b in trail.points], chart.y_unit, log=True)
    place = frame(y, x)
    body = grid(page, place, x, y, chart.x_title, chart.y_title)
    body += fine("".join(_trail(trail, place, x, y) for trail in shown))
    legend = [(f"{'point' if trail.dots else 'line'} {colour(trail.tone)}", trail.name) for trail in shown]
    return figure(page, chart.title, plot(page, chart.title, len(shown), body, place, x, y), legend)


def _trail(trail: Trail, place: Frame, x: Axis, y: Axis) -> str:
    d = path([a for a, _ in trail.points], [b for _, b in trail.points], place, x, y, joined=not trail.dots)
    return f'<path class="{"dots" if trail.dots else "line"} {colour(trail.tone)}" d="{d}"/>'


def tree_chart(page: Markup, chart: TreeChart) -> str:
    if not chart.nodes:
        return ""
    floor = _floor([node.y for node in chart.nodes])
    low = sum(node.y < floor for node in chart.nodes)
    nodes = [msgspec.structs.replace(node, y=max(floor, node.y)) for node in chart.nodes]
    x = axes.make([node.x for node in nodes], chart.x_unit, tight=True)
    y = axes.make([node.y for node in nodes], chart.y_unit)
    place = frame(y, x)
    body = grid(page, place, x, y, chart.x_title, "")
    body += fine(_branches(nodes, place, x, y) + _best(nodes, place, x, y))
    note = page.element("p", label(chart.below, str(low)), ' class="small"') if low else ""
    legend = [("line s1", chart.point_name), ("line s2", chart.best_name)]
    return figure(page, chart.title, plot(page, chart.title, 2, body, place, x, y), legend, note)


def _floor(values: Sequence[float]) -> float:
    """No lower than so is the axis: where the middle half of all would fit in eight times below it."""
    if len(values) < _FEW_NODES:
        return min(values)
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
    fence = low - 8 * (high - low)
    return min(value for value in ordered if value >= fence)


def _branches(nodes: Sequence[Node], place: Frame, x: Axis, y: Axis) -> str:
    drawn = []
    for node in nodes[-_MOST_BRANCHES:]:
        if node.parent is not None:
            other = nodes[node.parent]
            drawn.append(path([other.x, node.x], [other.y, node.y], place, x, y))
    points = path([node.x for node in nodes], [node.y for node in nodes], place, x, y, joined=False)
    return f'<path class="line s6" d="{"".join(drawn)}"/><path class="dots s1" d="{points}"/>'


def _best(nodes: Sequence[Node], place: Frame, x: Axis, y: Axis) -> str:
    """A stair: level until something better ends."""
    points: list[tuple[float, float]] = []
    for node in sorted(nodes, key=lambda one: one.x):
        if not points or node.y > points[-1][1]:
            points += [(node.x, points[-1][1])] if points else []
            points.append((node.x, node.y))
    points.append((max(node.x for node in nodes), points[-1][1]))
    d = path([at for at, _ in points], [value for _, value in points], place, x, y)
    return f'<path class="line s2" d="{d}"/>'
