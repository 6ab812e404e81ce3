"""A comparison as a page: the verdicts, ratios as a chart, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.reasons import reason
from trainmark.report import numbers
from trainmark.report.charts import intervals
from trainmark.report.charts.figure import figure, table
from trainmark.report.compare import Comparison, ratio_text
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape
from trainmark.report.page.badges import badge
from trainmark.report.page.document import switches, wrap

_KINDS = {"faster": "good", "slower": "bad", "equivalent": "calm", "inconclusive": "warn", "incomplete": "warn"}


def render(found: Sequence[Comparison], language: str | None = None) -> str:
    speak = Speaker(language or "en")
    sections = "".join(_section(speak, one, index) for index, one in enumerate(found))
    head = (
        f'<header><div class="top">{element("p", speak("compare.title"), " class=eyebrow")}{switches(speak)}</div>'
        f"<h1><span>{escape(found[0].a)}</span></h1>{_facts(speak, found)}</header>"
    )
    body = f'<div class="page">{head}<main>{sections}</main>{element("footer", speak("made_by"))}</div>'
    return wrap(speak, f"{found[0].a} · {', '.join(one.b for one in found)}", body, forced=language is not None)


def _facts(speak: Speaker, found: Sequence[Comparison]) -> str:
    one = found[0]
    facts: list[tuple[str, Label | str]] = [
        ("compare.a", one.a),
        *(("compare.b", other.b) for other in found),
        ("compare.metric", speak.named("m", one.metric)),
        ("compare.margin", f"±{100 * one.margin:g} %"),
        ("compare.threshold", f"{100 * one.threshold:g} %"),
    ]
    listed = "".join(f"<div>{element('dt', speak(key))}{element('dd', value)}</div>" for key, value in facts)
    return f'<dl class="facts">{listed}</dl>'


def _section(speak: Speaker, found: Comparison, index: int) -> str:
    overall = found.overall
    told = (
        element("p", speak("compare.overall", ratio_text(overall.verdict)), " class=small") if overall.verdict else ""
    )
    mark = badge(_word(speak, overall.word), _KINDS[overall.word])
    name = ' id="summary"' if index == 0 else ""
    head = f"<h2>{escape(found.b)} {mark}</h2>{told}"
    notes = [reason("on-host", host=left.case, why=left.reason) for left in found.left] + found.notes
    notes += [reason("on-host", host=one.case_b, why=note) for one in found.cases for note in one.notes]
    listed = "".join(element("p", speak.reason(note), " class=small") for note in notes)
    remarks = f'<div class="card">{element("h3", speak("notes"))}{listed}</div>' if listed else ""
    return f"<section{name}>{head}{_chart(speak, found)}{_table(speak, found)}{remarks}</section>"


def _word(speak: Speaker, word: str) -> Label:
    return speak.named("verdict", word)


def _chart(speak: Speaker, found: Comparison) -> str:
    if not found.cases:
        return ""
    # A itself is where nothing changed.
    rows = [intervals.Row(f"A  {found.a}", [], 1.0)]
    rows += [
        intervals.Row(
            one.name,
            [],
            one.verdict.ratio,
            one.verdict.ci_low,
            one.verdict.ci_high,
            note=_word(speak, one.verdict.word),
        )
        for one in found.cases
    ]
    title = speak("compare.ratio")
    both = "".join(
        f'<div class="{kind}">{intervals.svg(speak, title, rows, "", title, wide=kind == "wide")}</div>'
        for kind in ("wide", "narrow")
    )
    return figure(title, both, [("mark span", speak("chart.legend_interval"))], kind="card full")


def _table(speak: Speaker, found: Comparison) -> str:
    head: list[Label | str] = [speak("case"), "A", "B", speak("compare.ratio"), speak("runs")]
    head += [speak("compare.verdict"), speak("compare.needed"), speak("compare.why")]
    rows: list[Sequence[Label | str]] = [
        [
            one.name,
            numbers.quantity(one.a, one.unit),
            numbers.quantity(one.b, one.unit),
            ratio_text(one.verdict),
            f"{one.verdict.n_a}/{one.verdict.n_b}",
            _word(speak, one.verdict.word),
            str(one.verdict.needed) if one.verdict.needed else numbers.NONE,
            speak.reason(one.verdict.reason),
        ]
        for one in found.cases
    ]
    return f'<div class="card">{table(head, rows, plain=(0, 5, 7))}</div>' if rows else ""
