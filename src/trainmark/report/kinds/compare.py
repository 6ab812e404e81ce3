"""A comparison: the verdicts, ratios as a chart, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import numbers
from trainmark.report.charts.records import Row, RowChart
from trainmark.report.compare import Compared, Comparison, ratio_text
from trainmark.report.document import (
    MARKDOWN,
    PAGE,
    TEXT,
    Badge,
    Block,
    Code,
    Column,
    Details,
    Document,
    Figures,
    Group,
    Heading,
    Inline,
    Notes,
    Paragraph,
    Several,
    Table,
    Tone,
)
from trainmark.report.texts import Joined, Text, joined, label, named

_TONES: dict[str, Tone] = {
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


def document(found: Sequence[Comparison]) -> Document:
    first = found[0]
    facts: list[tuple[Text, Inline]] = [
        (label("compare.a"), first.a),
        *((label("compare.b"), other.b) for other in found),
        (label("compare.metric"), named("m", first.metric)),
        (label("compare.margin"), f"±{_percent(first.margin)}"),
        (label("compare.threshold"), _percent(first.threshold)),
    ]
    blocks = [block for index, one in enumerate(found) for block in _sections(one, "summary" if index == 0 else "")]
    title = f"{first.a} · {', '.join(one.b for one in found)}"
    return Document(title, label("compare.title"), first.a, blocks, facts=facts, headed=False)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _sections(found: Comparison, anchor: str) -> list[Block]:
    overall, margin = found.overall, _percent(found.margin)
    word = named("verdict", overall.word)
    ratio = ratio_text(overall.verdict) if overall.verdict else ""
    about = label("compare.line", found.metric, margin, _percent(found.threshold))
    in_markdown = Several((_MARKS[overall.word], Several((found.metric, joined(word, ratio, joint=", ")), ": ")), " ")
    sides = (Several(("A", Code(found.a)), " "), Several(("B", Code(found.b)), " "), label("compare.margin_is", margin))
    lost = len(found.past_threshold)
    return [
        Paragraph(Joined((f"A  {found.a}", f"B  {found.b}", about), "\n"), shown_in=TEXT),
        Heading(in_markdown, 3, shown_in=MARKDOWN),
        Paragraph(Several(sides, " · "), shown_in=MARKDOWN),
        *([Heading(label("compare.lost", str(lost), _percent(found.threshold)), 4, shown_in=MARKDOWN)] if lost else []),
        Group(
            [
                Heading(Several((found.b, Badge(word, _TONES[overall.word])), " "), shown_in=PAGE),
                *([Paragraph(label("compare.overall", ratio), small=True, shown_in=PAGE)] if ratio else []),
                *([_chart(found), Group(_table(found), style="card")] if found.cases else []),
                *_notes(found),
            ],
            anchor,
        ),
        Paragraph(_in_all(found), shown_in=TEXT),
    ]


def _chart(found: Comparison) -> Figures:
    # A itself is where nothing changed.
    rows = [Row(f"A  {found.a}", [], 1.0)]
    for one in found.cases:
        verdict = one.verdict
        word = named("verdict", verdict.word)
        rows.append(Row(one.name, [], verdict.ratio, verdict.ci_low, verdict.ci_high, note=word))
    title = label("compare.ratio")
    legend = [("mark span", label("chart.legend_interval"))]
    chart = RowChart(title=title, rows=rows, unit="", x_title=title, wide=True, legend=legend)
    return Figures([chart], "full", card=True)


def _table(found: Comparison) -> list[Block]:
    columns = [
        Column("", figures=False, shown_in=MARKDOWN),
        Column(label("case"), figures=False),
        Column("A"),
        Column("B"),
        Column(label("compare.ratio")),
        Column(label("runs")),
        Column(label("compare.verdict"), figures=False),
        Column(label("compare.needed")),
        Column(label("compare.why"), figures=False, shown_in=PAGE),
    ]
    cases = sorted(found.cases, key=lambda one: (_ORDER[one.verdict.word], one.verdict.ratio))
    rows = [_row(one) for one in cases]
    if len(rows) <= _MOST_ROWS:
        return [Table(columns, rows)]
    return [
        Table(columns, rows, shown_in=("text", "html")),
        Table(columns, rows[:_MOST_ROWS], shown_in=MARKDOWN),
        Paragraph(label("compare.more", str(len(rows) - _MOST_ROWS)), shown_in=MARKDOWN),
    ]


def _row(one: Compared) -> list[Inline]:
    verdict = one.verdict
    return [
        _MARKS[verdict.word],
        Code(one.name),
        numbers.quantity(one.a, one.unit),
        numbers.quantity(one.b, one.unit),
        ratio_text(verdict),
        f"{verdict.n_a}/{verdict.n_b}",
        named("verdict", verdict.word),
        str(verdict.needed) if verdict.needed else numbers.NONE,
        verdict.reason,
    ]


def _flags(one: Compared, found: Comparison) -> list[Text]:
    lost = [label("compare.lost_one", _percent(found.threshold))] if one.verdict.past_threshold else []
    return [*lost, *([label("compare.forced")] if one.forced else [])]


def _notes(found: Comparison) -> list[Block]:
    blocks: list[Block] = []
    for one in found.cases:
        why = label("compare.because", one.verdict.reason, one.verdict.method)
        items = [*_flags(one, found), why, *one.notes]
        blocks += [Heading(one.name, 4, shown_in=TEXT), Notes(items, shown_in=TEXT)]
    left = [Joined((one.case, one.reason), ": ") for one in found.left]
    if left:
        blocks += [Heading(label("compare.left"), 4, shown_in=TEXT), Notes(left, shown_in=TEXT)]
    if found.notes:
        blocks += [Heading(label("compare.unlike"), 4, shown_in=TEXT), Notes(found.notes, shown_in=TEXT)]
    listed: list[Inline] = [
        Several((Code(one.case_b), remark), ": ") for one in found.cases for remark in (*_flags(one, found), *one.notes)
    ]
    listed += [label("compare.left_one", one) for one in left]
    listed += [label("compare.unlike_in", note) for note in found.notes]
    if listed:
        blocks.append(Details(label("notes"), [Notes(listed[:_MOST_ROWS])], shown_in=MARKDOWN))
        blocks.append(Group([Heading(label("notes"), 3), Notes(listed, "small")], style="card", shown_in=PAGE))
    return blocks


def _in_all(found: Comparison) -> Text:
    overall = found.overall
    parts: list[Text] = [named("verdict", overall.word)]
    if overall.verdict is not None:
        parts += [Joined((overall.verdict.method, ratio_text(overall.verdict)), " "), overall.verdict.reason]
    said = label("compare.in_all", joined(*parts, joint=", "))
    if not overall.missing:
        return said
    return Joined((said, label("compare.missing", ", ".join(overall.missing))), "\n  ")
