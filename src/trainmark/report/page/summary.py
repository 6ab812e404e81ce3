"""What a reader sees first: a few totals, a row per case, and the speeds side by side."""

from __future__ import annotations

from trainmark.report import figures, numbers
from trainmark.report.charts import intervals
from trainmark.report.charts.figure import data_cell, figure
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape, heard, words
from trainmark.report.page.badges import badge, outcome_badges, state_badge, word_badge
from trainmark.report.records import CaseReport, Report
from trainmark.spec.states import JobState

_HEAD = ("case", "state", "runs", "m.throughput", "outcome", "fraction", "memory", "band", "disturbed")
_FIGURES = frozenset(("runs", "m.throughput", "fraction", "memory"))
# A drawing with more rows scrolls in its own box.
_MOST_ROWS = 30


def section(speak: Speaker, report: Report) -> str:
    head = element("h2", speak("summary"))
    if not report.cases:
        return f'<section id="summary">{head}{element("p", speak("no_cases"), " class=card")}</section>'
    top = "".join(element("th", speak(key), f' scope="col"{_side(key)}') for key in _HEAD)
    rows = "".join(_row(speak, case, index) for index, case in enumerate(report.cases))
    shown = f'<table class="cards"><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>'
    return (
        f'<section id="summary">{head}{_totals(speak, report)}'
        f'<div class="card flush"><div class="scroll">{shown}</div></div></section>'
    )


def _totals(speak: Speaker, report: Report) -> str:
    cases, rounds = report.cases, sum(case.rounds for case in report.cases)
    good = sum(case.state is JobState.SUCCEEDED for case in cases)
    counted = sum(case.counted for case in cases)
    disturbed = sum(len(figures.disturbed(case)) for case in cases)
    tiles = [
        ("cases_succeeded", good, len(cases), "good" if good == len(cases) else "bad"),
        ("rounds_counted", counted, rounds, ""),
        ("rounds_disturbed", disturbed, counted, "warn" if disturbed else ""),
    ]
    return f'<dl class="totals">{"".join(_total(speak, *tile) for tile in tiles)}</dl>'


def _total(speak: Speaker, key: str, count: int, total: int, kind: str) -> str:
    figure = element("dd", speak("of", count, total), f' class="{kind}"' if kind else "")
    return f'<div class="card">{element("dt", speak(key))}{figure}</div>'


def _side(key: str) -> str:
    return ' class="n"' if key in _FIGURES else ""


def _row(speak: Speaker, case: CaseReport, index: int) -> str:
    found = figures.throughput(case)
    fraction = figures.fraction(case)
    shares = escape(numbers.value(fraction))
    if fraction is not None:
        shares += f'<span class="muted">{words(speak.named("short", fraction.name))}</span>'
    memory = escape(numbers.value(figures.memory(case)))
    band, why = figures.band(case, speak)
    disturbed = figures.disturbed(case)
    cells = {
        "state": state_badge(speak, case.state),
        "runs": f"{case.counted}/{case.rounds}",
        "m.throughput": _main(numbers.value(found)) + _under(numbers.interval(found)),
        "outcome": outcome_badges(speak, case) or numbers.NONE,
        "fraction": shares,
        "memory": memory,
        "band": word_badge(band) + _under(why),
        "disturbed": badge(Label(figures.disturbed_text(case)), "warn") if disturbed else numbers.NONE,
    }
    link = f'<th scope="row"><a href="#case-{index + 1}">{_breakable(case.case)}</a></th>'
    return f"<tr>{link}{''.join(data_cell(speak(key), cells[key], key in _FIGURES) for key in _HEAD[1:])}</tr>"


def _main(text: str) -> str:
    return text if text == numbers.NONE else f'<span class="main">{escape(text)}</span>'


def _under(label: Label | str) -> str:
    """A second line, less loud."""
    text = label if isinstance(label, str) else label.text
    return f'<span class="muted">{words(label)}</span>' if text not in ("", numbers.NONE) else ""


def _breakable(case: str) -> str:
    """A long id may break after its separators."""
    return escape(case).replace(":", ":<wbr>").replace("@", "@<wbr>").replace(",", ",<wbr>")


def overview(speak: Speaker, report: Report) -> str:
    """A drawing per unit: only figures of one unit share an axis."""
    units: dict[str, list[intervals.Row]] = {}
    for index, case in enumerate(report.cases):
        row = _chart_row(case, index)
        if row is not None:
            units.setdefault(row[0], []).append(row[1])
    head = element("h2", speak("throughput_by_case"))
    if not report.cases:
        return ""
    if not units:
        return f"<section>{head}{element('p', speak('no_throughput'), ' class=card')}</section>"
    return f"<section>{head}{''.join(_drawing(speak, unit, rows) for unit, rows in units.items())}</section>"


def _chart_row(case: CaseReport, index: int) -> tuple[str, intervals.Row] | None:
    found = figures.throughput(case)
    if found is None or not found.inputs:
        return None
    row = intervals.Row(
        name=case.case,
        points=found.inputs,
        mean=found.value,
        low=found.ci_low,
        high=found.ci_high,
        link=f"case-{index + 1}",
        note=numbers.value(found),
        result=found.value is not None,
    )
    return found.unit, row


def _drawing(speak: Speaker, unit: str, rows: list[intervals.Row]) -> str:
    title = speak("m.throughput")
    both = "".join(
        f'<div class="{kind}">{intervals.svg(speak, title, rows, unit, title, wide=kind == "wide")}</div>'
        for kind in ("wide", "narrow")
    )
    if len(rows) > _MOST_ROWS:
        both = f'<div class="tall" tabindex="0" role="group"{heard(speak("throughput_by_case"))}>{both}</div>'
    marks: list[tuple[str, Label | str]] = []
    if any(row.result for row in rows):
        marks.append(("mark dot", speak("chart.legend_run")))
    if any(row.low is not None for row in rows):
        marks.append(("mark span", speak("chart.legend_interval")))
    if not all(row.result for row in rows):
        marks.append(("mark dot loose", speak("chart.legend_loose")))
    return figure(unit, both, marks, kind="card full")
