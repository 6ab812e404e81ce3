"""The history of a case as a page."""

from __future__ import annotations

from trainmark.report import history
from trainmark.report.charts import lines as charts
from trainmark.report.charts.figure import table
from trainmark.report.history import Line
from trainmark.report.i18n.speaker import Speaker
from trainmark.report.markup import element, escape
from trainmark.report.page.document import switches, wrap
from trainmark.report.records import Curve


def render(found: list[Line], language: str | None = None) -> str:
    speak = Speaker(language or "en")
    sections = "".join(_section(speak, line, index) for index, line in enumerate(found))
    head = (
        f'<header><div class="top">{element("p", speak("history.title"), " class=eyebrow")}{switches(speak)}</div>'
        f"<h1><span>{escape(found[0].case)}</span></h1></header>"
    )
    body = f'<div class="page">{head}<main>{sections}</main>{element("footer", speak("made_by"))}</div>'
    return wrap(speak, found[0].case, body, forced=language is not None)


def _section(speak: Speaker, line: Line, index: int) -> str:
    name = ' id="summary"' if index == 0 else ""
    said = "".join(element("p", speak.reason(remark), " class=small") for remark in history.remarks(line))
    head = [speak("run"), speak("when"), speak("m.throughput"), speak("interval"), speak("runs")]
    rows = (
        table(head, [history.cells(entry, line.unit) for entry in line.entries], plain=(0, 1)) if line.entries else ""
    )
    return (
        f"<section{name}><h2>{escape(line.case)} · {escape(', '.join(line.hosts))}</h2>"
        f'<div class="card"><div class="figures single">{_chart(speak, line)}</div>{said}{rows}</div></section>'
    )


def _chart(speak: Speaker, line: Line) -> str:
    along = [float(number) for number in range(1, len(line.entries) + 1)]
    speeds: list[float | None] = [entry.value for entry in line.entries]
    drawn = [charts.Line(speak("m.throughput"), Curve("speed", line.unit, along, speeds))]
    if line.changes:
        drawn.append(charts.Line(speak("history.level"), Curve("level", line.unit, along, list(line.levels))))
    known = [(at, entry) for at, entry in zip(along, line.entries, strict=True) if entry.ci_low is not None]
    band = None
    if len(known) > 1:
        places = [at for at, _ in known]
        low, high = ([getattr(entry, name) for _, entry in known] for name in ("ci_low", "ci_high"))
        band = charts.Band(Curve("low", line.unit, places, low), Curve("high", line.unit, places, high))
    return charts.chart(
        speak,
        speak("history.chart"),
        drawn,
        x_title=speak("history.axis"),
        y_title=speak("m.throughput"),
        band=band,
        band_name=speak("interval"),
    )
