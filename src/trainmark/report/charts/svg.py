"""The pieces every chart is made of: a frame with axes, text, paths, and the figure around a drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from trainmark.i18n.texts import Text, label
from trainmark.report.charts.axes import Axis, drawable
from trainmark.report.render import escape
from trainmark.report.render.markup import Markup

WIDTH, HEIGHT = 400, 230
# Of a drawing over the whole page.
WIDE = 1120
COLOURS = 6
# Average width of a character of chart text, in the units of the drawing.
_CHARACTER = 6.4
# Paths count in tenths, so that a pointer can read values back from them.
_FINE = 10


class Frame(msgspec.Struct, frozen=True):
    """The plot's edges in the drawing."""

    left: float
    right: float
    top: float
    bottom: float


def width_of(text: str) -> float:
    return sum(11.0 if ord(letter) > 0x2E80 else _CHARACTER for letter in text)


def fit(text: str, room: float) -> str:
    """Shortened in the middle: both ends of a case's id tell it from others."""
    if width_of(text) <= room:
        return text
    keep = max(2, int(room / _CHARACTER) - 1)
    return f"{text[: -(-keep // 2)]}…{text[len(text) - keep // 2 :]}"


def text(page: Markup, x: float, y: float, value: Text, kind: str = "", anchor: str = "") -> str:
    more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return page.element("text", value, f' x="{x:.0f}" y="{y:.0f}"{more}')


def tick_text(x: float, y: float, value: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}">{escape.html(value)}</text>'


def ticks(place: Frame, x: Axis, y: float) -> str:
    """Labels of a horizontal axis; one that would touch its neighbour is left out."""
    parts, end = [], -math.inf
    for tick, shown in zip(x.ticks, x.labels, strict=True):
        at, half = x.place(tick * x.divisor, place.left, place.right), width_of(shown) / 2
        if at - half > end + 8:
            parts.append(tick_text(max(at, half + 1), y, shown))
            end = at + half
    return f'<g text-anchor="middle">{"".join(parts)}</g>'


def drawing(page: Markup, title: Text, desc: Text, body: str, size: tuple[float, float], more: str = "") -> str:
    """A drawing that says what it shows, also to those who cannot see it."""
    said = page.element("title", title) + page.element("desc", desc)
    # A picture is one thing to a screen reader, and would hide the links in it.
    role = "group" if "<a " in body else "img"
    return f'<svg viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" role="{role}"{more}>{said}{body}</svg>'


def plot(
    page: Markup,
    title: Text,
    series: int,
    body: str,
    place: Frame,
    x: Axis,
    y: Axis,
    width: float = WIDTH,
) -> str:
    """A drawing over two axes, from which a pointer can read values."""
    ends = (axis.shown(end * axis.divisor) for axis in (x, y) for end in (axis.low, axis.high))
    return drawing(page, title, label("chart.desc", str(series), *ends), body, (width, HEIGHT), readable(place, x, y))


def colour(index: int) -> str:
    """The class of a series; past the last colour they begin again, with dashes."""
    return f"s{index % COLOURS + 1}" + (" dash" if index >= COLOURS else "")


def figure(
    page: Markup, title: Text, svg: str, legend: Sequence[tuple[str, Text]] = (), after: str = "", kind: str = ""
) -> str:
    """A drawing with its caption. `legend` is (class of the mark, its name); `after` is markup below the drawing."""
    marks = "".join(page.element("li", name, f' class="{mark}"' if mark else "") for mark, name in legend)
    listed = f'<ul class="legend">{marks}</ul>' if marks else ""
    more = f' class="{kind}"' if kind else ""
    return f"<figure{more}>{page.element('figcaption', title)}{listed}<div>{svg}{after}</div></figure>"


def frame(y: Axis, x: Axis, width: float = WIDTH, height: float = HEIGHT) -> Frame:
    """Room for the tick labels, whatever their length."""
    left = 12 + max((width_of(shown) for shown in y.labels), default=0)
    right = max(10.0, width_of(x.labels[-1]) / 2 + 2 if x.labels else 0)
    return Frame(left, width - right, 26, height - 38)


