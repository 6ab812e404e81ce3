"""One case of a run: its charts, its rounds, and every measurement with how it was made."""

from __future__ import annotations

from collections.abc import Iterator

from trainmark.i18n.catalogues import LABELS
from trainmark.i18n.texts import Text, joined, label, named
from trainmark.report import document as doc
from trainmark.report import figures, numbers, remarks
from trainmark.report.charts import records as charts
from trainmark.report.records import CaseReport, RunReport
from trainmark.report.trained import describe
from trainmark.score.records import Measurement

_PERCENTILES = ("p50", "p90", "p99", "max")
_MOST_INPUTS = 50
# A chart has room for the means of so few rounds.
_MOST_LEVELS = 4
# More of them are folded away.
_FEW_ROUNDS = 10
_SLIVER = 4
# In the order of their colours.
_PHASES = ("train", "evaluate", "checkpoint", "init", "other", "data")


def case_details(case: CaseReport, anchor: str, most: int, opened: bool) -> doc.Details:
    """`most`: points of a curve."""
    found = figures.throughput(case)
    return doc.Details(
        summary=case.case,
        blocks=[
            _facts(case),
            doc.Notes(remarks.of_case(case)),
            doc.Figures(_charts(case, most)),
            *_rounds(case),
            *_measurements(case),
        ],
        anchor=anchor,
        open=opened,
        style="case",
        marks=[figures.state_badge(case.state), *remarks.worst(case.flags)],
        figure=doc.Strong(numbers.value(found)) if found is not None and found.value is not None else "",
    )


def _facts(case: CaseReport) -> doc.Facts:
    band = doc.Several((figures.band_badge(case), figures.band_reason(case)), " ")
    facts: list[tuple[str, doc.Inline]] = [
        ("trained", describe(case)),
        ("rounds", f"{case.counted}/{case.rounds}"),
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
    rows = [charts.Row(_round(run), [run.throughput or 0.0], note=_note(run, found)) for run in runs]
    if found.value is not None and found.ci_low is not None:
        rows.insert(0, charts.Row(label("chart.legend_interval"), [], found.value, found.ci_low, found.ci_high))
    flagged = any(_flagged(run) for run in runs)
    yield charts.RowChart(
        label("chart.runs"),
        rows=rows,
        unit=found.unit,
        x_title=label("m.throughput"),
        legend=[("flag", label("chart.flag"))] if flagged else [],
    )


def _note(run: RunReport, found: Measurement) -> str:
    return numbers.quantity(run.throughput, found.unit) + (" ⚑" if _flagged(run) else "")


def _flagged(run: RunReport) -> bool:
    return bool(run.flags or run.changed)


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
    """The band judges means over stretches of the first steps, so these are drawn: boxes, and a bar for each mean."""
    lines, levels, band = list[charts.Line](), list[charts.Line](), None
    for run in case.runs:
        if run.series is None or run.series.loss is None:
            continue
        if run.series.band_means is not None:
            levels.append(charts.Line("", run.series.band_means, level=True, tone=len(lines)))
        lines.append(charts.Line(_round(run), run.series.loss))
        low, high = run.series.band_low, run.series.band_high
        if low is not None and high is not None:
            name = label("chart.band", f"{low.x[0]:,.0f}", f"{low.x[-1]:,.0f}")
            band = charts.Band(name, low, high, boxes=True)
    judged = band.low.x[-1] if band is not None else 0.0
    last = max((line.curve.x[-1] for line in lines), default=0.0)
    return charts.LineChart(
        label("chart.loss"),
        lines=[*lines, *levels] if len(lines) <= _MOST_LEVELS else lines,
        x_title=label("axis.step"),
        y_title=label("axis.loss"),
        y_unit="",
        band=band,
        most=most,
        # A run that went on for long would leave the judged steps a sliver.
        x_kind="log" if 0 < _SLIVER * judged < last else "",
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
    table = doc.Table(columns, [_round_row(run, found) for run in case.runs])
    return [doc.Details(label("rounds_n", str(len(case.runs))), [table], open=len(case.runs) <= _FEW_ROUNDS)]


def _round_row(run: RunReport, found: Measurement | None) -> list[doc.Inline]:
    steps = numbers.NONE if run.window_first is None else f"{run.window_first:,}–{run.window_last or 0:,}"
    said: list[Text] = [flag.reason for flag in run.flags if flag.reason.code != "disturbed"]
    said += [*run.changed, *run.disturbed, run.reason]
    said += [label("attempt_n", str(run.attempt))] if run.attempt > 1 else []
    # A case without a measured throughput, as one that computed wrongly, has no speeds at all.
    unit = found.unit if found else ""
    speeds = [numbers.quantity(value if found else None, unit) for value in (run.throughput, run.sustained)]
    return [
        _round(run),
        ", ".join(run.hosts) or numbers.NONE,
        named("outcome", run.outcome) if run.outcome else numbers.NONE,
        steps,
        *speeds,
        *(numbers.quantity(run.step_time.get(name), "s") for name in _PERCENTILES),
        numbers.quantity(run.end_to_end, "s"),
        joined(*said) if any(said) else numbers.NONE,
    ]


def _measurements(case: CaseReport) -> list[doc.Block]:
    if not case.measurements:
        return []
    rows: list[list[doc.Inline]] = [
        [doc.Fold(named("m", one.name), _how(one)), numbers.value(one), numbers.interval(one), str(one.n)]
        for one in case.measurements.values()
    ]
    columns = doc.columns("measurement", "value", "interval", "runs")
    table = doc.Table(columns, rows, style="how")
    return [doc.Details(label("measurements_n", str(len(rows))), [table])]


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
