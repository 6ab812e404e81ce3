"""What makes the difference between two diagnosed cases: classes and operators, sorted by what they add."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import numbers
from trainmark.report.document import Block, Column, Document, Heading, Inline, Paragraph, Table
from trainmark.report.texts import label, named
from trainmark.report.why import Part, Why


def document(found: Sequence[Why]) -> Document:
    names = [one.case_a if one.case_a == one.case_b else f"{one.case_a} → {one.case_b}" for one in found]
    blocks: list[Block] = []
    for name, one in zip(names, found, strict=True):
        a, b = (side.value or 0.0 for side in (one.a, one.b))
        sides = (numbers.quantity(a, "s"), numbers.quantity(b, "s"), _signed(b - a))
        blocks += [Heading(name), Paragraph(label("why.step", *sides))]
        for key, parts in (("why.classes", one.classes), ("why.operators", one.operators)):
            blocks += [Heading(label(key), 3), _parts(parts)]
    return Document(", ".join(names), label("why.title"), ", ".join(names), blocks)


def _parts(parts: Sequence[Part]) -> Table:
    columns = [
        Column(label("why.part"), figures=False),
        Column("A"),
        Column("B"),
        Column(label("why.difference")),
        Column(label("interval")),
    ]
    rows: list[list[Inline]] = [
        [
            named("class", part.name),
            numbers.quantity(part.a, "s"),
            numbers.quantity(part.b, "s"),
            label("why.unknown") if part.difference is None else _signed(part.difference),
            numbers.NONE if part.low is None or part.high is None else f"{_signed(part.low)} … {_signed(part.high)}",
        ]
        for part in parts
    ]
    return Table(columns, rows)


def _signed(seconds: float) -> str:
    return ("+" if seconds >= 0 else "") + numbers.quantity(seconds, "s")
