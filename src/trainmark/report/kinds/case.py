"""One case of a run: its charts, its rounds, and every measurement with how it was made."""

from __future__ import annotations

from collections.abc import Iterator

from trainmark.i18n.catalogues import LABELS
from trainmark.i18n.texts import Text, joined, label, named
from trainmark.report import document as doc
from trainmark.report import figures, numbers
from trainmark.report.charts import records as charts
from trainmark.report.records import CaseReport, RunReport
from trainmark.score.records import Measurement

_PERCENTILES = ("p50", "p90", "p99", "max")
_MOST_INPUTS = 50
# In the order of their colours.
_PHASES = ("train", "evaluate", "checkpoint", "init", "other", "data")


def case_details(case: CaseReport, anchor: str, most: int, opened: bool) -> doc.Details:
    """`most`: points of a curve."""
    found = figures.throughput(case)
    return doc.Details(
        summary=case.case,
        blocks=[
            _facts(case),
            doc.Notes(figures.remarks(case)),
            doc.Figures(_charts(case, most)),
            *_rounds(case),
            *_measurements(case),
        ],
        anchor=anchor,
        open=opened,
        style="case",
        marks=[figures.state_badge(case.state), *figures.outcome_badges(case)],
        figure=doc.Strong(numbers.value(found)) if found is not None else "",
    )


def _facts(case: CaseReport) -> doc.Facts:
    band = doc.Several((figures.band_badge(case), figures.band_reason(case)), " ")
    facts: list[tuple[str, doc.Inline]] = [
        ("preset", case.preset),
        ("division", named("division", case.division)),
        ("band", band if case.band else ""),
        ("variance", case.variance_level),
        ("fingerprint", doc.Code(case.fingerprint)),
    ]
    return doc.Facts([(label(key), value) for key, value in facts if value])


def _charts(case: CaseReport, most: int) -> list[charts.Chart]:
    """Each shows nothing where its data is not there."""
    return [
        *_runs(case),
        _step_times(case, most),
        charts.Histogram(
            label("chart.histogram"),
            bins=[charts.Bins(_round(run), run.histogram_edges, run.histogram_counts) for run in case.runs],
            unit="s",
            x_title=label("chart.step_time"),
            y_title=label("axis.steps"),
        ),
        _loss(case, most),
        *_evaluations(case, most),
        *_utilisation(case, most),
        charts.BarChart(
            label("chart.phases"),
            bars=[charts.Bar(_round(run), run.phases) for run in case.runs],
            unit="s",
            x_title=label("axis.seconds"),
            names={name: named("phase", name) for run in case.runs for name in run.phases},
            known=_PHASES,
        ),
    ]


def _round(run: RunReport) -> Text:
    return label("round_n", str(run.round))


def _runs(case: CaseReport) -> Iterator[charts.Chart]:
    """The rounds apart: the axis is this case's own, so that their spread can be seen."""
    found = figures.throughput(case)
    runs = [run for run in case.runs if run.throughput is not None]
    if found is None or not runs:
        return
    result = found.value is not None
    rows = [charts.Row(_round(run), [run.throughput or 0.0], note=_note(run, found), result=result) for run in runs]
    if result and found.ci_low is not None:
        rows.insert(0, charts.Row(label("chart.legend_interval"), [], found.value, found.ci_low, found.ci_high))
    flagged = any(run.disturbed or run.outlier for run in runs)
    yield charts.RowChart(
        label("chart.runs"),
        rows=rows,
        unit=found.unit,
        x_title=label("m.throughput"),
        legend=[("flag", label("chart.flag"))] if flagged else [],
    )


def _note(run: RunReport, found: Measurement) -> str:
    return numbers.quantity(run.throughput, found.unit) + (" ⚑" if run.disturbed or run.outlier else "")


def _step_times(case: CaseReport, most: int) -> charts.LineChart:
    shown = [run for run in case.runs if run.series is not None and run.series.step_time is not None]
    first = [run.window_first for run in shown if run.window_first is not None]
    last = [run.window_last for run in shown if run.window_last is not None]
    return charts.LineChart(
        label("chart.step_time"),
        lines=[charts.Line(_round(run), curve) for run in shown if (curve := run.series and run.series.step_time)],
        x_title=label("axis.step"),
        y_title=label("chart.step_time"),
        # Rounds have windows of their own; what is shaded belongs to all of them.
        window=(float(max(first)), float(min(last))) if first and last and max(first) < min(last) else None,
        most=most,
    )


def _loss(case: CaseReport, most: int) -> charts.LineChart:
    lines, band = [], None
    for run in case.runs:
        if run.series is None or run.series.loss is None:
            continue
        lines.append(charts.Line(_round(run), run.series.loss))
        if run.series.band_low is not None and run.series.band_high is not None:
            band = charts.Band(label("chart.band"), run.series.band_low, run.series.band_high)
    return charts.LineChart(
        label("chart.loss"),
        lines=lines,
        x_title=label("axis.step"),
        y_title=label("axis.loss"),
        y_unit="",
        band=band,
        most=most,
    )


