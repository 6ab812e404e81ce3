"""Studies as plain text and as Markdown: the table, a bar for each configuration, and DLPerf's own table."""

from __future__ import annotations

from trainmark.reasons import Reason, reason
from trainmark.report import dlperf, numbers
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.plain import columns
from trainmark.report.records import StudyCell, StudyReport

HEAD = ("study.shape", "batch", "runs", "average", "median", "interval", "speedup", "interval", "efficiency")
_BAR = 40


def text(study: StudyReport, speak: Speaker) -> list[str]:
    head = [speak.text(key).lower() for key in HEAD]
    lines = ["", title(study, speak).text]
    lines += columns([head, *(row(cell) for cell in study.cells)])
    lines += ["", *_bars(study), *_runs(study, speak)]
    return lines + [f"  {speak.reason(remark).text}" for remark in remarks(study)]


def title(study: StudyReport, speak: Speaker) -> Label:
    return speak("study.of." + study.mode, study.name, study.unit)


def row(cell: StudyCell) -> list[str]:
    """Cells of the table, in the order of HEAD."""
    return [
        shape(cell),
        numbers.NONE if cell.batch is None else str(cell.batch),
        str(len(cell.speeds)),
        _number(cell.average),
        cell.value or _number(cell.median),
        span(cell.ci_low, cell.ci_high),
        numbers.NONE if cell.speedup is None else f"{cell.speedup:.2f}",
        _span2(cell.speedup_low, cell.speedup_high),
        numbers.NONE if cell.efficiency is None else f"{100 * cell.efficiency:.1f} %",
    ]


def shape(cell: StudyCell) -> str:
    return f"{cell.nodes}x{cell.procs}"


def remarks(study: StudyReport) -> list[Reason]:
    """What a reader needs beyond the figures."""
    found = [one for one in (study.reason, study.note) if one]
    # Why the baseline has no speed is said already.
    told = study.baseline if study.reason else ""
    more = [(shape(cell), cell.note) for cell in study.cells if cell.note and shape(cell) != told]
    return found + [reason("of-configuration", configuration=name, why=note) for name, note in more]


def markdown(study: StudyReport, speak: Speaker) -> list[str]:
    from trainmark.report.markdown import plain

    head = [speak.text(key) for key in HEAD]
    sides = ["---", *["---:"] * (len(HEAD) - 1)]
    rows = [head, sides, *([plain(one) for one in row(cell)] for cell in study.cells)]
    parts = [f"### {plain(title(study, speak).text)}", "\n".join(f"| {' | '.join(one)} |" for one in rows)]
    listed = [f"- {plain(speak.reason(remark).text)}" for remark in remarks(study)]
    parts += ["\n".join(listed)] if listed else []
    nodes, _, procs = study.baseline.partition("x")
    shown = dlperf.table(dlperf.cells_of(study), f"{nodes}n{procs}g")
    return [*parts, f"{speak.text('study.dlperf')}\n\n{shown.rstrip()}"]


def _bars(study: StudyReport) -> list[str]:
    """Speed-up as bars; `·` ends where a speed-up without loss would."""
    known = [cell for cell in study.cells if cell.speedup is not None and cell.efficiency]
    if not known:
        return []
    ideals = [(cell.speedup or 0.0) / (cell.efficiency or 1.0) for cell in known]
    full = max(*ideals, *(cell.speedup or 0.0 for cell in known), 1e-9)
    width = max(len(shape(cell)) for cell in known)
    lines = []
    for cell, ideal in zip(known, ideals, strict=True):
        filled, whole = (round(_BAR * value / full) for value in (cell.speedup or 0.0, ideal))
        bar = "█" * filled + "·" * max(0, whole - filled)
        lines.append(f"  {shape(cell).ljust(width)}  {bar.ljust(_BAR)}  {cell.speedup:.2f}")
    return lines


def _runs(study: StudyReport, speak: Speaker) -> list[str]:
    """The speed of every run, as DLPerf's scripts print them."""
    known = [cell for cell in study.cells if cell.speeds]
    told = [f"  {shape(cell)}: {', '.join(f'{speed:.2f}' for speed in cell.speeds)}" for cell in known]
    return ["", f"  {speak.text('chart.runs').lower()}:", *told] if told else []


def _number(value: float | None) -> str:
    return numbers.NONE if value is None else numbers.number(value)


def span(low: float | None, high: float | None) -> str:
    return numbers.NONE if low is None or high is None else f"{numbers.number(low)} … {numbers.number(high)}"


def _span2(low: float | None, high: float | None) -> str:
    return numbers.NONE if low is None or high is None else f"{low:.2f} … {high:.2f}"
