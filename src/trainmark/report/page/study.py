"""Scaling studies in a page: for each series its speed-up over processes, and the figures behind it."""

from __future__ import annotations

from trainmark.report import study_text
from trainmark.report.charts import lines
from trainmark.report.charts.figure import table
from trainmark.report.markup import element
from trainmark.report.records import Curve, Report, StudyReport
from trainmark.report.words import Speaker


def section(speak: Speaker, report: Report) -> str:
    if not report.studies:
        return ""
    shown = "".join(_study(speak, study) for study in report.studies)
    return f'<section id="scaling">{element("h2", speak("study.title"))}{shown}</section>'


def _study(speak: Speaker, study: StudyReport) -> str:
    head = [speak(key) for key in study_text.HEAD]
    rows = table(head, [study_text.row(cell) for cell in study.cells])
    said = "".join(element("li", remark) for remark in study_text.remarks(study))
    remarks = f'<ul class="small">{said}</ul>' if said else ""
    name = element("h3", study_text.title(study, speak))
    return f'<div class="card">{name}{_chart(speak, study)}{rows}{remarks}</div>'


def _chart(speak: Speaker, study: StudyReport) -> str:
    """Speed-up over processes beside what it would be without loss; the interval is the shaded band."""
    known = [cell for cell in study.cells if cell.speedup is not None and cell.efficiency]
    if len({cell.nodes * cell.procs for cell in known}) < 2:
        return ""
    ranks = [float(cell.nodes * cell.procs) for cell in known]
    speedups = [cell.speedup for cell in known]
    ideal = [(cell.speedup or 0.0) / (cell.efficiency or 1.0) for cell in known]
    drawn = [
        lines.Line(speak("speedup"), Curve("speed-up", "", ranks, list(speedups))),
        lines.Line(speak("study.ideal"), Curve("ideal", "", ranks, list(ideal))),
    ]
    lows = [cell.speedup_low if cell.speedup_low is not None else cell.speedup for cell in known]
    highs = [cell.speedup_high if cell.speedup_high is not None else cell.speedup for cell in known]
    band = None
    if any(cell.speedup_low is not None for cell in known):
        band = lines.Band(Curve("low", "", ranks, list(lows)), Curve("high", "", ranks, list(highs)))
    return lines.chart(
        speak,
        speak("speedup"),
        drawn,
        x_title=speak("study.ranks"),
        y_title=speak("speedup"),
        band=band,
        band_name=speak("interval"),
        zero=True,
    )