def _evaluations(case: CaseReport, most: int) -> Iterator[charts.Chart]:
    """One per figure that evaluations gave."""
    by_name: dict[str, list[charts.Line]] = {}
    for run in case.runs:
        for curve in run.series.evaluations if run.series is not None else ():
            by_name.setdefault(curve.name, []).append(charts.Line(_round(run), curve))
    for name, lines in by_name.items():
        yield charts.LineChart(
            label("chart.evaluation", name),
            lines=lines,
            x_title=label("axis.step"),
            y_title=name,
            # A figure without a unit of its own has its name for one; once is enough.
            y_unit="" if lines[0].curve.unit == name else None,
            most=most,
        )


def _utilisation(case: CaseReport, most: int) -> Iterator[charts.Chart]:
    """Of the round in the middle, one for each thing sampled: all rounds at once could not be read."""
    runs = [(run, run.series.utilisation) for run in case.runs if run.series is not None and run.series.utilisation]
    if not runs:
        return
    middle, curves = sorted(runs, key=lambda one: one[0].throughput or 0.0)[len(runs) // 2]
    by_name: dict[str, list[charts.Curve]] = {}
    for curve in curves:
        by_name.setdefault(curve.name.rpartition(" ")[2], []).append(curve)
    number = str(middle.round)
    for name, found in by_name.items():
        yield charts.LineChart(
            label(f"use.{name}", number) if f"use.{name}" in LABELS else label("use", number, name),
            lines=[charts.Line(curve.name.rpartition(" ")[0], curve) for curve in found],
            x_title=label("axis.time"),
            x_unit="s",
            zero=True,
            most=most,
        )


def _rounds(case: CaseReport) -> list[doc.Block]:
    if not case.runs:
        return []
    found = figures.throughput(case)
    columns = [
        *doc.columns("round", "hosts", "outcome", "window_steps", "m.throughput", "sustained", text=3),
        *(doc.Column(name) for name in _PERCENTILES),
        *doc.columns("end_to_end", "notes", text=0, after=1),
    ]
    return [doc.Heading(label("rounds"), 4), doc.Table(columns, [_round_row(run, found) for run in case.runs])]


def _round_row(run: RunReport, found: Measurement | None) -> list[doc.Inline]:
    steps = numbers.NONE if run.window_first is None else f"{run.window_first:,}–{run.window_last or 0:,}"
    remarks: list[Text] = [*run.disturbed, run.reason]
    remarks += [label("outlier")] if run.outlier else []
    remarks += [label("attempt_n", str(run.attempt))] if run.attempt > 1 else []
    # A case without a measured throughput, as one that computed wrongly, has no speeds at all.
    unit = found.unit if found else ""
    speeds = [_speed(value if found else None, unit, run) for value in (run.throughput, run.sustained)]
    return [
        _round(run),
        ", ".join(run.hosts) or numbers.NONE,
        named("outcome", run.outcome) if run.outcome else numbers.NONE,
        steps,
        *speeds,
        *(numbers.quantity(run.step_time.get(name), "s") for name in _PERCENTILES),
        numbers.quantity(run.end_to_end, "s"),
        joined(*remarks) if any(remarks) else numbers.NONE,
    ]


def _speed(value: float | None, unit: str, run: RunReport) -> str:
    """In brackets when it was seen but is no result."""
    text = numbers.quantity(value, unit)
    return text if value is None or run.outcome in ("steady", "fixed") else f"({text})"


def _measurements(case: CaseReport) -> list[doc.Block]:
    if not case.measurements:
        return []
    rows: list[list[doc.Inline]] = [
        [doc.Fold(named("m", one.name), _how(one)), numbers.value(one), numbers.interval(one), str(one.n)]
        for one in case.measurements.values()
    ]
    columns = doc.columns("measurement", "value", "interval", "runs")
    return [doc.Heading(label("measurements"), 4), doc.Table(columns, rows, style="how")]


def _how(found: Measurement) -> list[tuple[Text, Text]]:
    """Formula, method and inputs: enough to do it again."""
    inputs = ", ".join(numbers.number(value) for value in found.inputs[:_MOST_INPUTS])
    if len(found.inputs) > _MOST_INPUTS:
        inputs += f" … ({len(found.inputs)})"
    facts: list[tuple[str, Text]] = [
        ("formula", figures.formula(found)),
        ("method", found.method),
        ("inputs", f"{inputs} {found.unit}" if inputs else ""),
        ("reason", found.reason),
        ("scorer", str(found.scorer)),
        ("seed", "" if found.seed is None else str(found.seed)),
    ]
    return [(label(key), value) for key, value in facts if value]
