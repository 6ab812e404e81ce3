"""What makes the difference between two diagnosed cases: classes and operators, sorted by what they add."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.report.records import Report
from trainmark.score.records import Diagnosis, Value

MOST_OPERATORS = 15


class Part(msgspec.Struct, frozen=True):
    """Seconds per step in A and B, and B − A; the interval of the difference, where both sides have one. A side that
    does not know has None, and then there is no difference."""

    name: str
    a: float | None
    b: float | None
    difference: float | None
    low: float | None = None
    high: float | None = None


class Why(msgspec.Struct, frozen=True):
    case_a: str
    case_b: str
    a: Value
    b: Value
    classes: list[Part]
    operators: list[Part]


def why(a: Report, b: Report, case_a: str | None, case_b: str | None) -> list[Why]:
    """Cases that both were diagnosed for, or the two that are named."""
    for one in (a, b):
        if not one.diagnoses:
            raise UserError(f"{one.run} has no diagnostic rounds; `trainmark diagnose {one.run}` makes a run that has")
    if case_a is not None or case_b is not None:
        return [_pair(_named(a, case_a), _named(b, case_b))]
    known = {one.case: one for one in b.diagnoses}
    found = [_pair(one, known[one.case]) for one in a.diagnoses if one.case in known]
    if not found and len(a.diagnoses) == len(b.diagnoses) == 1:
        found = [_pair(a.diagnoses[0], b.diagnoses[0])]
    if not found:
        raise UserError(f"{a.run} and {b.run} have no diagnosed case in common; name two with RUN:CASE")
    return found


def _named(report: Report, case: str | None) -> Diagnosis:
    found = [one for one in report.diagnoses if case is None or one.case.startswith(case)]
    if len(found) != 1:
        names = ", ".join(one.case for one in report.diagnoses)
        raise UserError(f"{report.run}: {'several cases begin' if found else 'no case begins'} with `{case}`: {names}")
    return found[0]


def _pair(a: Diagnosis, b: Diagnosis) -> Why:
    for one in (a, b):
        if one.traced_step.value is None:
            raise UserError(f"{one.case}: its traces give no classes: {say(one.traced_step.reason)}")
    classes = [_part(name, a.classes[name], b.classes[name]) for name in a.classes if name in b.classes]
    names = [*a.operators, *(name for name in b.operators if name not in a.operators)]
    operators = [_plain(name, a.operators, b.operators) for name in names]
    return Why(a.case, b.case, a.traced_step, b.traced_step, _sorted(classes), _sorted(operators)[:MOST_OPERATORS])


def _sorted(parts: list[Part]) -> list[Part]:
    """What adds most comes first; what is not known last."""
    return sorted(parts, key=lambda part: -1.0 if part.difference is None else abs(part.difference), reverse=True)


def _part(name: str, a: Value, b: Value) -> Part:
    """Both sides are independent: half widths add as squares do."""
    before, after = a.value, b.value
    if before is None or after is None:
        return Part(name, before, after, None)
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Part(name, before, after, after - before)
    half = (((a.high - a.low) / 2) ** 2 + ((b.high - b.low) / 2) ** 2) ** 0.5
    return Part(name, before, after, after - before, after - before - half, after - before + half)


def _plain(name: str, a: Mapping[str, float], b: Mapping[str, float]) -> Part:
    before, after = a.get(name, 0.0), b.get(name, 0.0)
    return Part(name, before, after, after - before)
