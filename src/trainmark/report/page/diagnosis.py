"""Why steps take as long as they do: one drawing over all cases, then a table and the causes of each."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import numbers
from trainmark.report.charts import stacked
from trainmark.report.charts.figure import table
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape
from trainmark.score.diagnosis.breakdown import CLASSES
from trainmark.score.records import Diagnosis, Value
from trainmark.spec.case_id import CaseId

# In the order of their colours; the rest is small nearly always, and shown as one.
_DRAWN = ("compute", "transfer", "waiting", "data", "host")
_REST = "rest"
_MOST_OPERATORS = 10


def section(speak: Speaker, found: Sequence[Diagnosis]) -> str:
    if not found:
        return ""
    cards = "".join(_card(speak, one) for one in found)
    drawing = stacked.chart(
        speak,
        speak("chart.lost"),
        [stacked.Bar(Label(_short(one.case)), _shares(one)) for one in found],
        "fraction",
        speak("axis.share_of_step"),
        "class",
        (*_DRAWN, _REST),
    )
    shown = f'<div class="card"><div class="figures">{drawing}</div></div>' if drawing else ""
    return f'<section id="diagnosis">{element("h2", speak("diagnosis"))}{shown}{cards}</section>'


def _short(case: str) -> str:
    found = CaseId.parse(case)
    return f"{found.workload} {found.nnodes}×{found.nproc}"


def _shares(one: Diagnosis) -> dict[str, float]:
    """Parts of a step that add up to 1."""
    known = {name: value.value for name, value in one.classes.items() if value.value is not None}
    whole = sum(known.values())
    if not whole:
        return {}
    shares = {name: known.get(name, 0.0) / whole for name in _DRAWN}
    return {**shares, _REST: max(0.0, 1 - sum(shares.values()))}


def _card(speak: Speaker, one: Diagnosis) -> str:
    step = one.traced_step.value
    rows: list[Sequence[Label | str]] = [
        [speak(f"class.{name}"), *_cells(speak, one.classes[name]), _share(one.classes[name], step)] for name in CLASSES
    ]
    rows.append([speak("diagnosis.traced_step"), *_cells(speak, one.traced_step), numbers.NONE])
    rows.append([speak("diagnosis.plain_step"), *_cells(speak, one.plain_step), numbers.NONE])
    rows.append([speak("diagnosis.by_ablation"), *_cells(speak, one.by_ablation), numbers.NONE])
    head = [speak("diagnosis.per_step"), speak("value"), speak("interval"), speak("diagnosis.share")]
    remarks: list[Label | str] = [
        speak("diagnosis.slow_down", _percent(speak, one.slow_down)),
        speak("diagnosis.overlap", _percent(speak, one.overlap)),
        *([speak.reason(one.disagreement)] if one.disagreement else []),
        *(speak.reason(remark) for remark in one.remarks),
    ]
    listed = "".join(element("li", remark) for remark in remarks)
    return (
        f'<div class="card"><h3>{escape(one.case)}</h3>{_causes(speak, one)}<ul class="remarks">{listed}</ul>'
        f"{table(head, rows)}{_operators(speak, one)}</div>"
    )


def _causes(speak: Speaker, one: Diagnosis) -> str:
    if not one.causes:
        return element("p", speak("diagnosis.no_cause"))
    rows: list[Sequence[Label | str]] = [
        [speak(f"class.{cause.kind}"), numbers.quantity(cause.seconds.value, "s"), _ends(speak, cause.seconds), place]
        for cause in one.causes
        for place in [speak.reason(cause.place)]
    ]
    head = [speak("diagnosis.cause"), speak("diagnosis.to_win"), speak("interval"), speak("diagnosis.place")]
    return table(head, rows, plain=(0, 3))


def _operators(speak: Speaker, one: Diagnosis) -> str:
    top = list(one.operators.items())[:_MOST_OPERATORS]
    if not top:
        return ""
    rows: list[Sequence[Label | str]] = [[name, numbers.quantity(seconds, "s")] for name, seconds in top]
    shown = table([speak("diagnosis.operator"), speak("diagnosis.per_step")], rows, kind="small")
    return f"<details>{element('summary', speak('diagnosis.operators'))}{shown}</details>"


def _cells(speak: Speaker, found: Value) -> list[Label | str]:
    return [numbers.quantity(found.value, "s") if found.value is not None else numbers.NONE, _ends(speak, found)]


def _ends(speak: Speaker, found: Value) -> Label | str:
    if found.low is None or found.high is None:
        return speak.reason(found.reason or numbers.NONE)
    return f"{numbers.quantity(found.low, 's')} … {numbers.quantity(found.high, 's')}"


def _share(found: Value, step: float | None) -> str:
    return numbers.quantity(found.value / step, "fraction") if found.value is not None and step else numbers.NONE


def _percent(speak: Speaker, found: Value) -> str:
    return speak.reason(found.reason).text if found.value is None else numbers.quantity(found.value, "fraction")
