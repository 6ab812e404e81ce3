"""The report as plain text: one line per case, then what went wrong and what to know."""

from __future__ import annotations

from trainmark.report import figures, numbers
from trainmark.report.i18n.speaker import Speaker
from trainmark.report.plain import clean, columns
from trainmark.report.records import CaseReport, Report
from trainmark.store.rundir import Imported

_HEAD = ("case", "state", "runs", "m.throughput", "interval")
_MOST_LINES = 10


def render(report: Report, language: str = "en") -> str:
    speak = Speaker(language)
    rows = [tuple(speak.text(key).lower() for key in _HEAD), *(_row(case) for case in report.cases)]
    run, suite = speak.text("run").lower(), speak.text("suite").lower()
    lines = [f"{run} {report.run}  {suite} {report.suite}  {report.state}", ""]
    lines += columns(rows)
    if report.studies:
        from trainmark.report import study_text

        lines += [line for study in report.studies for line in study_text.text(study, speak)]
    for case in report.cases:
        lines += _remarks(case, speak)
    if report.diagnoses:
        from trainmark.report import diagnosis_text

        lines += ["", *(line for one in report.diagnoses for line in diagnosis_text.render(one).splitlines())]
    if report.contests:
        from trainmark.report import contest_text

        cases = contest_text.cases_of(report)
        lines += [line for one in report.contests for line in contest_text.text(one, cases, speak)]
    lines += _imported(report.imported) if report.imported else []
    lines += [f"{speak.text('warning')}: {speak.reason(warning).text}" for warning in report.warnings]
    lines += ["", f"{speak.text('kept_in').lower()} {report.dir}"]
    # No line of a log moves the reader's cursor or changes the terminal's colours.
    return "\n".join(clean(line) for line in lines) + "\n"


def _imported(found: Imported) -> list[str]:
    lines = ["", f"imported from {found.format}: {found.source} (sha256 {found.sha256[:12]}…)"]
    lines += [f"  not told: {what}" for what in found.missing]
    return lines + [f"  flagged while reading: {kind} ({count})" for kind, count in sorted(found.flags.items())]


def _row(case: CaseReport) -> tuple[str, ...]:
    found = figures.throughput(case)
    runs = f"{case.counted}/{case.rounds}"
    return (case.case, str(case.state), runs, numbers.value(found), numbers.interval(found))


def _remarks(case: CaseReport, speak: Speaker) -> list[str]:
    remarks = figures.remarks(case)
    if not remarks:
        return []
    lines = ["", f"{case.case}:"] + [f"  {speak.reason(remark).text}" for remark in remarks]
    printed = figures.last_lines(case)
    if printed:
        rank = (case.failure or {}).get("rank")
        lines.append(f"  {speak.text('last_lines').lower() if rank is None else speak.text('last_lines_of', rank)}:")
        lines += [f"    | {line}" for line in printed[-_MOST_LINES:]]
    return lines
