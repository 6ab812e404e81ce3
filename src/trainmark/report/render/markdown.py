"""A document as Markdown, made for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trainmark.i18n.speaker import say
from trainmark.report import document as doc
from trainmark.report.render import escape

_FORMAT = "md"
_MOST_LINES = 20
_MARKS: dict[doc.Tone, str] = {"": "⚪", "calm": "⚪", "good": "🟢", "warn": "🟡", "bad": "🔴"}


def render(document: doc.Document, language: str = "en") -> str:
    heading = ": ".join(inline(part, language) for part in (document.heading, *document.badges))
    parts = [f"## {heading}"] if document.headed else []
    lead = [document.lead] if document.lead is not None else []
    return "\n\n".join([*parts, *_parts([*lead, *document.blocks], language)]) + "\n"


def _parts(blocks: Iterable[doc.Block], language: str) -> Iterator[str]:
    for block in blocks:
        if _FORMAT in block.shown_in:
            yield from _part(block, language)


def _part(block: doc.Block, language: str) -> Iterator[str]:
    match block:
        case doc.Group():
            yield from _parts(block.blocks, language)
        case doc.Details():
            inside = "\n\n".join(_parts(block.blocks, language))
            yield folded(inline(block.summary, language), inside)
        case doc.Heading():
            text = inline(block.text, language)
            yield f"### {text}" if block.level < 4 else f"**{text}**"
        case doc.Lead():
            yield f"{_MARKS[block.tone]} **{escape.markdown(say(block.text, language))}**"
        case doc.Paragraph():
            yield inline(block.text, language)
        case doc.Notes() if block.items:
            yield "\n".join(f"- {inline(item, language)}" for item in block.items)
        case doc.Facts() if block.pairs:
            pairs = ((escape.markdown(say(name, language)), inline(value, language)) for name, value in block.pairs)
            yield "\n".join(f"- {name}: {value}" for name, value in pairs)
        case doc.Table():
            yield _table(block, language)
        case doc.Commands() if block.commands:
            shown = " · ".join(escape.markdown_code(command) for command in block.commands)
            yield f"{escape.markdown(say(block.title, language))}: {shown}"
        case doc.Log():
            lines = "\n".join(_fenced(block.lines[-_MOST_LINES:]))
            yield folded(escape.markdown(say(block.title, language)), lines)
        case doc.Verbatim():
            yield "\n".join(block.lines)


def _table(block: doc.Table, language: str) -> str:
    """The second row says to which side each column goes."""
    shown = [(index, column) for index, column in enumerate(block.columns) if _FORMAT in column.shown_in]
    head = [escape.markdown(say(column.head, language)) for _, column in shown]
    sides = ["---:" if column.figures else "---" for _, column in shown]
    rows = ([inline(row[index], language) for index, _ in shown] for row in block.rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, sides, *rows))


def inline(value: doc.Inline, language: str) -> str:
    match value:
        case doc.Reference():
            return escape.markdown(say(value.text, language))
        case doc.Link(code=False):
            return escape.markdown(value.text)
        case doc.Code() | doc.Link():
            return escape.markdown_code(value.text)
        case doc.Strong() | doc.Badge() | doc.Fold():
            return escape.markdown(say(value.text, language))
        case doc.Stack():
            joint = "<br>" if value.keeps else " "
            below = joint + escape.markdown(say(value.below, language)) if value.in_line or value.keeps else ""
            return inline(value.main, language) + below
        case doc.Several():
            return value.joint.join(inline(part, language) for part in value.parts)
        case _:
            return escape.markdown(say(value, language))


def folded(summary: str, inside: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _fenced(lines: Sequence[str]) -> list[str]:
    shown = [escape.clean(line).replace("\n", " ") for line in lines]
    fence = "`" * max(3, 1 + max(len(run) for line in shown for run in ["", *re.findall("`+", line)]))
    return [f"{fence}text", *shown, fence]
