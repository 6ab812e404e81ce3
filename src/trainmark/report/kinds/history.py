"""A case over all runs of a folder: its speeds in the order of time, and where they changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trainmark.i18n.texts import Text, joined, label
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.charts import records as charts
from trainmark.report.make.history import Entry, History
from trainmark.score.stats.change_points import LEAST

_WIDTH = 40
# Packages and the like that are named; an upgrade of a whole environment changes hundreds.
_MOST_CAUSES = 8


def document(found: Sequence[History]) -> doc.Document:
    # What the first one has to say first stands on top.
    blocks = [_section(one, "summary" if index == 0 else "", int(index == 0)) for index, one in enumerate(found)]
    said = _remarks(found[0])
    lead = doc.Lead(said[0], "warn" if found[0].changes else "calm") if said else None
    return doc.Document(found[0].case, label("history.title"), found[0].case, blocks, lead=lead)


def _section(found: History, anchor: str, said: int) -> doc.Group:
    columns = [
        doc.Column(label("run"), figures=False),
        doc.Column(label("when"), figures=False, shown_in=doc.NOT_TEXT),
        *doc.columns("m.throughput", "interval", "runs", text=0),
        doc.Column(label("flags"), figures=False),
    ]
    blocks: list[doc.Block] = [doc.Figures([_chart(found)], "full"), doc.Notes(_remarks(found)[said:], "small")]
    if found.entries:
        blocks.insert(1, doc.Table(columns, _rows(found)))
        blocks.insert(2, doc.Verbatim(_plots(found), shown_in=doc.TEXT))
    return doc.Group(
        [doc.Heading(label("history.of", found.case, ", ".join(found.hosts))), doc.Group(blocks, style="card")], anchor
    )


def _rows(found: History) -> list[list[doc.Inline]]:
    changed = {one.index for one in found.changes}
    return [
        [
            doc.Code(entry.run),
            numbers.moment(entry.created),
            numbers.quantity(entry.value, found.unit),
            numbers.span(entry.ci_low, entry.ci_high),
            str(entry.n),
            joined(
                label("history.mark") if index in changed else "",
                label("history.flagged") if any(flag.severity != "note" for flag in entry.flags) else "",
                joint=" ",
            ),
        ]
        for index, entry in enumerate(found.entries)
    ]


def _plots(found: History) -> list[str]:
    """All runs below each other, with their dates, on one scale."""
    ends = [end for one in found.entries for end in (one.ci_low, one.value, one.ci_high) if end is not None]
    return [
        f"  {numbers.moment(one.created).ljust(22)}{_plot(one, min(ends), max(ends))}".rstrip() for one in found.entries
    ]


def _plot(entry: Entry, low: float, high: float) -> str:
    """A dot, and its interval around it, between the lowest and the highest of all."""

    def at(value: float) -> int:
        return round((_WIDTH - 1) * (value - low) / (high - low)) if high > low else _WIDTH // 2

    letters = [" "] * _WIDTH
    if entry.ci_low is not None and entry.ci_high is not None:
        for place in range(at(entry.ci_low), at(entry.ci_high) + 1):
            letters[place] = "─"
    letters[at(entry.value)] = "●"
    return f"│{''.join(letters)}│"


def _remarks(found: History) -> list[Text]:
    said: list[Text] = []
    for one in found.changes:
        change = (found.entries[one.index].run, f"{100 * (one.ratio - 1):+.1f}", f"{one.p:.3f}")
        said.append(label("history.changed", *change, _cause(found, one.index)))
    if found.last is not None:
        off, expected = f"{100 * (found.last.ratio - 1):+.1f}", f"{100 * found.last.expected:.1f}"
        said.append(label("history.last", found.entries[-1].run, off, str(found.last.runs), expected))
    if len(found.entries) < LEAST:
        said.append(label("history.few", str(len(found.entries)), str(LEAST)))
    elif not found.changes:
        said.append(label("history.no_change"))
    return said + [label("history.left", one.run, one.reason) for one in found.left]


def _cause(found: History, index: int) -> Text:
    """What else changed with that run."""
    before, after = found.entries[index - 1], found.entries[index]
    said: list[Text] = []
    if before.version != after.version and before.version and after.version:
        said.append(label("history.workload", before.version, after.version))
    elif before.fingerprint != after.fingerprint:
        said.append(label("history.configuration", before.fingerprint, after.fingerprint))
    if after.since:
        said.append(label("history.since", joined(*after.since[:_MOST_CAUSES])))
    if len(after.since) > _MOST_CAUSES:
        said.append(label("history.since_more", str(len(after.since) - _MOST_CAUSES)))
    return joined(*said, joint="")


def _levels(found: History) -> charts.Curve:
    """The mean between changes: from the first run of each stretch to its last."""
    edges = [0, *(one.index for one in found.changes), len(found.entries)]
    x, y = list[float](), list[float | None]()
    for first, end in pairwise(edges):
        x += [found.entries[first].created, found.entries[end - 1].created]
        y += [found.levels[first]] * 2
    return charts.Curve("level", found.unit, x, y)


def _chart(found: History) -> charts.LineChart:
    """Over dates: what changed at once and what crept in over months must not look alike."""
    along = [one.created for one in found.entries]
    speeds = charts.Curve("speed", found.unit, along, [one.value for one in found.entries])
    lines = [charts.Line(label("history.one"), speeds, dots=True)]
    if found.changes:
        lines.append(charts.Line(label("history.level"), _levels(found), level=True))
    whiskers = [
        charts.Whisker(one.created, one.ci_low, one.ci_high)
        for one in found.entries
        if one.ci_low is not None and one.ci_high is not None
    ]
    return charts.LineChart(
        label("history.chart"),
        lines=lines,
        x_title=label("history.axis"),
        y_title=label("m.throughput"),
        x_kind="dates",
        whiskers=whiskers,
        wide=True,
    )
