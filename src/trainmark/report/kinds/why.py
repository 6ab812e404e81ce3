"""What makes the difference between two diagnosed cases: classes and operators, sorted by what they add."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.i18n.texts import label, named
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.make.why import Part, Why


def document(found: Sequence[Why]) -> doc.Document:
    names = [one.case_a if one.case_a == one.case_b else f"{one.case_a} → {one.case_b}" for one in found]
    blocks: list[doc.Block] = []
    for name, one in zip(names, found, strict=True):
        a, b = (side.value or 0.0 for side in (one.a, one.b))
        sides = (numbers.quantity(a, "s"), numbers.quantity(b, "s"), _signed(b - a))
        blocks += [doc.Heading(name), doc.Paragraph(label("why.step", *sides))]
        for key, parts in (("why.classes", one.classes), ("why.operators", one.operators)):
            blocks += [doc.Heading(label(key), 3), _parts(parts)]
    return doc.Document(", ".join(names), label("why.title"), ", ".join(names), blocks)


def _parts(parts: Sequence[Part]) -> doc.Table:
    columns = [
        doc.Column(label("why.part"), figures=False),
        doc.Column("A"),
        doc.Column("B"),
        doc.Column(label("why.difference")),
        doc.Column(label("interval")),
    ]
    rows: list[list[doc.Inline]] = [
        [
            named("class", part.name),
            numbers.quantity(part.a, "s"),
            numbers.quantity(part.b, "s"),
            label("why.unknown") if part.difference is None else _signed(part.difference),
            numbers.NONE if part.low is None or part.high is None else f"{_signed(part.low)} … {_signed(part.high)}",
        ]
        for part in parts
    ]
    return doc.Table(columns, rows)


def _signed(seconds: float) -> str:
    return ("+" if seconds >= 0 else "") + numbers.quantity(seconds, "s")
