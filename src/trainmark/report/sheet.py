"""The report as CSV: one row per case and measurement."""

from __future__ import annotations

import csv
import io
import math

from trainmark.report.i18n.speaker import say
from trainmark.report.records import CaseReport, Report

HEAD = ("case", "state", "measurement", "value", "unit", "n", "ci_low", "ci_high", "method", "reason")
# A spreadsheet takes a cell that begins with one of these for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def render(report: Report) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for case in report.cases:
        writer.writerows(_rows(case))
    return out.getvalue()


def _rows(case: CaseReport) -> list[list[str]]:
    """A case without measurements has a row too: that it has none is a result."""
    if not case.measurements:
        return [[text(case.case), str(case.state), "", "", "", "", "", "", "", text(say(case.reason))]]
    return [
        [
            text(case.case),
            str(case.state),
            text(one.name),
            _number(one.value),
            text(one.unit),
            str(one.n),
            _number(one.ci_low),
            _number(one.ci_high),
            text(say(one.method)),
            text(say(one.reason)),
        ]
        for one in case.measurements.values()
    ]


def text(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _number(value: float | None) -> str:
    """Unknown is an empty cell."""
    return "" if value is None or not math.isfinite(value) else repr(value)
