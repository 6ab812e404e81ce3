"""A document as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainmark.i18n.speaker import say
from trainmark.i18n.texts import Label, Text
from trainmark.report import document as doc
from trainmark.report.render.escape import clean

_FORMAT = "text"
_MOST_LINES = 10
# What is below this is one column wide, and so are the signs that reports use most.
_WIDE = "\u1100"
_NARROW = str.maketrans("", "", "–—…−≤≥")
# These stand right below a heading and below each other.
_TIGHT = (doc.Notes, doc.Log)


def render(document: doc.Document, language: str = "en") -> str:
    lines: list[str] = []
    before: doc.Block | None = None
    for block in _flat(document.blocks):
        shown = list(_lines(block, language))
        if not shown:
            continue
        close = isinstance(before, doc.Heading) or (isinstance(block, _TIGHT) and isinstance(before, _TIGHT))
        lines += shown if close or not lines else ["", *shown]
        before = block
    return "\n".join(clean(line).rstrip() for line in lines) + "\n"


def _flat(blocks: Iterable[doc.Block]) -> Iterator[doc.Block]:
    """Boxes and folding mean nothing to a terminal: what is in them stands in a row."""
    for block in blocks:
        if _FORMAT not in block.shown_in:
            continue
        if isinstance(block, doc.Group):
            yield from _flat(block.blocks)
        elif isinstance(block, doc.Details):
            yield doc.Heading(block.summary, 4)
            yield from _flat(block.blocks)
        else:
            yield block


def _lines(block: doc.Block, language: str) -> Iterator[str]:
    match block:
        case doc.Heading():
            yield inline(block.text, language) + (":" if block.level > 3 else "")
        case doc.Paragraph():
            yield from inline(block.text, language).splitlines()
        case doc.Notes():
            yield from (f"  {inline(item, language)}" for item in block.items)
        case doc.Facts():
            yield from columns([(f"  {say(name, language)}", inline(value, language)) for name, value in block.pairs])
        case doc.Table():
            shown = [index for index, column in enumerate(block.columns) if _FORMAT in column.shown_in]
            head = [_lowered(block.columns[index].head, language) for index in shown]
            rows = [[inline(row[index], language) for index in shown] for row in block.rows]
            yield from columns([head, *rows] if any(head) else rows)
        case doc.Log():
            yield f"  {say(block.title, language)}:"
            yield from (f"    | {line}" for line in block.lines[-_MOST_LINES:])
        case doc.Verbatim():
            yield from block.lines


def inline(value: doc.Inline, language: str) -> str:
    match value:
        case doc.Badge() | doc.Strong() | doc.Fold():
            return say(value.text, language)
        case doc.Reference():
            return say(value.text, language)
        case doc.Code() | doc.Link():
            return value.text
        case doc.Stack():
            return inline(value.main, language) + (f" {say(value.below, language)}" if value.in_line else "")
        case doc.Several():
            return value.joint.join(inline(part, language) for part in value.parts)
        case _:
            return say(value, language)


def _lowered(head: Text, language: str) -> str:
    """Headings of a terminal's table begin small, but for names as MFU and B ÷ A."""
    text = say(head, language)
    return text.lower() if isinstance(head, Label) and text[1:] == text[1:].lower() else text


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, its columns as wide as they need to be."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _width(text: str) -> int:
    """Columns of a terminal: a Chinese character takes two."""
    if max(text.translate(_NARROW), default="") < _WIDE:
        return len(text)
    import unicodedata

    return len(text) + sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
