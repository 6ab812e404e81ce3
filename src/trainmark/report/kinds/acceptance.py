"""The acceptance of a fleet: a verdict on every node and link, what was promised, and what to take out of use."""

from __future__ import annotations

from trainmark.i18n.texts import Joined, Text, label
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.make.acceptance import Acceptance
from trainmark.run.campaign import Step
from trainmark.run.progress import duration
from trainmark.score.accept.nodes import NodeResult, percent

_TONES: dict[str, doc.Tone] = {"good": "good", "bad": "bad", "suspect": "warn", "untested": "warn", "unsure": "warn"}


def document(found: Acceptance) -> doc.Document:
    rule = label("accept.rule", percent(found.margin), percent(found.link_margin), percent(found.level))
    said = verdict(found)
    blocks: list[doc.Block] = [
        doc.Paragraph(Joined((label("accept.line", found.site, said), found.case), "\n"), shown_in=doc.TEXT),
        doc.Paragraph(said, shown_in=doc.NOT_TEXT),
        *_drain(found),
        doc.Paragraph(doc.Code(found.case), shown_in=doc.NOT_TEXT),
        doc.Notes(_demands(found)),
        doc.Paragraph(rule),
        doc.Group([_nodes(found)], style="flush"),
        doc.Paragraph(_link_line(found)),
        *_links(found),
        doc.Notes(_remarks(found)),
        *_not_tested(found),
        doc.Paragraph(label("accept.runs", ", ".join(found.runs)), shown_in=doc.TEXT),
    ]
    return doc.Document(
        title=f"accept · {found.site}",
        kind=label("accept.title"),
        heading=found.site,
        badges=[doc.Badge(found.verdict, _TONES[found.verdict])],
        blocks=[doc.Group(blocks, "summary")],
    )


def verdict(found: Acceptance) -> Text:
    """The word with what could be found: good, blind below 47 %."""
    word: Text = label("accept.unsure") if found.verdict == "unsure" else found.verdict.upper()
    return word if found.findable is None else label("accept.blind", word, percent(found.findable))


def so_far(found: Acceptance, step: Step) -> Text:
    """An answer on the way: what is known, and what comes next."""
    arguments = step.arguments
    coming = {
        "links": label("accept.next.links"),
        "more": label("accept.next.more", str(arguments.get("blocks"))),
        "again": label("accept.next.again", ", ".join(arguments.get("suspects", ()))),
    }[step.what]
    took = found.seconds or 0.0
    left = numbers.NONE if found.time is None else duration(max(0.0, found.time - took))
    return label("accept.so_far", duration(took), verdict(found), coming, left)


def _demands(found: Acceptance) -> list[Text]:
    """What was to be found, and how long it took."""
    counts = sorted({one.blocks for one in found.nodes if one.blocks})
    lines: list[Text] = (
        [label("accept.measured", "–".join(map(str, counts[:: len(counts) - 1 or 1])))] if counts else []
    )
    demands = (
        ("accept.demand", found.find, found.findable),
        ("accept.link_demand", found.link_find, found.links.findable if found.links else None),
    )
    for key, wanted, seen in demands:
        if wanted is not None:
            met = seen is not None and seen <= wanted
            said = label("accept.demand_met") if met else label("accept.demand_missed")
            lines.append(label(key, percent(wanted), said))
    if found.seconds is not None and found.time is not None:
        lines.append(label("accept.took", duration(found.seconds), duration(found.time)))
    return lines


def _not_tested(found: Acceptance) -> list[doc.Block]:
    if not found.not_tested:
        return []
    return [doc.Heading(label("accept.not_tested"), 4), doc.Notes(list(found.not_tested))]


def _nodes(found: Acceptance) -> doc.Table:
    """With a column for peaks where the site's are known."""
    peaks = any(one.peak is not None for one in found.nodes)
    names = [
        "node",
        "verdict",
        "loss",
        "findable",
        "speed",
        *(["peak"] if peaks else []),
        "reason",
    ]
    columns = doc.columns(*(f"accept.{name}" for name in names), text=2, after=1)
    return doc.Table(columns, [_node(one, found.unit, peaks) for one in found.nodes])


def _node(one: NodeResult, unit: str, peaks: bool) -> list[doc.Inline]:
    return [
        one.node,
        doc.Badge(one.word, _TONES[one.word]),
        _interval(one.loss, one.ci_low, one.ci_high),
        _share(one.findable),
        f"{one.speed:,.4g} {unit}/s" if one.speed is not None else numbers.NONE,
        *([_peak(one)] if peaks else []),
        one.reason,
    ]


def _peak(one: NodeResult) -> Text:
    if one.peak is None:
        return numbers.NONE
    reached = numbers.quantity(one.peak, "FLOP/s")
    return reached if one.used is None else label("accept.peak_used", reached, f"{100 * one.used:.0f}")


def _interval(loss: float | None, low: float | None, high: float | None) -> str:
    """`15 (14 … 16) %`"""
    if loss is None:
        return numbers.NONE
    shown = f"{100 * loss:.2g}"
    return f"{shown} ({100 * low:.2g} … {100 * high:.2g}) %" if low is not None and high is not None else f"{shown} %"


def _share(value: float | None) -> str:
    return numbers.NONE if value is None else percent(value)


def _link_line(found: Acceptance) -> Text:
    if found.links is None:
        return label("accept.no_links")
    speeds = sorted(found.links.bandwidth.values())
    if not speeds:
        return label("accept.no_bandwidth")
    bad = sum(one.word == "bad" for one in found.links.effects)
    ends = (f"{speeds[0] / 1e6:,.4g}", f"{speeds[-1] / 1e6:,.4g}")
    slow = str(bad) if bad else label("accept.none")
    why: Text = label("accept.why", found.links.reason) if found.links.reason else ""
    count = str(len(speeds))
    line = label("accept.links", count, *ends, slow, why, str(found.links.possible or count))
    if found.links.findable is None:
        return line
    return Joined((line, label("accept.links_blind", percent(found.links.findable))), "")


def _links(found: Acceptance) -> list[doc.Block]:
    effects = found.links.effects if found.links else []
    if not effects:
        return []
    names = ("link", "verdict", "loss", "reason")
    columns = doc.columns(*(f"accept.{name}" for name in names), text=2, after=1)
    rows: list[list[doc.Inline]] = [
        [
            one.name,
            doc.Badge(one.word, _TONES[one.word]),
            _interval(one.loss, one.ci_low, one.ci_high),
            one.reason,
        ]
        for one in effects
    ]
    return [doc.Group([doc.Table(columns, rows)], style="flush")]


def _remarks(found: Acceptance) -> list[Text]:
    """What stands beside the tables, a line each."""
    lines: list[Text] = []
    for one in found.held:
        key = "accept.promise_kept" if one.kept else "accept.promise_broken"
        lines.append(label(key, one.who or label("accept.fleet"), one.what, one.reason))
    lines += [label("accept.no_result", one) for one in (found.links.untested if found.links else [])]
    return [*lines, *found.notes]


def _drain(found: Acceptance) -> list[doc.Block]:
    """Names and a command to be copied."""
    if not found.drain:
        return []
    lines = [*found.drain, found.scontrol]
    return [
        doc.Heading(label("accept.drain"), 4, shown_in=doc.NOT_PAGE),
        doc.Heading(label("accept.drain"), shown_in=doc.PAGE),
        doc.Verbatim(lines, shown_in=("text", "html")),
        doc.Notes([doc.Code(line) for line in lines], shown_in=doc.MARKDOWN),
    ]
