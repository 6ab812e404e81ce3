"""What more nodes would give, as a page: measured and predicted speeds with their interval, and their sources."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import numbers
from trainmark.report.charts import lines
from trainmark.report.charts.figure import table
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape
from trainmark.report.page.document import switches, wrap
from trainmark.report.records import Curve
from trainmark.report.study import Measured
from trainmark.score.stats.verdict import geometric_mean
from trainmark.score.studies.predict import Prediction

Found = Sequence[tuple[Measured, Sequence[Prediction]]]


def render(run: str, found: Found, refused: Sequence[str], language: str | None = None) -> str:
    speak = Speaker(language or "en")
    sections = "".join(_section(speak, one, told, index) for index, (one, told) in enumerate(found))
    left = "".join(element("p", text, " class=small") for text in refused)
    head = (
        f'<header><div class="top">{element("p", speak("predict.title"), " class=eyebrow")}{switches(speak)}</div>'
        f"<h1><span>{escape(run)}</span></h1></header>"
    )
    refusals = f"<section>{element('h2', speak('predict.refused'))}{left}</section>" if left else ""
    body = f'<div class="page">{head}<main>{sections}{refusals}</main>{element("footer", speak("made_by"))}</div>'
    return wrap(speak, f"predict · {run}", body, forced=language is not None)


def _section(speak: Speaker, one: Measured, told: Sequence[Prediction], index: int) -> str:
    name = ' id="summary"' if index == 0 else ""
    rows: list[Sequence[Label | str]] = [[f"{p.nodes}x{p.procs}", *_cells(p, one.unit)] for p in told]
    head = [speak("study.shape"), speak("predict.value"), speak("predict.interval"), speak("efficiency")]
    said = dict.fromkeys(one for p in told for one in (tuple(p.method), *((note,) for note in p.notes)))
    remarks = "".join(element("p", speak.reason(one), " class=small") for one in said)
    return (
        f'<section{name}>{element("h2", one.name)}<div class="card"><div class="figures single">'
        f"{_chart(speak, one, told)}</div>{table(head, rows)}{remarks}</div></section>"
    )


def _cells(told: Prediction, unit: str) -> list[str]:
    return [
        f"{numbers.number(told.value)} {unit}",
        f"{numbers.number(told.low)} … {numbers.number(told.high)}",
        f"{100 * told.efficiency:.0f} %",
    ]


def _chart(speak: Speaker, one: Measured, told: Sequence[Prediction]) -> str:
    """Over nodes, from the last point that was measured on: there prediction and truth are one."""
    procs = told[0].procs
    seen = sorted((p.nodes, geometric_mean(p.speeds)) for p in one.points if p.speeds and p.procs == procs)
    ahead = sorted(told, key=lambda p: p.nodes)
    start, speed = seen[-1]
    along = [float(start), *(float(p.nodes) for p in ahead)]
    likely: list[float | None] = [speed, *(p.value for p in ahead)]
    low: list[float | None] = [speed, *(p.low for p in ahead)]
    high: list[float | None] = [speed, *(p.high for p in ahead)]
    unit, first = one.unit, seen[0]
    whole = [float(nodes) for nodes, _ in seen] + along[1:]
    drawn = [
        lines.Line(speak("predict.value"), Curve("predicted", unit, along, likely)),
        lines.Line(
            speak("predict.measured"),
            Curve("measured", unit, [float(nodes) for nodes, _ in seen], [value for _, value in seen]),
        ),
        lines.Line(speak("study.ideal"), Curve("ideal", unit, whole, [first[1] / first[0] * at for at in whole])),
    ]
    band = lines.Band(Curve("low", unit, along, low), Curve("high", unit, along, high))
    return lines.chart(
        speak,
        speak("predict.chart", procs),
        drawn,
        x_title=speak("predict.nodes"),
        y_title=speak("m.throughput"),
        band=band,
        band_name=speak("predict.interval"),
        zero=True,
    )
