"""One case: its drawings, its rounds, and every measurement with how it was made."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import figures, numbers
from trainmark.report.charts import histogram, intervals, lines, stacked
from trainmark.report.charts.figure import data_cell, figure, table
from trainmark.report.charts.lines import Band, Line
from trainmark.report.i18n.formulas import formula
from trainmark.report.i18n.labels import LABELS
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape, words
from trainmark.report.page.badges import outcome_badges, state_badge, word_badge
from trainmark.report.records import CaseReport, RunReport
from trainmark.score.figures.measurement import Measurement

_ROUND_HEAD = ("round", "hosts", "outcome", "window_steps", "m.throughput", "sustained")
_PERCENTILES = ("p50", "p90", "p99", "max")
_MOST_INPUTS = 50
# In the order of their colours.
_PHASES = ("train", "evaluate", "checkpoint", "init", "other", "data")


def case_section(speak: Speaker, case: CaseReport, index: int, most: int, opened: bool) -> str:
    found = figures.throughput(case)
    marks = outcome_badges(speak, case)
    speed = f'<span class="main">{escape(numbers.value(found))}</span>' if found is not None else ""
    head = f"<h3>{escape(case.case)}</h3><span class=marks>{state_badge(speak, case.state)} {marks}</span>{speed}"
    drawings = _drawings(speak, case, most)
    shown = f'<div class="figures">{drawings}</div>' if drawings else ""
    return (
        f'<details class="card case" id="case-{index + 1}"{" open" if opened else ""}><summary>{head}</summary>'
        f"{_facts(speak, case)}{_remarks(speak, case)}{shown}"
        f"{_rounds(speak, case)}{_measurements(speak, case)}</details>"
    )


def _facts(speak: Speaker, case: CaseReport) -> str:
    band, why = figures.band(case, speak)
    facts = [
        ("preset", escape(case.preset)),
        ("division", words(speak.named("division", case.division))),
        ("band", f"{word_badge(band)} {words(why)}" if case.band else ""),
        ("variance", words(speak.reason(case.variance_level))),
        ("fingerprint", f"<code>{escape(case.fingerprint)}</code>"),
    ]
    listed = "".join(f"<div>{element('dt', speak(key))}<dd>{value}</dd></div>" for key, value in facts if value)
    return f'<dl class="facts">{listed}</dl>'


def _remarks(speak: Speaker, case: CaseReport) -> str:
    """Disturbances stand beside their rounds."""
    remarks = [remark for remark in figures.remarks(case) if not figures.is_disturbance(remark)]
    items = "".join(element("li", speak.reason(remark)) for remark in remarks)
    return f'<ul class="remarks">{items}</ul>' if items else ""


def _drawings(speak: Speaker, case: CaseReport, most: int) -> str:
    """Each is empty where its data is not there."""
    return "".join(
        (
            _runs(speak, case),
            _step_times(speak, case, most),
            _distribution(speak, case),
            _loss(speak, case, most),
            *_evaluations(speak, case, most),
            *_utilisation(speak, case, most),
            _phases(speak, case),
        )
    )


def _round(speak: Speaker, run: RunReport) -> Label:
    return speak("round_n", run.round)


def _runs(speak: Speaker, case: CaseReport) -> str:
    """The rounds apart: the axis is this case's own, so that their spread can be seen."""
    found = figures.throughput(case)
    runs = [run for run in case.runs if run.throughput is not None]
    if found is None or not runs:
        return ""
    result = found.value is not None
    rows = [
        intervals.Row(_round(speak, run), [run.throughput or 0.0], note=_note(run, found), result=result)
        for run in runs
    ]
    if result and found.ci_low is not None:
        named = speak("chart.legend_interval")
        rows.insert(0, intervals.Row(named, [], found.value, found.ci_low, found.ci_high))
    title = speak("chart.runs")
    svg = intervals.svg(speak, title, rows, found.unit, speak("m.throughput"), wide=False)
    flagged = any(run.disturbed or run.outlier for run in runs)
    return figure(title, svg, [("flag", speak("chart.flag"))] if flagged else [])


def _note(run: RunReport, found: Measurement) -> str:
    return numbers.quantity(run.throughput, found.unit) + (" ⚑" if run.disturbed or run.outlier else "")


def _step_times(speak: Speaker, case: CaseReport, most: int) -> str:
    shown = [run for run in case.runs if run.series is not None and run.series.step_time is not None]
    drawn = [Line(_round(speak, run), curve) for run in shown if (curve := run.series and run.series.step_time)]
    first = [run.window_first for run in shown if run.window_first is not None]
    last = [run.window_last for run in shown if run.window_last is not None]
    # Rounds have windows of their own; what is shaded belongs to all of them.
    window = (float(max(first)), float(min(last))) if first and last and max(first) < min(last) else None
    title = speak("chart.step_time")
    return lines.chart(speak, title, drawn, x_title=speak("axis.step"), y_title=title, window=window, most=most)


def _distribution(speak: Speaker, case: CaseReport) -> str:
    bins = [
        histogram.Bins(_round(speak, run), run.histogram_edges, run.histogram_counts)
        for run in case.runs
        if run.histogram_counts
    ]
    title = speak("chart.histogram")
    return histogram.chart(speak, title, bins, "s", speak("chart.step_time"), speak("axis.steps"))


def _loss(speak: Speaker, case: CaseReport, most: int) -> str:
    drawn, band = [], None
    for run in case.runs:
        if run.series is None or run.series.loss is None:
            continue
        drawn.append(Line(_round(speak, run), run.series.loss))
        if run.series.band_low is not None and run.series.band_high is not None:
            band = Band(run.series.band_low, run.series.band_high)
    title, step = speak("chart.loss"), speak("axis.step")
    return lines.chart(speak, title, drawn, x_title=step, y_title=speak("axis.loss"), y_unit="", band=band, most=most)


