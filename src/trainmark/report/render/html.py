"""A document as one HTML file that asks nothing of any server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from trainmark.i18n.texts import Text, label
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.charts import network, palette, plots, rows
from trainmark.report.charts import records as charts
from trainmark.report.render import escape
from trainmark.report.render.markup import Markup

_FORMAT = "html"
# A shorter page is seen at a glance.
_LEAST_CONTENTS = 3


def render(document: doc.Document, language: str | None = None) -> str:
    """`language` None: the reader's browser chooses, where the page's script runs."""
    page = Markup(language or "en")
    facts = _facts(page, doc.Facts(document.facts)) if document.facts else ""
    badges = "".join(f" {inline(page, badge)}" for badge in document.badges)
    lead = _block(page, document.lead) if document.lead is not None else ""
    header = (
        f'<header><div class="top">{page.element("p", document.kind, " class=eyebrow")}{_switches(page)}</div>'
        f"<h1><span>{inline(page, document.heading)}</span>{badges}</h1>{lead}{facts}</header>"
    )
    body = (
        f'{page.element("a", label("skip"), " class=skip href=#main")}\n<div class="page">{header}'
        f"{_contents(page, document.blocks)}<main id=main>{_blocks(page, document.blocks)}</main>"
        f"{page.element('footer', label('made_by'))}</div>"
    )
    return _wrapped(page, document.title, body, forced=language is not None)


def embed(document: doc.Document, language: str) -> tuple[str, str]:
    """For a page that has its own frame, switches, style and script: the document in one language, and its texts as
    `page.js` finds them in the element `texts`."""
    page = Markup(language)
    badges = "".join(f" {inline(page, badge)}" for badge in document.badges)
    lead = _block(page, document.lead) if document.lead is not None else ""
    facts = _facts(page, doc.Facts(document.facts)) if document.facts else ""
    head = f"<h1><span>{inline(page, document.heading)}</span>{badges}</h1>{lead}{facts}"
    body = f"{head}{_contents(page, document.blocks)}{_blocks(page, document.blocks)}"
    return body, page.all_text()


def embed_blocks(blocks: Sequence[doc.Block], language: str) -> tuple[str, str]:
    """The same of blocks that stand below a heading of the page's own."""
    page = Markup(language)
    return _blocks(page, blocks), page.all_text()


