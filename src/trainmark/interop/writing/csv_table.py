"""`export csv`: a row for every figure of every case."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from trainmark.i18n.speaker import say
from trainmark.interop.protocol import WriteOnly
from trainmark.report.figures import flag_codes
from trainmark.report.records import CaseReport, Report
from trainmark.report.trained import COLUMNS, fields
from trainmark.spec.case_id import CaseId

# fmt: off
HEAD = (
    "run", "suite", "case", "workload", "framework", "device", "nnodes", "nproc", "state", "reason", "rounds",
    "counted", "measurement", "value", "unit", "n", "ci_low", "ci_high", "method", "note", "flags", *COLUMNS,
)
# fmt: on


class Csv(WriteOnly):
    summary = "a table: one row for every figure of every case"

    def render(self, reports: Sequence[Report]) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(HEAD)
        for report in reports:
            writer.writerows([_safe(cell) for cell in row] for row in _of_experiment(report))
            for case in report.cases:
                writer.writerows([_safe(cell) for cell in row] for row in rows(report, case))
        return out.getvalue().encode()


def rows(report: Report, case: CaseReport) -> Iterator[Sequence[object]]:
    found = CaseId.parse(case.case)
    head = (report.run, report.suite, case.case, found.workload, found.framework_text, found.device)
    size = (found.nnodes, found.nproc, str(case.state), say(case.reason), case.rounds, case.counted)
    trained = fields(case).values()
    if not case.measurements:
        yield (*head, *size, *[None] * 7, say(case.notes), "", *trained)
    for one in case.measurements.values():
        note = say([*one.reason, *case.notes])
        figure = (one.name, one.value, one.unit, one.n, one.ci_low, one.ci_high, say(one.method), note)
        yield (*head, *size, *figure, flag_codes(one.flags), *trained)


def _of_experiment(report: Report) -> Iterator[Sequence[object]]:
    """Of an AutoML experiment, its figures as a whole; `case` is its name."""
    found = report.experiment
    if found is None:
        return
    head = (report.run, report.suite, found.name, "automl", "", "", "", "", str(report.state), say(found.reasons), 1, 1)
    for one in found.figures:
        note = say([*one.reason, *found.reasons])
        figure = (one.name, one.value, one.unit, one.n, one.ci_low, one.ci_high, say(one.method), note)
        yield (*head, *figure, "", *[None] * len(COLUMNS))


def _safe(cell: object) -> object:
    """A spreadsheet takes text that begins like a formula for one, and text of other tools may be anything."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
