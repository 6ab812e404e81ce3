"""Scaling studies in a page: for each series its speed-up over processes, and the figures behind it."""

from __future__ import annotations

from trainmark.report import study_text
from trainmark.report.charts import lines
from trainmark.report.charts.figure import table
from trainmark.report.i18n.speaker import Speaker
from trainmark.report.markup import element
from trainmark.report.records import Curve, Report, StudyCell, StudyReport


def section(speak: Speaker, report: Report) -> str:
    if not report.studies:
        return ""
    shown = "".join(_study(speak, study) for study in report.studies)
    return f'<section id="scaling">{element("h2", speak("study.title"))}{shown}</section>'


def _study(speak: Speaker, study: StudyReport) -> str:
    head = [speak(key) for key in study_text.HEAD]
    rows = table(head, [study_text.row(cell) for cell in study.cells])
    remarks = "".join(element("p", speak.reason(remark), " class=small") for remark in study_text.remarks(study))
    name = element("h3", study_text.title(study, speak))
    return f'<div class="card">{name}{_charts(speak, study)}{rows}{remarks}</div>'


def _charts(speak: Speaker, study: StudyReport) -> str:
    """Speed-up and efficiency over processes, beside what they would be without loss; intervals are shaded."""
    known = [cell for cell in study.cells if cell.speedup is not None and cell.efficiency is not None]
    ranks = [float(cell.nodes * cell.procs) for cell in known]
    if len(set(ranks)) < 2:
        return ""
    base = next((cell for cell in known if study_text.shape(cell) == study.baseline), known[0])
    ideal = [rank / (base.nodes * base.procs) for rank in ranks]
    drawn = _drawing(speak, known, ranks, "speedup", ideal) + _drawing(
        speak, known, ranks, "efficiency", [1.0] * len(ranks)
    )
    return f'<div class="figures">{drawn}</div>'


def _drawing(speak: Speaker, known: list[StudyCell], ranks: list[float], name: str, ideal: list[float]) -> str:
    values, lows, highs = ([getattr(cell, name + end) for cell in known] for end in ("", "_low", "_high"))
    unit = "fraction" if name == "efficiency" else ""
    drawn = [
        lines.Line(speak(name), Curve(name, unit, ranks, values)),
        lines.Line(speak("study.ideal"), Curve("ideal", unit, ranks, list(ideal))),
    ]
    band = None
    if any(low is not None for low in lows):
        edges = [
            [value if edge is None else edge for edge, value in zip(found, values, strict=True)]
            for found in (lows, highs)
        ]
        band = lines.Band(Curve("low", unit, ranks, edges[0]), Curve("high", unit, ranks, edges[1]))
    return lines.chart(
        speak,
        speak(name),
        drawn,
        x_title=speak("study.ranks"),
        y_title=speak(name),
        band=band,
        band_name=speak("interval"),
        zero=True,
    )