@cache
def file(name: str) -> str:
    """A file of the page's own: its style, its script."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _wrapped(page: Markup, title: str, body: str, *, forced: bool) -> str:
    """Only this style and this script may run, by their hashes, and nothing may be fetched: even markup that slipped
    through could do nothing. `forced`: the language was chosen, so the browser's does not matter."""
    style, script = palette.css() + file("page.css"), file("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    choice = ' data-forced="1"' if forced else ""
    return (
        f'<!doctype html>\n<html lang="{page.language}"{choice}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape.html(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape.html(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="texts">{page.all_text()}</script>\n<script>{script}</script>\n'
        "</body>\n</html>\n"
    )


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _switches(page: Markup) -> str:
    """Hidden until the script that serves them runs."""
    languages = "".join(
        f'<button type="button" data-lang="{code}" lang="{code}">{name}</button>'
        for code, name in (("en", "English"), ("zh", "中文"))
    )
    themes = "".join(
        page.element("button", label(f"theme.{name}"), f' type="button" data-set-theme="{name}"')
        for name in ("auto", "light", "dark")
    )
    return (
        '<div class="switches" hidden>'
        f'<div role="group"{page.named(label("language"))}>{languages}</div>'
        f'<div role="group"{page.named(label("theme"))}>{themes}</div></div>'
    )


def _contents(page: Markup, blocks: Iterable[doc.Block]) -> str:
    """Links to the sections, where there are enough of them."""
    found = []
    for block in blocks:
        if isinstance(block, doc.Group) and block.anchor and block.style == "section" and _FORMAT in block.shown_in:
            head = next((one for one in block.blocks if isinstance(one, doc.Heading) and _FORMAT in one.shown_in), None)
            if head is not None:
                found.append(f'<li><a href="#{escape.html(block.anchor)}">{inline(page, head.text)}</a></li>')
    if len(found) < _LEAST_CONTENTS:
        return ""
    return f'<nav class="contents"{page.named(label("contents"))}><ul>{"".join(found)}</ul></nav>'


def _blocks(page: Markup, blocks: Iterable[doc.Block]) -> str:
    return "".join(_block(page, block) for block in blocks if _FORMAT in block.shown_in)


def _block(page: Markup, block: doc.Block) -> str:
    match block:
        case doc.Group():
            return _group(page, block)
        case doc.Details():
            return _details(page, block)
        case doc.Heading():
            return f"<h{block.level}>{inline(page, block.text)}</h{block.level}>"
        case doc.Lead():
            return page.element("p", block.text, f' class="lead {block.tone or "calm"}"')
        case doc.Paragraph():
            kind = " ".join(name for name, holds in (("small", block.small), ("card", block.card)) if holds)
            return f"<p{_class(kind)}>{inline(page, block.text)}</p>"
        case doc.Notes():
            return _notes(page, block)
        case doc.Facts():
            return _facts(page, block)
        case doc.Table():
            return _table(page, block)
        case doc.Commands():
            shown = "".join(f"<li><code>{escape.html(command)}</code></li>" for command in block.commands)
            title = page.element("p", block.title)
            return f'<div class="commands">{title}<ul>{shown}</ul></div>' if shown else ""
        case doc.Log():
            lines = escape.html("\n".join(block.lines))
            return f'{page.element("p", block.title, " class=small")}<pre tabindex="0">{lines}</pre>'
        case doc.Verbatim():
            return f"<pre>{escape.html(chr(10).join(block.lines))}</pre>"
        case doc.Figures():
            return _figures(page, block)
    raise TypeError(f"a page cannot show {type(block).__name__}")


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _id(anchor: str) -> str:
    return f' id="{escape.html(anchor)}"' if anchor else ""


_GROUPS = {"card": "card", "flush": "card flush", "bad": "card failure bad", "plain": "card failure"}


def _group(page: Markup, block: doc.Group) -> str:
    inside = _blocks(page, block.blocks)
    if block.style == "section":
        return f"<section{_id(block.anchor)}>{inside}</section>"
    return f"<div{_class(_GROUPS[block.style])}{_id(block.anchor)}>{inside}</div>"


def _details(page: Markup, block: doc.Details) -> str:
    case = block.style == "case"
    summary = inline(page, block.summary)
    if case:
        marks = " ".join(inline(page, mark) for mark in block.marks)
        summary = f"<h3>{summary}</h3><span class=marks>{marks}</span>{inline(page, block.figure)}"
    kind = _class("card case" if case else "") + _id(block.anchor) + (" open" if block.open else "")
    return f"<details{kind}><summary>{summary}</summary>{_blocks(page, block.blocks)}</details>"


def _notes(page: Markup, block: doc.Notes) -> str:
    if not block.items:
        return ""
    if block.style == "small":
        return "".join(f'<p class="small">{inline(page, item)}</p>' for item in block.items)
    listed = "".join(f"<li>{inline(page, item)}</li>" for item in block.items)
    return f'<ul class="{"card warn" if block.style == "card" else "remarks"}">{listed}</ul>'


_FACTS = {"row": "facts", "list": "pairs", "tiles": "totals"}


def _facts(page: Markup, block: doc.Facts) -> str:
    box = ' class="card"' if block.style == "tiles" else ""
    listed = "".join(_fact(page, name, value, box) for name, value in block.pairs)
    return f'<dl class="{_FACTS[block.style]}">{listed}</dl>' if listed else ""


def _fact(page: Markup, name: Text, value: doc.Inline, box: str = "") -> str:
    kind = ""
    if box and isinstance(value, doc.Badge):
        # A large figure has the colour itself.
        kind, value = f" class={value.tone}" if value.tone else "", value.text
    return f"<div{box}>{page.element('dt', name)}<dd{kind}>{inline(page, value)}</dd></div>"


def _table(page: Markup, block: doc.Table) -> str:
    """On a narrow screen rows become lists, for which every cell carries its heading; small tables stay tables."""
    shown = [(index, column) for index, column in enumerate(block.columns) if _FORMAT in column.shown_in]
    top = "".join(
        page.element(
            "th",
            column.head,
            f' scope="col"{" class=n" if column.figures else ""}{" data-filter=1" if column.filter else ""}',
        )
        for _, column in shown
    )
    (first, _), *others = shown
    heads = [(index, "" if block.small else page.element("b", column.head), column) for index, column in others]
    body = ""
    for row in block.rows:
        cells = "".join(_cell(page, head, column, row[index]) for index, head, column in heads)
        body += f'<tr><th scope="row">{inline(page, row[first])}</th>{cells}</tr>'
    kind = " ".join(filter(None, ("small" if block.small else "cards", block.style)))
    table = f"<table{_class(kind)}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    filters = any(column.filter for _, column in shown)
    choices = f'<div class="filters">{page.element("span", label("filter.all"), " hidden")}</div>' if filters else ""
    # Whoever has no pointer scrolls with the keyboard.
    return f'{choices}<div class="scroll" tabindex="0">{table}</div>'


def _cell(page: Markup, head: str, column: doc.Column, value: doc.Inline) -> str:
    """The heading is seen only where a row is shown as a list, and an empty cell only elsewhere."""
    shown = inline(page, value)
    kind = " ".join(name for name, holds in (("n", column.figures), ("e", shown in ("", numbers.NONE))) if holds)
    return f"<td{_class(kind)}>{head}{f'<span>{shown}</span>' if '<' in shown else shown}</td>"


def inline(page: Markup, value: doc.Inline) -> str:
    match value:
        case doc.Badge():
            return page.element("span", value.text, f' class="badge {value.tone or "calm"}"')
        case doc.Strong():
            return page.element("span", value.text, ' class="main"')
        case doc.Code():
            return f"<code>{_breakable(value.text)}</code>"
        case doc.Link():
            return f'<a href="#{escape.html(value.anchor)}">{_breakable(value.text)}</a>'
        case doc.Reference():
            return page.element("a", value.text, f' href="{escape.html(value.href)}"')
        case doc.Stack():
            return inline(page, value.main) + page.element("span", value.below, ' class="muted"')
        case doc.Several():
            parts = [inline(page, part) for part in value.parts]
            if not value.joint:
                return f'<span class="pair">{"".join(parts)}</span>'
            # Coloured words need no comma between them.
            apart = any(isinstance(part, (doc.Badge, doc.Several)) for part in value.parts)
            return (" " if apart else escape.html(value.joint)).join(parts)
        case doc.Fold():
            facts = "".join(_fact(page, name, text) for name, text in value.facts)
            shown = page.inline(value.text)
            return f'<details><summary>{shown}</summary><dl class="pairs">{facts}</dl></details>'
        case _:
            return page.inline(value)


def _breakable(text: str) -> str:
    """A long id may break after its separators."""
    return escape.html(text).replace(":", ":<wbr>").replace("@", "@<wbr>").replace(",", ",<wbr>")


def _figures(page: Markup, block: doc.Figures) -> str:
    kind = ("card full" if block.card else "full") if block.style == "full" else ""
    drawn = "".join(_chart(page, chart, kind) for chart in block.charts)
    if not drawn or block.style == "full":
        return drawn
    shown = f'<div class="figures{" single" if block.style == "single" else ""}">{drawn}</div>'
    return f'<div class="card">{shown}</div>' if block.card else shown


def _chart(page: Markup, chart: charts.Chart, kind: str) -> str:
    """Nothing when there is nothing to draw."""
    match chart:
        case charts.LineChart():
            return plots.line_chart(page, chart)
        case charts.Histogram():
            return plots.histogram(page, chart)
        case charts.LogChart():
            return plots.log_chart(page, chart)
        case charts.TreeChart():
            return plots.tree_chart(page, chart)
        case charts.NetworkChart():
            return network.network_chart(page, chart)
        case charts.RowChart():
            return rows.row_chart(page, chart, kind)
        case charts.BarChart():
            return rows.bar_chart(page, chart, _as_table(page, chart))


def _as_table(page: Markup, chart: charts.BarChart) -> str:
    """Parts of a bar are hard to compare by eye."""
    bars, names = rows.drawable_bars(chart)
    columns = [doc.Column(label("round"), figures=False), *(doc.Column(chart.names.get(name, name)) for name in names)]
    cells: list[Sequence[doc.Inline]] = [
        [bar.name, *(numbers.quantity(bar.parts.get(name), chart.unit) for name in names)] for bar in bars
    ]
    return _details(page, doc.Details(label("as_table"), [doc.Table(columns, cells, small=True)]))
