"""The report as plain text: one line per case, then what went wrong and what to know."""

from __future__ import annotations

from trainmark.report.records import CaseReport, Report
from trainmark.score.measurement import Measurement
from trainmark.spec.states import JobState
from trainmark.store.rundir import Imported

_HEAD = ("case", "state", "runs", "throughput", "95 % interval")


def render(report: Report) -> str:
    rows = [_HEAD, *(_row(case) for case in report.cases)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [f"run {report.run}  suite {report.suite}  {report.state}", ""]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for case in report.cases:
        lines += _remarks(case)
    lines += _imported(report.imported) if report.imported else []
    lines += [f"warning: {warning}" for warning in report.warnings]
    lines += ["", f"kept in {report.dir}"]
    return "\n".join(lines) + "\n"


def _imported(found: Imported) -> list[str]:
    lines = ["", f"imported from {found.format}: {found.source} (sha256 {found.sha256[:12]}…)"]
    lines += [f"  not told: {what}" for what in found.missing]
    return lines + [f"  flagged while reading: {kind} ({count})" for kind, count in sorted(found.flags.items())]


def _row(case: CaseReport) -> tuple[str, ...]:
    found = case.measurements.get("throughput")
    return (case.case, str(case.state), f"{case.counted}/{case.rounds}", _value(found), _interval(found))


def _value(found: Measurement | None) -> str:
    if found is None:
        return "–"
    if found.value is None:
        # Seen but no result: shown as such, so that nobody reads it as one.
        return f"({_number(sum(found.inputs) / len(found.inputs))} {found.unit})" if found.inputs else "–"
    return f"{_number(found.value)} {found.unit}"


def _number(value: float) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _interval(found: Measurement | None) -> str:
    if found is None or found.value is None or found.ci_low is None or found.ci_high is None:
        return "–"
    half = (found.ci_high / found.ci_low) ** 0.5 - 1
    return f"{found.ci_low:,.4g} … {found.ci_high:,.4g} (±{100 * half:.1f} %)"


def _remarks(case: CaseReport) -> list[str]:
    """Everything a reader needs beyond the row; nothing for a case without remarks."""
    remarks = list(case.notes)
    throughput = case.measurements.get("throughput")
    if throughput is not None and throughput.reason:
        remarks.append(throughput.reason)
    if case.state is not JobState.SUCCEEDED and case.reason:
        remarks.insert(0, case.reason)
    if not remarks:
        return []
    lines = ["", f"{case.case}:"] + [f"  {remark}" for remark in remarks]
    if case.failure and case.failure.get("last_lines"):
        rank = case.failure.get("rank")
        lines.append(f"  last lines of rank {rank}:" if rank is not None else "  last lines:")
        lines += [f"    | {line}" for line in case.failure["last_lines"][-10:]]
    return lines
