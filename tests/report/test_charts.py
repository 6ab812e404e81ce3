"""Charts and numbers: readable axes, honest gaps, drawings that no data can break."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report import samples
from trainmark.i18n.catalogues import LABELS
from trainmark.i18n.speaker import LANGUAGES, say
from trainmark.i18n.texts import label
from trainmark.report import numbers
from trainmark.report.charts import axes, palette, plots, rows
from trainmark.report.charts.axes import thin
from trainmark.report.charts.records import (
    Band,
    Bar,
    BarChart,
    Bins,
    Curve,
    Histogram,
    Line,
    LineChart,
    Row,
    RowChart,
)
from trainmark.report.render.markup import Markup
from trainmark.report.show import show
from trainmark.score.records import Measurement

TITLE = label("chart.loss")


def drawn(*values: float | None, unit: str = "s", **more: object) -> str:
    curve = Curve("x", unit, [float(index) for index in range(len(values))], list(values))
    chart = LineChart(title=TITLE, lines=[Line("", curve)], x_title="step", **more)  # type: ignore[arg-type]
    return plots.line_chart(Markup(), chart)


def texts(markup: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(closed(markup)).iter("text")]


def closed(markup: str) -> str:
    """Attributes without quotes are HTML; everything else is XML too."""
    return re.sub(r" data-t=(\d+)", r' data-t="\1"', markup)


def test_numbers_as_people_write_them() -> None:
    assert [numbers.number(value) for value in (0, 24.613, 6120.4, 1234567.0, -3.5)] == [
        "0", "24.61", "6,120", "1,234,567", "-3.5"]  # fmt: skip
    assert numbers.quantity(0.0123, "s") == "12.3 ms" and numbers.quantity(7200, "s") == "2 h"
    assert numbers.quantity(6.4e9, "bytes") == "5.96 GiB" and numbers.quantity(0.412, "fraction") == "41.2 %"
    assert numbers.quantity(3.12e14, "FLOP/s") == "312 TFLOP/s"
    assert numbers.quantity(None, "s") == "–" and numbers.quantity(math.nan, "s") == "NaN"
    alike = Measurement("throughput", 228.58, "samples/s", 3, 228.551, 228.615)
    assert numbers.interval(alike) == "228.551 … 228.615 (±0.01 %)"
    assert numbers.moment(1794786358.0) == "2026-11-15 23:45 UTC" and numbers.moment(1e30) == "–"


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20), st.booleans())
def test_every_axis_holds_its_values_at_ticks_of_1_2_5(values: list[float], log: bool) -> None:
    axis = axes.make(values, "", log=log)
    slack = 1e-6 * max(1e-300, axis.high - axis.low)
    assert all(axis.low - slack <= value / axis.divisor <= axis.high + slack for value in values)
    assert 1 < len(axis.ticks) == len(axis.labels) <= 9
    assert len(set(axis.labels)) == len(axis.labels)
    step = axis.ticks[1] - axis.ticks[0]
    if not axis.log:
        assert f"{step:.0e}"[0] in "125"


def test_axes_carry_units_and_prefixes() -> None:
    assert "ms" in texts(drawn(0.011, 0.012, 0.0133))[-2]
    assert texts(drawn(2.1e5, 8e5, unit="images/s"))[0].endswith("k")
    assert "GiB" in "".join(texts(drawn(3e9, 5e9, unit="bytes")))


def test_unknown_is_a_gap_and_never_zero() -> None:
    d = re.search(r'class="line s1" d="([^"]*)"', drawn(1.0, 1.1, None, 1.2, 1.1))
    assert d is not None and d[1].count("M") == 2
    assert drawn(None, None) == "" and drawn() == "" and drawn(math.nan) == ""


def test_thinning_keeps_peaks_and_gaps() -> None:
    ys: list[float | None] = [1.0] * 5000
    ys[1234], ys[4000] = 99.0, -5.0
    ys[2000:2100] = [None] * 100
    xs, thinned = thin([float(index) for index in range(5000)], ys, 400)
    assert len(xs) == len(thinned) <= 400
    assert {99.0, -5.0, None} <= set(thinned)
    assert xs[thinned.index(99.0)] == 1234.0 and list(xs) == sorted(xs)


def test_warm_up_does_not_flatten_the_window() -> None:
    values = [9.0] * 5 + [0.010, 0.011] * 50
    shown = drawn(*values, window=(6.0, 104.0))
    assert "ms" in "".join(texts(shown)) and say(label("chart.cut")) in shown


values = st.floats(allow_nan=True, allow_infinity=True) | st.none()


@settings(max_examples=60)
@given(st.lists(values, max_size=40), st.text(max_size=20))
def test_drawings_are_well_formed_whatever_the_data(ys: list[float | None], name: str) -> None:
    curve = Curve(name, name, [float(index) for index in range(len(ys))], ys)
    points = axes.known(ys)
    page = Markup()
    bars = [Bar(label("round"), {name: abs(points[0])})] if points else []
    parts = [
        plots.line_chart(
            page,
            LineChart(
                title=TITLE,
                lines=[Line(name, curve)],
                x_title=name,
                window=(1.0, 3.0),
                band=Band(name, curve, curve),
            ),
        ),
        plots.histogram(
            page,
            Histogram(title=TITLE, bins=[Bins(name, [0.0, 1.0, 2.0], [3, 0])], unit=name, x_title=TITLE, y_title=TITLE),
        ),
        rows.bar_chart(page, BarChart(title=TITLE, bars=bars, unit="s", x_title=TITLE, names={}, known=())),
    ]
    if points:
        row = Row(name, points, points[0], min(points), max(points), "case-1", name)
        for wide in (True, False):
            parts.append(rows.row_chart(page, RowChart(title=TITLE, rows=[row], unit=name, x_title=TITLE, wide=wide)))
    for part in filter(None, parts):
        root = ElementTree.fromstring(closed(part))
        for svg in root.iter("svg"):
            assert (
                svg.get("role") in ("img", "group") and svg.find("title") is not None and svg.find("desc") is not None
            )
        assert "nan" not in " ".join(node.get("d", "") for node in root.iter("path"))


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_colours_can_be_read(theme: dict[str, str]) -> None:
    text = [(ink, ground) for ink in ("ink", "muted", "link") for ground in ("bg", "card")]
    text += [(name, f"{name}-bg") for name in ("good", "bad", "warn", "calm")] + [("ink", "calm-bg")]
    text += [(name, "card") for name in ("good", "bad", "warn")] + [("muted", "window"), ("muted", "band")]
    for ink, ground in text:
        assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
    for series in ("s1", "s2", "s3", "s4", "s5", "s6", "focus"):
        for ground in ("card", "window", "band"):
            assert contrast(theme[series], theme[ground]) >= 3.0, (series, ground)
    assert palette.LIGHT.keys() == palette.DARK.keys()


def test_both_languages_say_everything() -> None:
    for key, said in LABELS.items():
        assert len(said) == len(LANGUAGES) and all(said), key
        assert len({tuple(sorted(re.findall(r"\{\d\}", text))) for text in said}) == 1, key
    assert say(label("use", "{1}", "{0}"), "zh") == "{0}，第 {1} 轮"


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_samples_show_in_both_languages(language: str) -> None:
    for make in samples.PAGES.values():
        for kind in ("text", "md", "html"):
            assert show(make(), kind, language).endswith("\n")
