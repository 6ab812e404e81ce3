"""Lines over decades on both axes: rooflines, and bandwidth over message sizes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report.charts import axes
from trainmark.report.charts.axes import Axis
from trainmark.report.charts.figure import colour, figure
from trainmark.report.charts.svg import HEIGHT, WIDTH, Frame, document, fine, frame, grid, path, readable
from trainmark.report.i18n.speaker import Label, Speaker

_MOST_LINES = 12


class Trail(msgspec.Struct, frozen=True):
    """Points in the order of x. `tone` picks the colour; `dots` shows the points alone."""

    name: Label | str
    points: list[tuple[float, float]]
    tone: int = 0
    dots: bool = False


def chart(
    speak: Speaker,
    title: Label,
    trails: Sequence[Trail],
    x: tuple[Label, str],
    y: tuple[Label, str],
) -> str:
    """`x` and `y`: title and unit. Nothing when there is nothing to show."""
    shown = [trail for trail in trails if trail.points and all(a > 0 and b > 0 for a, b in trail.points)][:_MOST_LINES]
    if not shown:
        return ""
    across = axes.make([a for trail in shown for a, _ in trail.points], x[1], log=True)
    up = axes.make([b for trail in shown for _, b in trail.points], y[1], log=True)
    place = frame(up, across)
    body = grid(place, across, up, x[0], y[0]) + fine("".join(_drawn(trail, place, across, up) for trail in shown))
    ends = (axis.shown(end * axis.divisor) for axis in (across, up) for end in (axis.low, axis.high))
    desc = speak("chart.desc", len(shown), *ends)
    svg = document(title, desc, body, (WIDTH, HEIGHT), readable(place, across, up))
    return figure(
        title, svg, [(f"{'point' if trail.dots else 'line'} {colour(trail.tone)}", trail.name) for trail in shown]
    )


def _drawn(trail: Trail, place: Frame, x: Axis, y: Axis) -> str:
    xs, ys = [a for a, _ in trail.points], [b for _, b in trail.points]
    dots = f'<path class="dots {colour(trail.tone)}" d="{path(xs, ys, place, x, y, joined=False)}"/>'
    if trail.dots:
        return dots
    return f'<path class="line {colour(trail.tone)}" d="{path(xs, ys, place, x, y)}"/>'
