"""Which framework is faster, in a page: the answer, the speeds side by side, and the figures behind them."""

from __future__ import annotations

from collections.abc import Mapping

from trainmark.report import contest_text, figures, numbers
from trainmark.report.charts import intervals
from trainmark.report.charts.figure import data_cell, figure
from trainmark.report.i18n.speaker import Speaker
from trainmark.report.markup import element, escape, words
from trainmark.report.page.badges import badge, word_badge
from trainmark.report.records import CaseReport, Contest, Report, Rival

_KINDS = {"fastest": "good", "slower": "calm", "equivalent": "good", "inconclusive": "warn", "none": "warn"}


def section(speak: Speaker, report: Report) -> str:
    if not report.contests:
        return ""
    cases, places = contest_text.cases_of(report), {case.case: n for n, case in enumerate(report.cases, 1)}
    shown = "".join(_contest(speak, one, cases, places) for one in report.contests)
    return f'<section id="contests">{element("h2", speak("contest.title"))}{shown}</section>'


def _contest(speak: Speaker, found: Contest, cases: Mapping[str, CaseReport], places: Mapping[str, int]) -> str:
    head = "".join(
        element("th", speak(key), f' scope="col"{_side(index)}') for index, key in enumerate(contest_text.HEAD)
    )
    rows = "".join(_row(speak, rival, found, cases[rival.case], places[rival.case]) for rival in found.rivals)
    remarks = "".join(element("p", remark, " class=small") for remark in contest_text.remarks(found, speak))
    return (
        f'<div class="card">{element("h3", found.question)}'
        f"{element('p', contest_text.answer(found, speak), ' class=answer')}{_chart(speak, found, cases, places)}"
        f'<div class="scroll"><table class="cards"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"{remarks}</div>"
    )


def _side(index: int) -> str:
    return ' class="n"' if index in contest_text.FIGURES else ""


def _row(speak: Speaker, rival: Rival, found: Contest, case: CaseReport, place: int) -> str:
    _, *cells = contest_text.row(rival, found, case, speak)
    shown = [words(cell) for cell in cells]
    shown[-2] = word_badge(figures.band(case, speak)[0])
    shown[-1] = badge(contest_text.word(rival, found, speak), _KINDS.get(rival.word, "calm"))
    data = "".join(
        data_cell(speak(key), cell, index in contest_text.FIGURES)
        for index, (key, cell) in enumerate(zip(contest_text.HEAD[1:], shown, strict=True), 1)
    )
    return f'<tr><th scope="row"><a href="#case-{place}">{escape(rival.framework)}</a></th>{data}</tr>'


def _chart(speak: Speaker, found: Contest, cases: Mapping[str, CaseReport], places: Mapping[str, int]) -> str:
    rows = []
    for rival in found.rivals:
        speed = figures.throughput(cases[rival.case])
        if speed is not None and speed.inputs:
            rows.append(
                intervals.Row(
                    name=rival.framework,
                    points=speed.inputs,
                    mean=speed.value,
                    low=speed.ci_low,
                    high=speed.ci_high,
                    link=f"case-{places[rival.case]}",
                    note=numbers.value(speed),
                    result=speed.value is not None,
                )
            )
    if not rows:
        return ""
    title = speak("m.throughput")
    both = "".join(
        f'<div class="{kind}">{intervals.svg(speak, title, rows, found.unit, title, wide=kind == "wide")}</div>'
        for kind in ("wide", "narrow")
    )
    return figure(found.unit, both, kind="full")
