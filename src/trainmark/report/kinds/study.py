"""Scaling studies: for each series its speed-up over processes, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.i18n.texts import Joined, Text, label
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.charts import records as charts
from trainmark.report.make import dlperf
from trainmark.report.records import StudyCell, StudyReport

_HEAD = ("study.shape", "batch", "runs", "average", "median", "interval", "speedup", "interval", "efficiency")
_BAR = 40


def sections(studies: Sequence[StudyReport]) -> list[doc.Block]:
    return [doc.Group([doc.Heading(label("study.title"), shown_in=doc.PAGE), *map(_card, studies)], "scaling")]


def _card(study: StudyReport) -> doc.Group:
    columns = doc.columns(*_HEAD)
    return doc.Group(
        [
            doc.Heading(label(f"study.of.{study.mode}", study.name, study.unit), 3),
            doc.Figures(_charts(study)),
            doc.Table(columns, [_row(cell) for cell in study.cells]),
            doc.Verbatim(_bars(study), shown_in=doc.TEXT),
            doc.Notes(_remarks(study), "small"),
            *_runs(study),
            *_dlperf(study),
        ],
        style="card",
    )


def _row(cell: StudyCell) -> list[doc.Inline]:
    return [
        shape(cell),
        numbers.NONE if cell.batch is None else str(cell.batch),
        str(len(cell.speeds)),
        _number(cell.average),
        cell.value or _number(cell.median),
        numbers.span(cell.ci_low, cell.ci_high),
        numbers.NONE if cell.speedup is None else f"{cell.speedup:.2f}",
        _ends(cell.speedup_low, cell.speedup_high),
        numbers.NONE if cell.efficiency is None else f"{100 * cell.efficiency:.1f} %",
    ]


def shape(cell: StudyCell) -> str:
    return f"{cell.nodes}x{cell.procs}"


def _number(value: float | None) -> str:
    return numbers.NONE if value is None else numbers.number(value)


def _ends(low: float | None, high: float | None) -> str:
    return numbers.NONE if low is None or high is None else f"{low:.2f} … {high:.2f}"


def _remarks(study: StudyReport) -> list[Text]:
    """What a reader needs beyond the figures."""
    found: list[Text] = [one for one in (study.reason, study.note) if one]
    # Why the baseline has no speed is said already.
    baseline = study.baseline if study.reason else ""
    return found + [Joined((shape(one), one.note), ": ") for one in study.cells if one.note and shape(one) != baseline]


def _bars(study: StudyReport) -> list[str]:
    """Speed-up as bars; `·` ends where a speed-up without loss would."""
    known = [(one, one.speedup, one.speedup / one.efficiency) for one in study.cells if one.speedup and one.efficiency]
    if not known:
        return []
    full = max(max(speedup, ideal) for _, speedup, ideal in known)
    width = max(len(shape(cell)) for cell, _, _ in known)
    lines = []
    for cell, speedup, ideal in known:
        filled, whole = (round(_BAR * value / full) for value in (speedup, ideal))
        bar = "█" * filled + "·" * max(0, whole - filled)
        lines.append(f"  {shape(cell).ljust(width)}  {bar.ljust(_BAR)}  {speedup:.2f}")
    return lines


def _runs(study: StudyReport) -> list[doc.Block]:
    """The speed of every run, as DLPerf's scripts print them."""
    known = [cell for cell in study.cells if cell.speeds]
    shown = [f"{shape(cell)}: {', '.join(f'{speed:.2f}' for speed in cell.speeds)}" for cell in known]
    return (
        [doc.Heading(label("chart.runs"), 4, shown_in=doc.TEXT), doc.Notes(shown, shown_in=doc.TEXT)] if shown else []
    )


def _dlperf(study: StudyReport) -> list[doc.Block]:
    nodes, _, procs = study.baseline.partition("x")
    table = dlperf.table(dlperf.cells_of(study), f"{nodes}n{procs}g")
    return [
        doc.Paragraph(label("study.dlperf"), shown_in=doc.MARKDOWN),
        doc.Verbatim(table.splitlines(), shown_in=doc.MARKDOWN),
    ]


def _charts(study: StudyReport) -> list[charts.LineChart]:
    """Speed-up and efficiency over processes, beside what they would be without loss; intervals are shaded."""
    known = [cell for cell in study.cells if cell.speedup is not None and cell.efficiency is not None]
    ranks = [float(cell.nodes * cell.procs) for cell in known]
    if len(set(ranks)) < 2:
        return []
    base = next((cell for cell in known if shape(cell) == study.baseline), known[0])
    ideal = [rank / (base.nodes * base.procs) for rank in ranks]
    return [_chart(known, ranks, "speedup", ideal), _chart(known, ranks, "efficiency", [1.0] * len(ranks))]


def _chart(known: list[StudyCell], ranks: list[float], name: str, ideal: list[float]) -> charts.LineChart:
    values, lows, highs = ([getattr(cell, name + end) for cell in known] for end in ("", "_low", "_high"))
    unit = "fraction" if name == "efficiency" else ""
    band = None
    if any(low is not None for low in lows):
        low, high = (
            [value if edge is None else edge for edge, value in zip(found, values, strict=True)]
            for found in (lows, highs)
        )
        band = charts.Band(
            label("interval"), charts.Curve("low", unit, ranks, low), charts.Curve("high", unit, ranks, high)
        )
    return charts.LineChart(
        label(name),
        lines=[
            charts.Line(label(name), charts.Curve(name, unit, ranks, values)),
            charts.Line(label("study.ideal"), charts.Curve("ideal", unit, ranks, list(ideal))),
        ],
        x_title=label("study.ranks"),
        y_title=label(name),
        band=band,
        zero=True,
    )
