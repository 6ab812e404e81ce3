"""An acceptance as text, Markdown, HTML and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report.acceptance import Acceptance
from trainmark.report.i18n.speaker import Speaker, say
from trainmark.report.numbers import quantity
from trainmark.report.plain import clean
from trainmark.score.accept.nodes import NodeVerdict, percent

FORMATS = ("text", "html", "md", "json")
_NONE = "–"
_HEAD = ("node", "verdict", "loss", "interval", "findable", "speed", "blocks", "reason")
_KINDS = {"good": "good", "bad": "bad", "suspect": "warn", "untested": "warn"}


def render(found: Acceptance, kind: str, language: str | None = None) -> str:
    if kind == "json":
        return msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"
    return {"text": _text, "md": _markdown, "html": _page}[kind](found, language)


def _head(found: Acceptance) -> tuple[str, ...]:
    """With a column for peaks where the site's are kept."""
    peak = ("peak",) if any(one.peak is not None for one in found.nodes) else ()
    return (*_HEAD[:-1], *peak, _HEAD[-1])


def _rows(found: Acceptance, language: str) -> list[list[str]]:
    at = _head(found).index("peak") if "peak" in _head(found) else None
    rows = [_cells(one, found.unit, language) for one in found.nodes]
    if at is not None:
        for row, one in zip(rows, found.nodes, strict=True):
            row.insert(at, _peak(one))
    return rows


def _peak(one: NodeVerdict) -> str:
    if one.peak is None:
        return _NONE
    used = "" if one.used is None else f", {100 * one.used:.0f} % used"
    return f"{quantity(one.peak, 'FLOP/s')}{used}"


def _cells(one: NodeVerdict, unit: str, language: str) -> list[str]:
    known = one.ci_low is not None and one.ci_high is not None
    return [
        one.node,
        one.word,
        _share(one.loss),
        f"{_share(one.ci_low)} … {_share(one.ci_high)}" if known else _NONE,
        _share(one.findable),
        f"{one.speed:,.4g} {unit}/s" if one.speed is not None else _NONE,
        str(one.blocks),
        say(one.reason, language),
    ]


def _share(value: float | None) -> str:
    return _NONE if value is None else percent(value)


def _link_rows(found: Acceptance, language: str) -> list[list[str]]:
    effects = found.links.effects if found.links else []
    return [
        [
            one.name,
            one.word,
            percent(one.loss),
            f"{percent(one.ci_low)} … {percent(one.ci_high)}",
            say(one.reason, language),
        ]
        for one in effects
    ]


def _link_line(found: Acceptance, language: str) -> str:
    if found.links is None:
        return "links: not tested"
    speeds = sorted(found.links.bandwidth.values())
    if not speeds:
        return "links: none gave a bandwidth"
    span = f"{len(speeds)} links, {speeds[0] / 1e6:,.4g} to {speeds[-1] / 1e6:,.4g} MB/s"
    bad = sum(one.word == "bad" for one in found.links.effects)
    why = f" ({say(found.links.reason, language)})" if found.links.reason else ""
    return f"links: {span}, {bad or 'none'} slow beyond doubt{why}"


def _remarks(found: Acceptance, language: str) -> list[str]:
    """What stands beside the tables, a line each."""
    lines = [
        f"{'kept' if one.kept else 'BROKEN'}: {one.who or 'fleet'}: {one.what}: {say(one.reason, language)}"
        for one in found.held
    ]
    lines += [f"link without a result: {say(one, language)}" for one in (found.links.untested if found.links else [])]
    return lines + [say(note, language) for note in found.notes]


def _rule(found: Acceptance) -> str:
    return f"losses up to {percent(found.margin)} do not matter (links: {percent(found.link_margin)}); " + (
        f"a node is bad only beyond doubt: {percent(found.level)} for all nodes together"
    )


def _text(found: Acceptance, language: str | None) -> str:
    speak = Speaker(language or "en")
    lines = [f"{speak.text('accept.title')}: {found.site}: {found.verdict.upper()}", found.case, _rule(found), ""]
    lines += _columns([[speak.text(f"accept.{key}") for key in _head(found)], *_rows(found, speak.language)])
    lines += [
        "",
        _link_line(found, speak.language),
        *_columns(_link_rows(found, speak.language)),
        *_remarks(found, speak.language),
    ]
    if found.drain:
        lines += ["", f"{speak.text('accept.drain')}:", *found.drain, found.scontrol]
    lines += ["", f"{speak.text('run').lower()}: {', '.join(found.runs)}"]
    return "\n".join(clean(line) for line in lines) + "\n"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _markdown(found: Acceptance, language: str | None) -> str:
    from trainmark.report.markdown import code, plain, rows

    speak = Speaker(language or "en")
    parts = [f"## {speak.text('accept.title')}: {plain(found.site)}: {found.verdict}", code(found.case), _rule(found)]
    head = _head(found)
    table = [[plain(cell) for cell in row] for row in _rows(found, speak.language)]
    parts.append(rows([[speak.text(f"accept.{key}") for key in head], ["---"] * len(head), *table]))
    parts.append(plain(_link_line(found, speak.language)))
    told = [*(" · ".join(row) for row in _link_rows(found, speak.language)), *_remarks(found, speak.language)]
    if told:
        parts.append("\n".join(f"- {plain(line)}" for line in told))
    if found.drain:
        parts.append(f"**{speak.text('accept.drain')}**: {', '.join(map(code, found.drain))}\n\n{code(found.scontrol)}")
    return "\n\n".join(parts) + "\n"


def _page(found: Acceptance, language: str | None) -> str:
    from trainmark.report.charts.figure import table
    from trainmark.report.markup import element, escape
    from trainmark.report.page.badges import badge
    from trainmark.report.page.document import switches, wrap

    speak = Speaker(language or "en")
    head = _head(found)
    nodes = table([speak(f"accept.{key}") for key in head], _rows(found, speak.language), plain=(0, 1, len(head) - 1))
    heads = [speak(f"accept.{key}") for key in ("link", *_HEAD[1:4], "reason")]
    effects = (
        table(heads, _link_rows(found, speak.language), plain=(0, 1, 4)) if _link_rows(found, speak.language) else ""
    )
    remarks = "".join(element("li", line) for line in _remarks(found, speak.language))
    drain = element("pre", "\n".join([*found.drain, found.scontrol])) if found.drain else ""
    body = (
        f'<div class="page"><header><div class="top">{element("p", speak("accept.title"), " class=eyebrow")}'
        f"{switches(speak)}</div><h1>{escape(found.site)} {badge(found.verdict, _KINDS[found.verdict])}</h1></header>"
        f"<main><section id=summary>{element('p', found.case)}{element('p', _rule(found))}"
        f"{nodes}{element('p', _link_line(found, speak.language))}{effects}<ul>{remarks}</ul>"
        f"{element('h2', speak('accept.drain')) if drain else ''}{drain}</section></main>"
        f"{element('footer', speak('made_by'))}</div>"
    )
    return wrap(speak, f"accept · {found.site}", body, forced=language is not None)
