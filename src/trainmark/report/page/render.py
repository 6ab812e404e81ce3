"""Report → HTML: headline, summary, every case, and what stands around them."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import figures, numbers
from trainmark.report.charts.figure import table
from trainmark.report.charts.thin import MOST
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape, words
from trainmark.report.page import contest, diagnosis, goodput, peaks, study, summary
from trainmark.report.page.badges import state_badge
from trainmark.report.page.case import case_section
from trainmark.report.page.document import switches, wrap
from trainmark.report.records import CaseReport, Report, RunSeries
from trainmark.spec.states import JobState

# Points of all curves together: a page of many cases stays one that can be sent around.
_ALL_POINTS = 240_000
_LEAST_POINTS = 50
# Up to so many cases all sections are open from the start.
_OPEN = 6


def render(report: Report, language: str | None = None) -> str:
    """`language` None: the reader's browser chooses."""
    speak = Speaker(language or "en")
    most = _points(report)
    opened = len(report.cases) <= _OPEN
    sections = "".join(case_section(speak, case, index, most, opened) for index, case in enumerate(report.cases))
    cases = f"<section>{element('h2', speak('cases'))}{sections}</section>" if sections else ""
    parts = (
        summary.section(speak, report),
        _failures(speak, report),
        contest.section(speak, report),
        diagnosis.section(speak, report.diagnoses),
        study.section(speak, report),
        goodput.section(speak, report.goodput),
        summary.overview(speak, report),
        peaks.section(speak, report),
        cases,
        _disturbed(speak, report),
        _warnings(speak, report),
        _environment(speak, report),
    )
    body = (
        f'<div class="page">{_header(speak, report)}<main>{"".join(parts)}</main>'
        f"{element('footer', speak('made_by'))}</div>"
    )
    return wrap(speak, f"{report.suite} · {report.run}", body, forced=language is not None)


def _points(report: Report) -> int:
    curves = sum(_curves(run.series) for case in report.cases for run in case.runs if run.series is not None)
    return min(MOST, max(_LEAST_POINTS, _ALL_POINTS // max(1, curves)))


def _curves(series: RunSeries) -> int:
    single = (series.step_time, series.loss, series.band_low, series.band_high)
    return sum(one is not None for one in single) + len(series.evaluations) + len(series.utilisation)


def _header(speak: Speaker, report: Report) -> str:
    facts: list[tuple[str, str]] = [
        ("run", f"<code>{escape(report.run)}</code>"),
        ("machine", words(figures.machine(report, speak))),
        ("when", escape(numbers.moment(report.created))),
        ("kept_in", f"<code>{escape(report.dir or numbers.NONE)}</code>"),
    ]
    listed = "".join(f"<div>{element('dt', speak(key))}<dd>{value}</dd></div>" for key, value in facts)
    return (
        f'<header><div class="top">{element("p", speak("title"), " class=eyebrow")}{switches(speak)}</div>'
        f"<h1><span>{escape(report.suite)}</span> {state_badge(speak, report.state)}</h1>"
        f'<dl class="facts">{listed}</dl></header>'
    )


def _failures(speak: Speaker, report: Report) -> str:
    found = [
        (index, case)
        for index, case in enumerate(report.cases)
        if case.failure or case.state not in (JobState.SUCCEEDED, JobState.PENDING, JobState.RUNNING)
    ]
    if not found:
        return ""
    items = "".join(_failure(speak, index, case) for index, case in found)
    return f'<section id="failures">{element("h2", speak("failures"))}{items}</section>'


def _failure(speak: Speaker, index: int, case: CaseReport) -> str:
    failure = case.failure or {}
    facts = [
        (key, str(failure[name]))
        for key, name in (("first_failure", "rank"), ("kind", "kind"), ("exit_code", "exit"), ("signal", "signal"))
        if failure.get(name) is not None
    ]
    listed = "".join(f"<div>{element('dt', speak(key))}<dd>{escape(value)}</dd></div>" for key, value in facts)
    lines = figures.last_lines(case)
    log = ""
    if lines:
        rank = failure.get("rank")
        title = speak("last_lines") if rank is None else speak("last_lines_of", rank)
        kept = escape("\n".join(lines))
        log = f'{element("p", title, " class=small")}<pre tabindex="0">{kept}</pre>'
    kind = " bad" if case.state is not JobState.SKIPPED else ""
    return (
        f'<div class="card failure{kind}"><h3><a href="#case-{index + 1}">{escape(case.case)}</a> '
        f"{state_badge(speak, case.state)}</h3>{element('p', speak.reason(case.reason))}"
        f"{f'<dl class=facts>{listed}</dl>' if listed else ''}{log}</div>"
    )


def _disturbed(speak: Speaker, report: Report) -> str:
    rows: list[Sequence[Label | str]] = [
        [case.case, str(run.round), ", ".join(run.hosts), speak.reason(run.disturbed)]
        for case in report.cases
        for run in figures.disturbed(case)
    ]
    if not rows:
        return ""
    head = [speak("case"), speak("round"), speak("hosts"), speak("reason")]
    shown = table(head, rows, plain=(0, 2, 3))
    return f'<section id="disturbed">{element("h2", speak("disturbances"))}<div class="card">{shown}</div></section>'


def _warnings(speak: Speaker, report: Report) -> str:
    if not report.warnings:
        return ""
    items = "".join(element("li", speak.reason(warning)) for warning in report.warnings)
    return f'<section id="warnings">{element("h2", speak("warnings"))}<ul class="card warn">{items}</ul></section>'


def _environment(speak: Speaker, report: Report) -> str:
    if not report.environment:
        return ""
    groups = "".join(
        f"<details{' open' if name == 'host' else ''}><summary>{words(speak.named('env', name))} "
        f'<span class="muted">{len(group)}</span></summary><dl class="pairs">{_pairs(group)}</dl></details>'
        for name, group in report.environment.items()
    )
    return f'<section id="environment">{element("h2", speak("environment"))}<div class="card">{groups}</div></section>'


def _pairs(group: dict[str, str]) -> str:
    return "".join(f"<div>{element('dt', name)}{element('dd', str(value))}</div>" for name, value in group.items())