def grid(page: Markup, place: Frame, x: Axis, y: Axis, x_title: Text, y_title: Text) -> str:
    """Axes with ticks and units. The title of the vertical axis lies on top of it, where it can be read."""
    heights = [y.place(tick * y.divisor, place.bottom, place.top) for tick in y.ticks]
    rules = "".join(f"M{place.left:.0f} {at:.1f}H{place.right:.0f}" for at in heights)
    labels = "".join(tick_text(place.left - 6, at + 4, shown) for at, shown in zip(heights, y.labels, strict=True))
    return (
        f'<path class="grid" d="{rules}"/><g text-anchor="end">{labels}</g>'
        + ticks(place, x, place.bottom + 16)
        + base_line(place)
        + titled(page, 4, 13, y_title, y.unit)
        + titled(page, place.right, place.bottom + 32, x_title, x.unit, "end")
    )


def base_line(place: Frame) -> str:
    return f'<path class="axis" d="M{place.left:.0f} {place.bottom:.0f}H{place.right:.0f}"/>'


def upright_grid(place: Frame, x: Axis) -> str:
    """For rows side by side: rules from top to bottom, and the axis below."""
    at = [x.place(tick * x.divisor, place.left, place.right) for tick in x.ticks]
    rules = "".join(f"M{one:.1f} {place.top:.0f}V{place.bottom:.0f}" for one in at)
    return f'<path class="grid" d="{rules}"/>{base_line(place)}{ticks(place, x, place.bottom + 16)}'


def titled(page: Markup, x: float, y: float, title: Text, unit: str, anchor: str = "") -> str:
    """An axis' name and its unit: the name may change its language, the unit does not."""
    if isinstance(title, str):
        title = fit(title, WIDTH * 0.5)
    unit = fit(unit, WIDTH * 0.35)
    name = page.element("tspan", title) if title else ""
    joint = ", " if name and unit else ""
    more = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{name}{joint}{escape.html(unit)}</text>'


def readable(place: Frame, x: Axis, y: Axis) -> str:
    """What a pointer needs to read values back from paths; see page.js."""

    def one(axis: Axis, start: float, end: float) -> str:
        digits = 12 if axis.dates else 9
        kind = 2 if axis.dates else int(axis.log)
        ends = f"{axis.low:.{digits}g},{axis.high:.{digits}g},{start:.1f},{end:.1f},{kind}"
        return escape.html(f"{ends},{axis.suffix},{axis.unit}")

    return f' data-x="{one(x, place.left, place.right)}" data-y="{one(y, place.bottom, place.top)}"'


def path(
    xs: Sequence[float], ys: Sequence[float | None], place: Frame, x: Axis, y: Axis, *, joined: bool = True
) -> str:
    """`d` of a line through the points, in tenths; a missing value is a gap, a lone point a dot."""
    ax, bx = (_FINE * part for part in x.line(place.left, place.right))
    ay, by = (_FINE * part for part in y.line(place.bottom, place.top))
    low, high = int(_FINE * place.top), int(_FINE * place.bottom)
    log = math.log10
    parts: list[str] = []
    here: tuple[int, int] | None = None
    for value_x, value_y in zip(xs, ys, strict=False):
        if value_y is None or not drawable(value_y) or (y.log and value_y <= 0) or (x.log and value_x <= 0):
            here = None
            continue
        at_x = round(ax * (log(value_x) if x.log else value_x) + bx)
        at_y = min(high, max(low, round(ay * (log(value_y) if y.log else value_y) + by)))
        parts.append(f"M{at_x} {at_y}l0 0" if here is None else f" {at_x - here[0]} {at_y - here[1]}")
        here = (at_x, at_y) if joined else None
    # A minus sign parts two numbers as well as a space does.
    return "".join(parts).replace(" -", "-")


def stairs(edges: Sequence[float], heights: Sequence[float], place: Frame, x: Axis, y: Axis) -> str:
    """`d` of an outline that stands on the axis, in tenths: up, along, up or down, along … and down."""
    xs = [round(_FINE * x.place(edge, place.left, place.right)) for edge in edges]
    floor = round(_FINE * place.bottom)
    ys = [floor, *(round(_FINE * y.place(height, place.bottom, place.top)) for height in heights), floor]
    turns = [f"v{ys[1] - ys[0]}"]
    for index in range(len(heights)):
        turns.append(f"h{xs[index + 1] - xs[index]}v{ys[index + 2] - ys[index + 1]}")
    return f"M{xs[0]} {floor}{''.join(turns)}"


def fine(body: str) -> str:
    return f'<g transform="scale({1 / _FINE})">{body}</g>'
