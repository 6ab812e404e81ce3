"""How often each step time occurred, one outline per round."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report.charts import axes
from trainmark.report.charts.figure import colour, figure
from trainmark.report.charts.svg import HEIGHT, WIDTH, document, fine, frame, grid, readable, stairs
from trainmark.report.i18n.speaker import Label, Speaker


class Bins(msgspec.Struct, frozen=True):
    """`edges` has one more than `counts`."""

    name: Label | str
    edges: list[float]
    counts: list[int]


def chart(speak: Speaker, title: Label, bins: Sequence[Bins], unit: str, x_title: Label, y_title: Label) -> str:
    shown = [one for one in bins if one.counts and len(axes.known(one.edges)) == len(one.counts) + 1]
    if not shown:
        return ""
    x = axes.make([edge for one in shown for edge in (one.edges[0], one.edges[-1])], unit, tight=True)
    y = axes.make([float(count) for one in shown for count in one.counts], "", zero=True, whole=True)
    place = frame(y, x)
    outlines = "".join(
        f'<path class="hist {colour(index)}" d="{stairs(one.edges, one.counts, place, x, y)}"/>'
        for index, one in enumerate(shown)
    )
    ends = (axis.shown(end * axis.divisor) for axis in (x, y) for end in (axis.low, axis.high))
    svg = document(
        title,
        speak("chart.desc", len(shown), *ends),
        grid(place, x, y, x_title, y_title) + fine(outlines),
        (WIDTH, HEIGHT),
        readable(place, x, y),
    )
    legend = [(f"line {colour(index)}", one.name) for index, one in enumerate(shown) if one.name]
    return figure(title, svg, legend)