def _evaluations(speak: Speaker, case: CaseReport, most: int) -> list[str]:
    """A drawing per figure that evaluations gave."""
    by_name: dict[str, list[Line]] = {}
    for run in case.runs:
        for curve in run.series.evaluations if run.series is not None else ():
            by_name.setdefault(curve.name, []).append(Line(_round(speak, run), curve))
    # A figure without a unit of its own has its name for one; once is enough.
    return [
        lines.chart(
            speak,
            speak("chart.evaluation", name),
            drawn,
            x_title=speak("axis.step"),
            y_title=name,
            y_unit="" if drawn[0].curve.unit == name else None,
            most=most,
        )
        for name, drawn in by_name.items()
    ]


def _utilisation(speak: Speaker, case: CaseReport, most: int) -> list[str]:
    """Of the round in the middle, a drawing for each thing sampled: all rounds at once could not be read."""
    runs = [(run, run.series.utilisation) for run in case.runs if run.series is not None and run.series.utilisation]
    if not runs:
        return []
    middle, curves = sorted(runs, key=lambda one: one[0].throughput or 0.0)[len(runs) // 2]
    by_name: dict[str, list[Line]] = {}
    for curve in curves:
        host, _, name = curve.name.rpartition(" ")
        by_name.setdefault(name, []).append(Line(host, curve))
    return [
        lines.chart(
            speak,
            speak(f"use.{name}", middle.round) if f"use.{name}" in LABELS else speak("use", middle.round, name),
            drawn,
            x_title=speak("axis.time"),
            x_unit="s",
            zero=True,
            most=most,
        )
        for name, drawn in by_name.items()
    ]


def _phases(speak: Speaker, case: CaseReport) -> str:
    bars = [stacked.Bar(_round(speak, run), run.phases) for run in case.runs if run.phases]
    return stacked.chart(speak, speak("chart.phases"), bars, "s", speak("axis.seconds"), "phase", _PHASES)


def _rounds(speak: Speaker, case: CaseReport) -> str:
    if not case.runs:
        return ""
    found = figures.throughput(case)
    head: list[Label | str] = [*(speak(key) for key in _ROUND_HEAD), *_PERCENTILES, speak("end_to_end"), speak("notes")]
    rows = [_round_row(speak, run, found) for run in case.runs]
    plain = (0, 1, 2, len(head) - 1)
    return element("h4", speak("rounds")) + table(head, rows, plain=plain)


def _round_row(speak: Speaker, run: RunReport, found: Measurement | None) -> Sequence[Label | str]:
    steps = numbers.NONE if run.window_first is None else f"{run.window_first:,}–{run.window_last or 0:,}"
    # A case without a measured throughput, as one that computed wrongly, has no speeds at all.
    speeds = (run.throughput, run.sustained)
    remarks = [speak.reason(one) for one in (*run.disturbed, run.reason) if one]
    if run.outlier:
        remarks.append(speak("outlier"))
    if run.attempt > 1:
        remarks.append(speak("attempt_n", run.attempt))
    return [
        _round(speak, run),
        ", ".join(run.hosts) or numbers.NONE,
        speak.named("outcome", run.outcome) if run.outcome else numbers.NONE,
        steps,
        *(_speed(value if found else None, found.unit if found else "", run) for value in speeds),
        *(numbers.quantity(run.step_time.get(name), "s") for name in _PERCENTILES),
        numbers.quantity(run.end_to_end, "s"),
        speak.joined(remarks or [Label(numbers.NONE)]),
    ]


def _speed(value: float | None, unit: str, run: RunReport) -> str:
    """In brackets when it was seen but is no result."""
    text = numbers.quantity(value, unit)
    return text if value is None or run.outcome in ("steady", "fixed") else f"({text})"


def _measurements(speak: Speaker, case: CaseReport) -> str:
    if not case.measurements:
        return ""
    keys = ("measurement", "value", "interval", "runs")
    top = "".join(
        element("th", speak(key), f' scope="col"{" class=n" if key != "measurement" else ""}') for key in keys
    )
    rows = "".join(_measurement(speak, found) for found in case.measurements.values())
    shown = f'<table class="cards how"><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>'
    return f'{element("h4", speak("measurements"))}<div class="scroll">{shown}</div>'


def _measurement(speak: Speaker, found: Measurement) -> str:
    shown = {"value": numbers.value(found), "interval": numbers.interval(found), "runs": str(found.n)}
    cells = "".join(data_cell(speak(key), escape(value), True) for key, value in shown.items())
    name = f"<summary>{words(speak.named('m', found.name))}</summary>"
    return f'<tr><th scope="row"><details>{name}{_how(speak, found)}</details></th>{cells}</tr>'


def _how(speak: Speaker, found: Measurement) -> str:
    """Formula, method and inputs: enough to do it again."""
    inputs = ", ".join(numbers.number(value) for value in found.inputs[:_MOST_INPUTS])
    if len(found.inputs) > _MOST_INPUTS:
        inputs += f" … ({len(found.inputs)})"
    facts = [
        ("formula", formula(speak, found)),
        ("method", speak.reason(found.method)),
        ("inputs", Label(f"{inputs} {found.unit}" if inputs else "")),
        ("reason", speak.reason(found.reason)),
        ("scorer", Label(str(found.scorer))),
        ("seed", Label("" if found.seed is None else str(found.seed))),
    ]
    listed = "".join(
        f"<div>{element('dt', speak(key))}{element('dd', value)}</div>" for key, value in facts if value.text
    )
    return f'<dl class="pairs">{listed}</dl>'
