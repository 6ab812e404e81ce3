"""A run's score against a reference machine: the figure and how far to trust it, then every case."""

from __future__ import annotations

from trainmark.i18n.texts import Joined, Text, joined, label
from trainmark.reasons import Reason
from trainmark.report import document as doc
from trainmark.report import figures, numbers, remarks
from trainmark.report.charts.records import Row, RowChart
from trainmark.report.make.score import Score, ScoredCase
from trainmark.report.trained import describe_trained

_TONES: dict[str, doc.Tone] = {"severe": "bad", "warning": "warn", "note": "good"}


def document(found: Score) -> doc.Document:
    facts = _facts(found)
    return doc.Document(
        title=f"score · {found.run}",
        kind=label("score.title"),
        heading=doc.Several((found.run, label("score.against", found.reference)), " "),
        blocks=[
            doc.Facts(facts, shown_in=doc.NOT_PAGE),
            doc.Group(
                [
                    doc.Heading(label("score.cases"), shown_in=doc.PAGE),
                    *_chart(found),
                    doc.Group([doc.Table(_columns(), [_row(case) for case in found.cases])], style="flush"),
                ],
                "summary",
            ),
            *_remarks(found),
            doc.Group(
                [
                    doc.Heading(label("score.how"), 2, shown_in=doc.PAGE),
                    doc.Paragraph(label("score.formula"), small=True),
                ],
                "how",
            ),
        ],
        facts=facts,
        lead=doc.Lead(_sentence(found), _tone(found)),
    )


def value_text(found: Score) -> str:
    if found.value is None:
        return numbers.NONE
    ends = "" if found.ci_low is None else f" ({found.ci_low:.3f} … {found.ci_high:.3f})"
    return f"{found.value:.3f}{ends}"


def _sentence(found: Score) -> Text:
    """The figure, over how many cases, and how far to trust it."""
    if found.value is None:
        return label("score.none", found.reference, found.reason)
    counts = (str(found.counted), str(found.of))
    said = label("score.is", value_text(found), found.reference, *counts)
    worst = _worst(found)
    trust = label(f"score.trust.{worst}") if worst else label("score.trust.good")
    return joined(said, trust, joint=" ")


def _worst(found: Score) -> str:
    return next((flag.severity for flag in found.flags if flag.severity != "note"), "")


def _tone(found: Score) -> doc.Tone:
    if found.value is None:
        return "bad"
    return _TONES.get(_worst(found), "good") if found.ci_low is not None else _TONES.get(_worst(found), "warn")


def _facts(found: Score) -> list[tuple[Text, doc.Inline]]:
    hardware = found.reference_hardware
    memory = hardware.get("memory_bytes", "")
    room = numbers.quantity(float(memory), "bytes") if memory.isdecimal() else numbers.NONE
    machine = label("score.machine", hardware.get("processor", numbers.NONE), hardware.get("threads", "?"), room)
    return [
        (label("score"), doc.Strong(value_text(found))),
        (label("run"), doc.Code(found.run)),
        (label("score.reference"), found.reference),
        (label("machine"), machine),
        (
            label("score.measured"),
            joined(numbers.moment(found.reference_created), f"trainmark {found.reference_trainmark}", joint=", "),
        ),
    ]


def _columns() -> list[doc.Column]:
    return [
        doc.Column(label("case"), figures=False),
        doc.Column(label("score.this")),
        doc.Column(label("score.reference")),
        doc.Column(label("score.ratio")),
        doc.Column(label("flags"), figures=False),
    ]


def _row(case: ScoredCase) -> list[doc.Inline]:
    ends = "" if case.ci_low is None else f" ({case.ci_low:.3f} … {case.ci_high:.3f})"
    return [
        doc.Stack(doc.Code(case.case), describe_trained(case.trained), keeps=True),
        numbers.NONE if case.speed is None else numbers.quantity(case.speed.value, case.unit),
        numbers.NONE if case.reference is None else numbers.quantity(case.reference.value, case.unit),
        numbers.NONE if case.ratio is None else f"{case.ratio:.3f}{ends}",
        doc.Badge(label("score.left_out"), "bad") if case.reason is not None else remarks.flags(case.flags),
    ]


def _remarks(found: Score) -> list[doc.Block]:
    items: list[Text] = [figures.flag_text(flag) for flag in found.flags]
    items += [found.reason] if found.reason is not None and found.value is not None else []
    items += [Joined((", ".join(cases), why), ": ") for why, cases in _left_out(found).items()]
    items += [Joined((case.case, figures.flag_text(flag)), ": ") for case in found.cases for flag in case.flags]
    items += [label("score.note", found.reference_note)] if found.reference_note else []
    if not items:
        return []
    return [doc.Group([doc.Heading(label("notes")), doc.Notes(items, "card")], "notes")]


def _left_out(found: Score) -> dict[Reason, list[str]]:
    """Why cases have no part, each reason once. What the reference does not have is said by a flag of the score."""
    cases: dict[Reason, list[str]] = {}
    for case in found.cases:
        if case.reason is not None and case.reason.code != "not-in-reference":
            cases.setdefault(case.reason, []).append(case.case)
    return cases


def _chart(found: Score) -> list[doc.Block]:
    rows = [
        Row(case.case, [], case.ratio, case.ci_low, case.ci_high, note=f"{case.ratio:.3f}")
        for case in found.cases
        if case.ratio is not None
    ]
    if not rows:
        return []
    rows.append(Row(label("score"), [], found.value, found.ci_low, found.ci_high, note=value_text(found)))
    title = label("score.ratio")
    legend = [("mark span", label("compare.legend_ratio")), ("", label("score.legend_even"))]
    chart = RowChart(title, rows=rows, unit="", x_title=title, wide=True, legend=legend, zone=(1.0, 1.0))
    return [doc.Figures([chart], "full", card=True)]
