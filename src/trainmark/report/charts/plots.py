"""Charts over two axes: lines, histograms, lines over decades, and search trees."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.i18n.texts import Text, label
from trainmark.report.charts import axes
from trainmark.report.charts.axes import Axis, thin
from trainmark.report.charts.records import (
    Band,
    Curve,
    Histogram,
    Line,
    LineChart,
    LogChart,
    Node,
    Trail,
    TreeChart,
    Whisker,
)
from trainmark.report.charts.svg import (
    WIDE,
    WIDTH,
    Frame,
    colour,
    figure,
    fine,
    frame,
    grid,
    path,
    plot,
    stairs,
)
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
    heights += [end for one in chart.whiskers for end in axes.known([one.low, one.high])]
    along = [value for line in shown for value in (line.curve.x[0], line.curve.x[-1])]
    unit = shown[0].curve.unit if chart.y_unit is None else chart.y_unit
    y = axes.make(heights, unit, zero=chart.zero, log=log)

    def draw(width: float) -> tuple[str, Axis]:
        x = _along(along, chart, width)
        place = frame(y, x, width)
        body = _window(window, place, x) + grid(page, place, x, y, chart.x_title, chart.y_title)
        drawn = (_line(index, line, place, x, y, most) for index, line in enumerate(shown))
        body += fine(_band(band, place, x, y, most) + _whiskers(chart.whiskers, place, x, y) + "".join(drawn))
        return plot(page, chart.title, len(shown), body, place, x, y, width), x

    svg, x = draw(WIDTH)
    if chart.wide:
        svg = f'<div class="wide">{draw(WIDE)[0]}</div><div class="narrow">{svg}</div>'
    cut = any(value is not None and value > y.high * y.divisor for line in shown for value in line.curve.y)
    remarks = [("", label(key)) for key, holds in (("chart.log", log or x.log), ("chart.cut", cut)) if holds]
    return figure(page, chart.title, svg, [*_legend(chart, shown), *remarks])


def _along(values: Sequence[float], chart: LineChart, width: float) -> Axis:
    """The horizontal axis."""
    if chart.x_kind == "dates":
        return axes.dates(values, 8 if width > WIDTH else 3)
    log = chart.x_kind == "log" and min(values) > 0
    return axes.make(values, chart.x_unit, tight=True, whole=not chart.x_unit, log=log)


def _inside(curve: Curve, window: tuple[float, float] | None) -> Sequence[float | None]:
    """Without a window, or without anything in it, all."""
    if window is None:
        return curve.y
    return [value for at, value in zip(curve.x, curve.y, strict=False) if window[0] <= at <= window[1]] or curve.y


def _legend(chart: LineChart, shown: Sequence[Line]) -> list[tuple[str, Text]]:
    marks: list[tuple[str, Text]] = []
    marks += [
        (f"{'point' if line.dots else 'line'} {_tone(index, line)}", line.name)
        for index, line in enumerate(shown)
        if line.name
    ]
    if chart.window is not None:
        marks.append(("area window", label("chart.window")))
    if chart.band is not None:
        marks.append(("area band", chart.band.name))
    if len(chart.lines) > len(shown) >= _MOST_LINES:
        marks.append(("", label("more_lines", str(len(chart.lines) - len(shown)))))
    return marks


def _tone(index: int, line: Line) -> str:
    return colour(index if line.tone is None else line.tone)


def _line(index: int, line: Line, place: Frame, x: Axis, y: Axis, most: int) -> str:
    tone = _tone(index, line)
    if line.level:
        return f'<path class="level {tone}" d="{_levels(line.curve, place, x, y)}"/>'
    xs, ys = thin(line.curve.x, line.curve.y, most)
    # A line that is not shown still tells the pointer its values.
    drawn = f'<path class="line {tone}{" none" if line.dots else ""}" d="{path(xs, ys, place, x, y)}"/>'
    if len(xs) > _FEW and not line.dots:
        return drawn
    return f'{drawn}<path class="dots {tone}" d="{path(xs, ys, place, x, y, joined=False)}"/>'


def _levels(curve: Curve, place: Frame, x: Axis, y: Axis) -> str:
    """Each two points are the ends of a stretch."""
    ends = zip(curve.x[::2], curve.x[1::2], curve.y[::2], curve.y[1::2], strict=True)
    return "".join(path([a, b], [low, high], place, x, y) for a, b, low, high in ends)


def _whiskers(whiskers: Sequence[Whisker], place: Frame, x: Axis, y: Axis) -> str:
    drawn = "".join(path([one.x, one.x], [one.low, one.high], place, x, y) for one in whiskers)
    return f'<path class="whisker" d="{drawn}"/>' if drawn else ""


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
    if band.boxes:
        return f'<path class="band" d="{_boxes(band, place, x, y)}"/>'
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


def _boxes(band: Band, place: Frame, x: Axis, y: Axis) -> str:
    """A box for each stretch, cut at the edges of the plot; a stretch of one step is as wide as half a step."""
    drawn = []
    for at in range(0, len(band.low.x) - 1, 2):
        first, last = band.low.x[at], band.low.x[at + 1]
        left, right = (min(x.high, max(x.low, edge / x.divisor)) * x.divisor for edge in (first - 0.4, last + 0.4))
        low, high = band.low.y[at], band.high.y[at]
        if low is not None and high is not None and left < right:
            drawn.append(path([left, right, right, left], [low, low, high, high], place, x, y) + "Z")
    return "".join(drawn)


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

    def draw(width: float) -> str:
        place = frame(y, x, width)
        body = grid(page, place, x, y, chart.x_title, "")
        body += fine(_branches(nodes, place, x, y) + _best(nodes, place, x, y))
        return plot(page, chart.title, 2, body, place, x, y, width)

    svg = f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(WIDTH)}</div>'
    note = page.element("p", label(chart.below, str(low)), ' class="small"') if low else ""
    legend = [("line s1", chart.point_name), ("line s2", chart.best_name)]
    return figure(page, chart.title, svg, legend, note)


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
