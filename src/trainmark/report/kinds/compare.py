"""A comparison: the verdicts, ratios as a chart, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.i18n.texts import Joined, Text, joined, label, named
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.charts.records import Row, RowChart
from trainmark.report.make.compare import Compared, Comparison, ratio_text
from trainmark.score.stats.variation import Variation

_TONES: dict[str, doc.Tone] = {
    "faster": "good",
    "slower": "bad",
    "equivalent": "calm",
    "inconclusive": "warn",
    "incomplete": "warn",
}
_MARKS = {"faster": "🟢", "slower": "🔴", "equivalent": "⚪", "inconclusive": "🟡", "incomplete": "🟡"}
# What needs a look comes first.
_ORDER = {"slower": 0, "inconclusive": 1, "faster": 2, "equivalent": 3}
# A forge refuses comments that are longer than 65,536 letters.
_MOST_ROWS = 200


def document(found: Sequence[Comparison]) -> doc.Document:
    first = found[0]
    facts: list[tuple[Text, doc.Inline]] = [
        (label("compare.a"), first.a),
        *((label("compare.b"), other.b) for other in found),
        (label("compare.metric"), named("m", first.metric)),
        (label("compare.margin"), f"±{_percent(first.margin)}"),
        (label("compare.threshold"), _percent(first.threshold)),
    ]
    blocks = [block for index, one in enumerate(found) for block in _sections(one, "summary" if index == 0 else "")]
    title = f"{first.a} · {', '.join(one.b for one in found)}"
    lead = doc.Lead(joined(*(_sentence(one) for one in found), joint=" "), _tone(found))
    others = ", ".join(one.b for one in found)
    heading = label("compare.heading", others, first.a)
    return doc.Document(title, label("compare.title"), heading, blocks, facts=facts, headed=False, lead=lead)


def _sentence(found: Comparison) -> Text:
    """The verdict on one side, and what it lost."""
    overall, lost = found.overall, len(found.past_threshold)
    ratio = ratio_text(overall.verdict) if overall.verdict is not None else numbers.NONE
    said = label(f"compare.lead.{overall.word}", found.b, found.a, ratio, _percent(found.margin), str(len(found.cases)))
    return joined(said, label("compare.lead.lost", str(lost), _percent(found.threshold)) if lost else None, joint=" ")


def _tone(found: Sequence[Comparison]) -> doc.Tone:
    """That of the worst."""
    if any(one.past_threshold for one in found):
        return "bad"
    tones = [_TONES[one.overall.word] for one in found]
    return next((tone for tone in ("bad", "warn", "good") if tone in tones), "calm")


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _sections(found: Comparison, anchor: str) -> list[doc.Block]:
    overall, margin = found.overall, _percent(found.margin)
    word = named("verdict", overall.word)
    ratio = ratio_text(overall.verdict) if overall.verdict else ""
    about = label("compare.line", found.metric, margin, _percent(found.threshold))
    in_markdown = doc.Several(
        (_MARKS[overall.word], doc.Several((found.metric, joined(word, ratio, joint=", ")), ": ")), " "
    )
    sides = (
        doc.Several(("A", doc.Code(found.a)), " "),
        doc.Several(("B", doc.Code(found.b)), " "),
        label("compare.margin_is", margin),
    )
    lost = len(found.past_threshold)
    return [
        doc.Paragraph(Joined((f"A  {found.a}", f"B  {found.b}", about), "\n"), shown_in=doc.TEXT),
        doc.Heading(in_markdown, 3, shown_in=doc.MARKDOWN),
        doc.Paragraph(doc.Several(sides, " · "), shown_in=doc.MARKDOWN),
        *(
            [doc.Heading(label("compare.lost", str(lost), _percent(found.threshold)), 4, shown_in=doc.MARKDOWN)]
            if lost
            else []
        ),
        doc.Group(
            [
                doc.Heading(doc.Several((found.b, doc.Badge(word, _TONES[overall.word])), " "), shown_in=doc.PAGE),
                *([doc.Paragraph(label("compare.overall", ratio), small=True, shown_in=doc.PAGE)] if ratio else []),
                *([_chart(found), doc.Group(_table(found), style="card")] if found.cases else []),
                *_notes(found),
            ],
            anchor,
        ),
        doc.Paragraph(_in_all(found), shown_in=doc.TEXT),
    ]


def _chart(found: Comparison) -> doc.Figures:
    rows: list[Row] = []
    for one in found.cases:
        verdict = one.verdict
        word = named("verdict", verdict.word)
        rows.append(Row(one.name, [], verdict.ratio, verdict.ci_low, verdict.ci_high, note=word))
    title = label("compare.ratio")
    legend = [
        ("mark span", label("compare.legend_ratio")),
        ("area zone", label("compare.legend_margin", _percent(found.margin))),
    ]
    zone = (1 / (1 + found.margin), 1 + found.margin)
    chart = RowChart(title, rows=rows, unit="", x_title=title, wide=True, legend=legend, zone=zone)
    return doc.Figures([chart], "full", card=True)


def _table(found: Comparison) -> list[doc.Block]:
    columns = [
        doc.Column("", figures=False, shown_in=doc.MARKDOWN),
        doc.Column(label("case"), figures=False),
        doc.Column("A"),
        doc.Column("B"),
        doc.Column(label("compare.ratio")),
        doc.Column(label("runs")),
        doc.Column(label("compare.verdict"), figures=False),
        doc.Column(label("compare.needed")),
        doc.Column(label("compare.why"), figures=False, shown_in=doc.PAGE),
    ]
    cases = sorted(found.cases, key=lambda one: (_ORDER[one.verdict.word], one.verdict.ratio))
    rows = [_row(one) for one in cases]
    if len(rows) <= _MOST_ROWS:
        return [doc.Table(columns, rows)]
    return [
        doc.Table(columns, rows, shown_in=("text", "html")),
        doc.Table(columns, rows[:_MOST_ROWS], shown_in=doc.MARKDOWN),
        doc.Paragraph(label("compare.more", str(len(rows) - _MOST_ROWS)), shown_in=doc.MARKDOWN),
    ]


def _row(one: Compared) -> list[doc.Inline]:
    verdict = one.verdict
    return [
        _MARKS[verdict.word],
        doc.Code(one.name),
        numbers.quantity(one.a, one.unit),
        numbers.quantity(one.b, one.unit),
        ratio_text(verdict),
        f"{verdict.n_a}/{verdict.n_b}",
        doc.Badge(named("verdict", verdict.word), _TONES[verdict.word]),
        str(verdict.needed) if verdict.needed else numbers.NONE,
        verdict.reason,
    ]


def _flags(one: Compared, found: Comparison) -> list[Text]:
    lost = [label("compare.lost_one", _percent(found.threshold))] if one.verdict.past_threshold else []
    return [*lost, *([label("compare.forced")] if one.forced else [])]


def _variation(found: Variation | None) -> list[Text]:
    if found is None:
        return []
    shares = [
        numbers.NONE if share is None else f"{100 * share:.1f} %"
        for share in (found.step, found.round, found.occasion, found.host)
    ]
    return [label("compare.variation", *shares[:3], str(found.occasions), shares[3], str(found.hosts))]


def _notes(found: Comparison) -> list[doc.Block]:
    """Beside each case, then what was not compared: folded away in Markdown."""
    blocks: list[doc.Block] = []
    for one in found.cases[:_MOST_ROWS]:
        why = label("compare.because", one.verdict.reason, one.verdict.method)
        items = [*_flags(one, found), why, *one.notes, *_variation(one.variation)]
        blocks += [doc.Heading(one.name, 4), doc.Notes(items, "small")]
    if found.left:
        left = [Joined((one.case, one.reason), ": ") for one in found.left[:_MOST_ROWS]]
        blocks += [doc.Heading(label("compare.left"), 4), doc.Notes(left, "small")]
    if found.notes:
        blocks += [doc.Heading(label("compare.unlike"), 4), doc.Notes(found.notes, "small")]
    if not blocks:
        return []
    return [
        doc.Group(blocks, shown_in=doc.TEXT),
        doc.Details(label("notes"), blocks, shown_in=doc.MARKDOWN),
        doc.Group([doc.Details(label("notes"), _deeper(blocks))], style="card", shown_in=doc.PAGE),
    ]


def _deeper(blocks: Sequence[doc.Block]) -> list[doc.Block]:
    """On a page, headings within a section are of the third level."""
    return [msgspec.structs.replace(one, level=3) if isinstance(one, doc.Heading) else one for one in blocks]


def _in_all(found: Comparison) -> Text:
    overall = found.overall
    parts: list[Text] = [named("verdict", overall.word)]
    if overall.verdict is not None:
        parts += [Joined((overall.verdict.method, ratio_text(overall.verdict)), " "), overall.verdict.reason]
    said: Text = label("compare.in_all", joined(*parts, joint=", "))
    if not found.judged:
        said = Joined((said, label("compare.nothing")), "\n  ")
    if not overall.missing:
        return said
    return Joined((said, label("compare.missing", ", ".join(overall.missing))), "\n  ")
