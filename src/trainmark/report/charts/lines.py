"""Lines over steps or time, with a shaded window and a band to stay inside."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report.charts import axes
from trainmark.report.charts.axes import Axis
from trainmark.report.charts.figure import colour, figure
from trainmark.report.charts.svg import HEIGHT, WIDTH, Frame, document, fine, frame, grid, path, readable
from trainmark.report.charts.thin import MOST, thin
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.records import Curve

# More lines than this in one drawing cannot be told apart.
_MOST_LINES = 8
# Up to so many points each is marked.
_FEW = 24


class Line(msgspec.Struct, frozen=True):
    name: Label | str
    curve: Curve


class Band(msgspec.Struct, frozen=True):
    """Between two curves, which need not have their points at the same places."""

    low: Curve
    high: Curve


def chart(
    speak: Speaker,
    title: Label,
    lines: Sequence[Line],
    *,
    x_title: Label | str,
    x_unit: str = "",
    y_title: Label | str = "",
    y_unit: str | None = None,
    window: tuple[float, float] | None = None,
    band: Band | None = None,
    band_name: Label | None = None,
    zero: bool = False,
    most: int = MOST,
) -> str:
    """Nothing when there is nothing to show. `window` is shaded, and the vertical axis is made for what is inside.
    `y_unit` in place of the curves' own."""
    shown = [line for line in lines if any(map(axes.drawable, line.curve.y))][:_MOST_LINES]
    if not shown:
        return ""
    heights = [value for line in shown for value in axes.known(_inside(line.curve, window))]
    log = window is not None and axes.wants_log(heights)
    if band is not None:
        heights += axes.known(band.low.y) + axes.known(band.high.y)
    along = [value for line in shown for value in (line.curve.x[0], line.curve.x[-1])]
    x = axes.make(along, x_unit, tight=True, whole=not x_unit)
    y = axes.make(heights, shown[0].curve.unit if y_unit is None else y_unit, zero=zero, log=log)
    place = frame(y, x)
    body = _window(window, place, x) + grid(place, x, y, x_title, y_title)
    body += fine(
        _band(band, place, x, y, most) + "".join(_line(i, line, place, x, y, most) for i, line in enumerate(shown))
    )
    ends = (axis.shown(end * axis.divisor) for axis in (x, y) for end in (axis.low, axis.high))
    svg = document(title, speak("chart.desc", len(shown), *ends), body, (WIDTH, HEIGHT), readable(place, x, y))
    cut = any(value is not None and value > y.high * y.divisor for line in shown for value in line.curve.y)
    remarks = [speak(key) for key, holds in (("chart.log", log), ("chart.cut", cut)) if holds]
    shaded = None if band is None else band_name or speak("chart.band")
    return figure(title, svg, [*_legend(speak, lines, shown, window, shaded), *(("", remark) for remark in remarks)])


def _inside(curve: Curve, window: tuple[float, float] | None) -> Sequence[float | None]:
    """Without a window, or without anything in it, all."""
    if window is None:
        return curve.y
    return [value for at, value in zip(curve.x, curve.y, strict=False) if window[0] <= at <= window[1]] or curve.y


def _legend(
    speak: Speaker, lines: Sequence[Line], shown: Sequence[Line], window: object, band: Label | None
) -> list[tuple[str, Label | str]]:
    marks: list[tuple[str, Label | str]] = []
    marks += [(f"line {colour(index)}", line.name) for index, line in enumerate(shown) if line.name]
    if window is not None:
        marks.append(("area window", speak("chart.window")))
    if band is not None:
        marks.append(("area band", band))
    if len(lines) > len(shown) >= _MOST_LINES:
        marks.append(("", speak("more_lines", len(lines) - len(shown))))
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
    low_x, low_y = thin(band.low.x, band.low.y, most // 2)
    high_x, high_y = thin(band.high.x, band.high.y, most // 2)
    inside = [
        [
            (min(x.high, max(x.low, at / x.divisor)) * x.divisor, value)
            for at, value in zip(xs, ys, strict=False)
            if value is not None
        ]
        for xs, ys in ((low_x, low_y), (high_x, high_y))
    ]
    points = inside[0] + inside[1][::-1]
    d = path([at for at, _ in points], [value for _, value in points], place, x, y)
    return f'<path class="band" d="{d}Z"/>'
