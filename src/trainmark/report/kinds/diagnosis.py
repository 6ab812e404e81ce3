"""Why steps take as long as they do: one chart over all cases, then the causes and a table of each."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.i18n.texts import Text, label
from trainmark.report import document as doc
from trainmark.report import figures, numbers
from trainmark.report.charts.records import Bar, BarChart
from trainmark.score.diagnosis.breakdown import CLASSES
from trainmark.score.records import Diagnosis, Value

# In the order of their colours; the rest is small nearly always, and shown as one.
_DRAWN = ("compute", "transfer", "waiting", "data", "host")
_REST = "rest"
_MOST_OPERATORS = 10


def document(found: Sequence[Diagnosis]) -> doc.Document:
    names = ", ".join(one.case for one in found)
    return doc.Document(f"diagnose · {names}", label("diagnosis"), names, sections(found))


def sections(found: Sequence[Diagnosis]) -> list[doc.Block]:
    chart = BarChart(
        label("chart.lost"),
        bars=[Bar(figures.short(one.case), _shares(one)) for one in found],
        unit="fraction",
        x_title=label("axis.share_of_step"),
        names={name: label(f"class.{name}") for name in (*_DRAWN, _REST)},
        known=(*_DRAWN, _REST),
    )
    cards = [_card(one) for one in found]
    return [
        doc.Group(
            [doc.Heading(label("diagnosis"), shown_in=doc.PAGE), doc.Figures([chart], card=True), *cards], "diagnosis"
        )
    ]


def _shares(one: Diagnosis) -> dict[str, float]:
    """Parts of a step that add up to 1."""
    known = {name: value.value for name, value in one.classes.items() if value.value is not None}
    whole = sum(known.values())
    if not whole:
        return {}
    shares = {name: known.get(name, 0.0) / whole for name in _DRAWN}
    return {**shares, _REST: max(0.0, 1 - sum(shares.values()))}


def _card(one: Diagnosis) -> doc.Group:
    remarks: list[Text] = [
        label("diagnosis.slow_down", _percent(one.slow_down)),
        label("diagnosis.overlap", _percent(one.overlap)),
        *([label("diagnosis.disagreement", one.disagreement)] if one.disagreement else []),
        *one.remarks,
    ]
    in_markdown = doc.Several((label("diagnosis"), doc.Code(one.case)), ": ")
    return doc.Group(
        [
            doc.Heading(one.case, 3, shown_in=doc.PAGE),
            doc.Heading(label("diagnosis.of", one.case), 3, shown_in=doc.TEXT),
            doc.Heading(in_markdown, 4, shown_in=doc.MARKDOWN),
            *_causes(one),
            doc.Notes(remarks, shown_in=("text", "html")),
            _classes(one),
            *_operators(one),
        ],
        style="card",
    )


def _causes(one: Diagnosis) -> list[doc.Block]:
    if one.traced_step.value is None:
        return [doc.Paragraph(label("diagnosis.unknown", one.traced_step.reason))]
    uncertain: list[doc.Block] = [
        doc.Paragraph(
            label(
                "diagnosis.uncertain",
                label(f"class.{cause.kind}"),
                numbers.quantity(cause.seconds.value, "s"),
                _ends(cause.seconds),
                cause.place,
            )
        )
        for cause in one.uncertain
    ]
    if not one.causes:
        return uncertain or [doc.Paragraph(label("diagnosis.no_cause"))]
    heads = ("diagnosis.cause", "diagnosis.to_win", "diagnosis.share", "interval", "diagnosis.place")
    columns = doc.columns(*heads, after=1)
    rows: list[list[doc.Inline]] = [
        [
            label(f"class.{cause.kind}"),
            numbers.quantity(cause.seconds.value, "s"),
            f"{100 * cause.share:.1f} %",
            _ends(cause.seconds),
            cause.place,
        ]
        for cause in one.causes
    ]
    return [doc.Table(columns, rows), *uncertain]


def _classes(one: Diagnosis) -> doc.Table:
    step = one.traced_step.value
    rows: list[list[doc.Inline]] = [
        [label(f"class.{name}"), *_cells(one.classes[name]), _share(one.classes[name], step)] for name in CLASSES
    ]
    for name in ("traced_step", "plain_step", "by_trace", "by_ablation"):
        rows.append([label(f"diagnosis.{name}"), *_cells(getattr(one, name)), numbers.NONE])
    columns = doc.columns("diagnosis.per_step", "value", "interval", "diagnosis.share")
    return doc.Table(columns, rows, shown_in=("text", "html"))


def _operators(one: Diagnosis) -> list[doc.Block]:
    top = list(one.operators.items())[:_MOST_OPERATORS]
    if not top:
        return []
    columns = doc.columns("diagnosis.operator", "diagnosis.per_step")
    rows: list[list[doc.Inline]] = [[name, numbers.quantity(seconds, "s")] for name, seconds in top]
    return [doc.Details(label("diagnosis.operators"), [doc.Table(columns, rows, small=True)], shown_in=doc.PAGE)]


def _cells(found: Value) -> list[doc.Inline]:
    return [numbers.quantity(found.value, "s"), _ends(found)]


def _ends(found: Value) -> Text:
    if found.low is None or found.high is None:
        return found.reason or numbers.NONE
    return f"{numbers.quantity(found.low, 's')} … {numbers.quantity(found.high, 's')}"


def _share(found: Value, step: float | None) -> str:
    return f"{100 * found.value / step:.1f} %" if found.value is not None and step else numbers.NONE


def _percent(found: Value) -> Text:
    return found.reason if found.value is None else numbers.quantity(found.value, "fraction")
