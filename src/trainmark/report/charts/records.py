"""What the charts of a report show, as data. The page draws them; see the modules beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from trainmark.i18n.texts import Text

# Points of a curve that a screen can show.
MOST_POINTS = 400


class Curve(msgspec.Struct, frozen=True):
    """A line in a chart, thinned to what a screen can show. None is a gap: unknown is never 0."""

    name: str
    unit: str
    x: list[float]
    y: list[float | None]


class RankCurve(Curve, frozen=True):
    """What one rank says of its steps."""

    rank: int


class Line(msgspec.Struct, frozen=True):
    """`dots`: the points alone, not joined. `level`: flat stretches, each between two
    points, drawn bold."""

    name: Text
    curve: Curve
    dots: bool = False
    level: bool = False
    # Which colour, where that is not its place among the lines.
    tone: int | None = None


class Whisker(msgspec.Struct, frozen=True):
    """The interval of one point."""

    x: float
    low: float
    high: float


class Band(msgspec.Struct, frozen=True):
    """Shaded between two curves, which need not have their points at the same places. `boxes`: each two points are the
    ends of a box of its own."""

    name: Text
    low: Curve
    high: Curve
    boxes: bool = False


class LineChart(msgspec.Struct, frozen=True):
    """Lines over steps or time. `window` is shaded, and the vertical axis is made for what is inside. `y_unit` in
    place of the curves' own; `zero`: the vertical axis begins there. `x_kind`: the horizontal axis counts, counts on a
    logarithmic scale, or is made of dates, in seconds since 1970. `wide`: over the whole page, where
    there is room."""

    title: Text
    lines: Sequence[Line]
    x_title: Text
    x_unit: str = ""
    y_title: Text = ""
    y_unit: str | None = None
    window: tuple[float, float] | None = None
    band: Band | None = None
    zero: bool = False
    most: int = MOST_POINTS
    x_kind: Literal["", "log", "dates"] = ""
    whiskers: Sequence[Whisker] = ()
    wide: bool = False


class Bins(msgspec.Struct, frozen=True):
    """`edges` has one more than `counts`."""

    name: Text
    edges: Sequence[float]
    counts: Sequence[int]


class Histogram(msgspec.Struct, frozen=True):
    """How often each value occurred, one outline per round."""

    title: Text
    bins: Sequence[Bins]
    unit: str
    x_title: Text
    y_title: Text


class Trail(msgspec.Struct, frozen=True):
    """Points in the order of x. `tone` picks the colour; `dots` shows the points alone."""

    name: Text
    points: list[tuple[float, float]]
    tone: int = 0
    dots: bool = False


class LogChart(msgspec.Struct, frozen=True):
    """Lines over decades on both axes: rooflines, and bandwidth over message sizes."""

    title: Text
    trails: Sequence[Trail]
    x_title: Text
    x_unit: str
    y_title: Text
    y_unit: str


class Node(msgspec.Struct, frozen=True):
    """A point, and the index in the list of the one it comes from."""

    x: float
    y: float
    parent: int | None


class TreeChart(msgspec.Struct, frozen=True):
    """Points joined to the point they come from, and the best so far as a line. Points that lie far below the others
    are drawn at the edge, so that the others can be told apart: `below` is the label for how many."""

    title: Text
    nodes: Sequence[Node]
    x_title: Text
    x_unit: str
    y_unit: str
    point_name: Text
    best_name: Text
    below: str


class Row(msgspec.Struct, frozen=True):
    """`result` False: the points were seen but are no result; they are hollow."""

    name: Text
    points: Sequence[float] = ()
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    # Where a click on the name leads.
    link: str = ""
    note: Text = ""
    result: bool = True


class RowChart(msgspec.Struct, frozen=True):
    """Rows of dots: each round a point, the mean and its interval behind them. `wide`: over the whole page, where there
    is room. `legend`: class of the mark, and its name. `zone`: shaded behind all rows, with a line in its middle."""

    title: Text
    rows: Sequence[Row]
    unit: str
    x_title: Text
    caption: Text = ""
    wide: bool = False
    zone: tuple[float, float] | None = None
    legend: Sequence[tuple[str, Text]] = ()


class Bar(msgspec.Struct, frozen=True):
    name: Text
    parts: dict[str, float]


class BarChart(msgspec.Struct, frozen=True):
    """Bars made of parts that add up. `names`: of the parts; those `known` have the first colours, in this order, so
    that they look alike in every chart."""

    title: Text
    bars: Sequence[Bar]
    unit: str
    x_title: Text
    names: dict[str, Text]
    known: Sequence[str]


class NetworkRow(msgspec.Struct, frozen=True):
    """Layers of a network that are drawn as one: what they are, the shape of their output, and their parameters."""

    name: Text
    shape: str
    size: int = 0
    shaded: bool = False


class NetworkChart(msgspec.Struct, frozen=True):
    """A network from top to bottom. `links`: which row reads which; those that skip rows are arcs beside them."""

    title: Text
    rows: Sequence[NetworkRow]
    links: Sequence[tuple[int, int]]


Chart = NetworkChart | LineChart | Histogram | LogChart | TreeChart | RowChart | BarChart
