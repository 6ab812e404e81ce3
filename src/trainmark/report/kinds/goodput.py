"""What a long job makes of its time: how it starts, what it lost when cut off, and what was left for training."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.i18n.texts import Text, label, named
from trainmark.reasons import Reason
from trainmark.report import document as doc
from trainmark.report import figures, numbers
from trainmark.report.charts.records import Bar, BarChart
from trainmark.report.make.goodput import GoodputRun
from trainmark.score.records import Figure, Goodput
from trainmark.score.studies.goodput import START, Forecast

_TIMES = ("time_to_first_step", "step_time", "checkpoint_save", "checkpoint_load", "checkpoint_every")
_SHARES = ("stall_share", "effective_ratio")
_RECOVERY = ("until_started", "start", "redone")


def document(found: GoodputRun) -> doc.Document:
    cards = [_card(one.goodput, one.forecast, level=2) for one in found.cases]
    charts = _charts([one.goodput for one in found.cases])
    return doc.Document(f"goodput · {found.run}", label("goodput"), found.run, [*charts, *cards])


def sections(found: Sequence[Goodput]) -> list[doc.Block]:
    cards = [_card(one) for one in found]
    return [doc.Group([doc.Heading(label("goodput")), *_charts(found), *cards], "goodput", shown_in=doc.PAGE)]


def _charts(found: Sequence[Goodput]) -> list[doc.Block]:
    starts = [
        Bar(
            figures.short(one.case),
            {name: figure.value for name, figure in one.start.items() if figure.value is not None},
        )
        for one in found
    ]
    cuts = [
        Bar(
            label("goodput.cut", figures.short(one.case), str(number)),
            {name: max(0.0, getattr(recovery, name)) for name in _RECOVERY},
        )
        for one in found
        for number, recovery in enumerate(one.recoveries, 1)
    ]
    charts = [
        BarChart(
            label(title),
            bars=bars,
            unit="s",
            x_title=label("axis.seconds"),
            names={name: named(group, name) for bar in bars for name in bar.parts},
            known=known,
        )
        for title, bars, group, known in (
            ("chart.start", starts, "start", START),
            ("chart.recovery", cuts, "recovery", _RECOVERY),
        )
    ]
    return [doc.Figures(charts, card=True)]


def _card(one: Goodput, outlook: Forecast | Reason | str | None = None, level: int = 3) -> doc.Group:
    rows: list[list[doc.Inline]] = [
        [label(f"start.{name}"), *_cells(figure, "s")] for name, figure in one.start.items()
    ]
    rows += [[label(f"goodput.{name}"), *_cells(getattr(one, name), "s")] for name in _TIMES]
    rows += [[label(f"goodput.{name}"), *_cells(getattr(one, name), "fraction")] for name in _SHARES]
    columns = doc.columns("measurement", "value", "reason", after=1)
    remarks: list[Text] = [label("goodput.attempts", str(one.attempts))]
    for cut in one.recoveries:
        seconds = (numbers.quantity(value, "s") for value in (cut.total, cut.until_started, cut.start, cut.redone))
        remarks.append(label("goodput.recovered", *seconds, str(cut.lost_steps)))
    remarks += [_forecast(outlook)] if outlook is not None else []
    return doc.Group([doc.Heading(one.case, level), doc.Notes(remarks), doc.Table(columns, rows)], style="card")


def _cells(figure: Figure, unit: str) -> list[doc.Inline]:
    if figure.value is None:
        return [numbers.NONE, figure.reason or numbers.NONE]
    return [numbers.quantity(figure.value, unit), figure.how or numbers.NONE]


def _forecast(found: Forecast | Reason | str) -> Text:
    if not isinstance(found, Forecast):
        return label("goodput.no_forecast", found)
    return label(
        "goodput.forecast",
        f"{found.hours:g}",
        f"{found.failures_per_day:g}",
        f"{found.save_every:.3g}",
        f"{100 * found.effective_ratio:.1f}",
        f"{found.best_save_every:.3g}",
        f"{100 * found.best_effective_ratio:.1f}",
    )
