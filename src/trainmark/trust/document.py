"""A verification as a document, for every format."""

from __future__ import annotations

from trainmark.i18n.texts import Text, joined, label
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.trust import scores
from trainmark.trust.records import Finding, Verification


def document(found: Verification) -> doc.Document:
    faults = found.faults()
    remarks = len(found.findings) - len(faults)
    verdict = (
        label("trust.bad", str(len(faults)))
        if faults
        else label("trust.good_remarks", str(remarks))
        if remarks
        else label("trust.good")
    )
    tone: doc.Tone = "bad" if faults else "good"
    facts: list[tuple[Text, doc.Inline]] = [
        (label("trust.bundle"), found.bundle),
        (label("trust.digest"), doc.Code(found.sha256)),
        (label("trust.signed"), _signers(found)),
        (label("trust.checked"), _checked(found)),
    ]
    blocks: list[doc.Block] = [
        doc.Group([doc.Paragraph(doc.Badge(verdict, tone)), doc.Facts(facts, style="list")], style="card"),
        *_figures(found),
        *_experiments(found),
        *_findings(found.findings),
        doc.Paragraph(label("trust.cannot"), small=True, shown_in=doc.NOT_TEXT),
    ]
    return doc.Document(f"verify · {found.bundle}", label("trust.kind"), found.bundle, blocks)


def _signers(found: Verification) -> Text:
    if not found.signatures:
        return label("trust.nobody")
    return joined(
        *(
            label(
                "trust.signature",
                one.role,
                one.name or one.key[:16],
                label("trust.valid" if one.valid else "trust.invalid"),
            )
            for one in found.signatures
        )
    )


def _checked(found: Verification) -> Text:
    return joined(*(label(f"trust.checks.{name}", f"{count:,}") for name, count in found.checks.items()), joint=", ")


def _figures(found: Verification) -> list[doc.Block]:
    if not found.figures:
        return []
    rows: list[list[doc.Inline]] = [
        [
            one["case"],
            one["state"],
            str(one["n"]),
            numbers.NONE if one["value"] is None else numbers.quantity(one["value"], one["unit"]),
            numbers.NONE if one["ci_low"] is None else f"{one['ci_low']:,.4g} – {one['ci_high']:,.4g}",
        ]
        for one in found.figures
    ]
    columns = doc.columns("case", "state", "rounds", "m.throughput", "interval", text=2)
    return [doc.Heading(label("trust.figures")), doc.Group([doc.Table(columns, rows)], style="flush")]


def _experiments(found: Verification) -> list[doc.Block]:
    if not found.experiments:
        return []
    rows: list[list[doc.Inline]] = [
        [
            one["experiment"],
            one["rules"],
            *(scores.quantity(one, name) for name in ("regulated_score", "score", "error")),
        ]
        for one in found.experiments
    ]
    columns = doc.columns("board.experiment", "am.rules", "m.regulated_score", "m.score", "m.error", text=2)
    return [doc.Heading(label("trust.figures")), doc.Group([doc.Table(columns, rows)], style="flush")]


def _findings(found: list[Finding]) -> list[doc.Block]:
    heading = doc.Heading(label("trust.findings"))
    if not found:
        return [heading, doc.Paragraph(label("trust.no_findings"))]
    rows: list[list[doc.Inline]] = [
        [
            doc.Badge(label(f"trust.{one.severity}"), "bad" if one.severity == "fault" else "warn"),
            one.reason,
            one.place or numbers.NONE,
        ]
        for one in found
    ]
    columns = doc.columns("trust.severity", "trust.what", "trust.place", text=3)
    return [heading, doc.Group([doc.Table(columns, rows)], style="flush")]
