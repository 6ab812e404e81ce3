"""Records for programs: JSON of any record, where every reason carries its text, and CSV of a run's measurements."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import msgspec

from trainmark.i18n.speaker import say
from trainmark.i18n.texts import Text
from trainmark.reasons import Reason
from trainmark.report.figures import flag_codes
from trainmark.report.records import CaseReport, Experiment, Report
from trainmark.report.render import escape
from trainmark.report.trained import COLUMNS, fields
from trainmark.score.records import Measurement

_FIGURE = ("value", "unit", "n", "ci_low", "ci_high", "method", "reason", "flags")
HEAD = ("case", "state", "measurement", *_FIGURE, *COLUMNS)
# A spreadsheet takes a cell that begins with one of these for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_json(record: Any) -> str:
    return escape.json(msgspec.json.format(msgspec.json.encode(plain(record)), indent=1).decode()) + "\n"


def to_json_line(record: Any) -> str:
    return escape.json(msgspec.json.encode(plain(record)).decode()) + "\n"


def plain(value: Any) -> Any:
    """Plain values for JSON. A reason becomes its code, its arguments and its English text."""
    if isinstance(value, Reason):
        return {"code": value.code, "arguments": plain(value.arguments), "text": say(value)}
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        # Curves are long, and hold numbers only.
        numbers = bool(value) and isinstance(value[0], (int, float)) and isinstance(value[-1], (int, float))
        return value if numbers else [plain(one) for one in value]
    return value


def to_csv(report: Report) -> str:
    """One row per case and measurement; of an experiment, first a row per figure of the whole."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    if report.experiment is not None:
        writer.writerows(_experiment(report.experiment, str(report.state)))
    for case in report.cases:
        writer.writerows(_rows(case))
    return out.getvalue()


def _experiment(found: Experiment, state: str) -> list[list[str]]:
    return [[cell(found.name), state, *_figure(one), *[""] * len(COLUMNS)] for one in found.figures]


def _figure(one: Measurement) -> list[str]:
    ends = (_number(one.ci_low), _number(one.ci_high))
    said = (cell(one.method), cell(one.reason), flag_codes(one.flags))
    return [cell(one.name), _number(one.value), cell(one.unit), str(one.n), *ends, *said]


def _rows(case: CaseReport) -> list[list[str]]:
    """A case without measurements has a row too: that it has none is a result."""
    if not case.measurements:
        return [[cell(case.case), str(case.state), "", "", "", "", "", "", "", cell(case.reason), "", *_trained(case)]]
    return [[cell(case.case), str(case.state), *_figure(one), *_trained(case)] for one in case.measurements.values()]


def _trained(case: CaseReport) -> list[str]:
    return ["" if value is None else cell(str(value)) for value in fields(case).values()]


def cell(value: Text) -> str:
    text = escape.clean(say(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


def _number(value: float | None) -> str:
    """Unknown is an empty cell."""
    return "" if value is None or not math.isfinite(value) else repr(value)
