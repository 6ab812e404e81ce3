"""What a long job makes of its time: how it starts, what it lost when cut off, and what was left for training."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import numbers
from trainmark.report.charts import stacked
from trainmark.report.charts.figure import table
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape
from trainmark.score.figures.figure import Figure
from trainmark.score.records import Goodput, Recovery
from trainmark.score.studies.goodput import START
from trainmark.spec.case_id import CaseId

_TIMES = ("time_to_first_step", "step_time", "checkpoint_save", "checkpoint_load", "checkpoint_every")
_SHARES = ("stall_share", "effective_ratio")
_RECOVERY = ("until_started", "start", "redone")


def section(speak: Speaker, found: Sequence[Goodput]) -> str:
    if not found:
        return ""
    starts = [stacked.Bar(Label(_short(one)), _known(one.start)) for one in found]
    cuts = [
        stacked.Bar(speak("goodput.cut", _short(one), number), _parts(recovery))
        for one in found
        for number, recovery in enumerate(one.recoveries, 1)
    ]
    seconds = speak("axis.seconds")
    drawn = stacked.chart(speak, speak("chart.start"), starts, "s", seconds, "start", START)
    drawn += stacked.chart(speak, speak("chart.recovery"), cuts, "s", seconds, "recovery", _RECOVERY)
    shown = f'<div class="card"><div class="figures">{drawn}</div></div>' if drawn else ""
    cards = "".join(_card(speak, one) for one in found)
    return f'<section id="goodput">{element("h2", speak("goodput"))}{shown}{cards}</section>'


def _short(one: Goodput) -> str:
    found = CaseId.parse(one.case)
    return f"{found.workload} {found.nnodes}×{found.nproc}"


def _known(parts: dict[str, Figure]) -> dict[str, float]:
    return {name: figure.value for name, figure in parts.items() if figure.value is not None}


def _parts(one: Recovery) -> dict[str, float]:
    return {name: max(0.0, getattr(one, name)) for name in _RECOVERY}


def _card(speak: Speaker, one: Goodput) -> str:
    rows: list[Sequence[Label | str]] = [
        [speak(f"start.{name}"), *_cells(speak, figure, "s")] for name, figure in one.start.items()
    ]
    rows += [[speak(f"goodput.{name}"), *_cells(speak, getattr(one, name), "s")] for name in _TIMES]
    rows += [[speak(f"goodput.{name}"), *_cells(speak, getattr(one, name), "fraction")] for name in _SHARES]
    head = [speak("measurement"), speak("value"), speak("reason")]
    told = [
        speak(
            "goodput.recovered",
            *(numbers.quantity(value, "s") for value in (cut.total, cut.until_started, cut.start, cut.redone)),
            cut.lost_steps,
        )
        for cut in one.recoveries
    ]
    remarks = "".join(element("li", text) for text in [speak("goodput.attempts", one.attempts), *told])
    return (
        f'<div class="card"><h3>{escape(one.case)}</h3><ul class="remarks">{remarks}</ul>'
        f"{table(head, rows, plain=(0, 2))}</div>"
    )


def _cells(speak: Speaker, figure: Figure, unit: str) -> list[Label | str]:
    if figure.value is None:
        return [numbers.NONE, speak.reason(figure.reason)]
    return [numbers.quantity(figure.value, unit), speak.reason(figure.how or numbers.NONE)]
