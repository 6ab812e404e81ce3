"""A tree over two axes: points joined to the point they come from, and the best so far as a line."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report.charts import axes
from trainmark.report.charts.axes import Axis
from trainmark.report.charts.figure import figure
from trainmark.report.charts.svg import HEIGHT, WIDTH, Frame, document, fine, frame, grid, path, readable
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element

# More than this many branches are only a blot.
_MOST_BRANCHES = 3000
# Of so few nobody knows which of them is the odd one.
_FEW = 5


class Node(msgspec.Struct, frozen=True):
    """A point, and the place in the list of the one it comes from."""

    x: float
    y: float
    parent: int | None


def chart(
    speak: Speaker,
    title: Label,
    nodes: Sequence[Node],
    *,
    x_title: Label,
    x_unit: str,
    y_unit: str,
    names: Sequence[Label],
    below: str,
) -> str:
    """`names`: of a point, and of the line of the best; `below`: the words for points that lie far below the others,
    which are drawn at the edge, so that the others can be told apart."""
    if not nodes:
        return ""
    floor = _floor([node.y for node in nodes])
    low = sum(node.y < floor for node in nodes)
    nodes = [msgspec.structs.replace(node, y=max(floor, node.y)) for node in nodes]
    x = axes.make([node.x for node in nodes], x_unit, tight=True)
    y = axes.make([node.y for node in nodes], y_unit)
    place = frame(y, x)
    body = grid(place, x, y, x_title, "") + fine(_branches(nodes, place, x, y) + _best(nodes, place, x, y))
    ends = (axis.shown(end * axis.divisor) for axis in (x, y) for end in (axis.low, axis.high))
    svg = document(title, speak("chart.desc", 2, *ends), body, (WIDTH, HEIGHT), readable(place, x, y))
    note = element("p", speak(below, low), ' class="small"') if low else ""
    return figure(title, svg, [("line s1", names[0]), ("line s2", names[1])], note)


def _floor(values: Sequence[float]) -> float:
    """No lower than so is the axis: where the middle half of all would fit in eight times below it."""
    if len(values) < _FEW:
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
    xs: list[float] = []
    ys: list[float | None] = []
    best = None
    for node in sorted(nodes, key=lambda one: one.x):
        if best is None or node.y > best:
            if best is not None:
                xs.append(node.x)
                ys.append(best)
            best = node.y
            xs.append(node.x)
            ys.append(best)
    xs.append(max(node.x for node in nodes))
    ys.append(best)
    return f'<path class="line s2" d="{path(xs, ys, place, x, y)}"/>'
