"""A document as plain text for a terminal of 80 columns: lines are broken between words, never inside one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trainmark.i18n.speaker import say
from trainmark.i18n.texts import Label, Text
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.render.escape import clean, flat

_FORMAT = "text"
_MOST_LINES = 10
COLUMNS = 80
# A narrower column of text cannot be read.
_LEAST_TEXT = 20
# What is below this is one column wide, and so are the signs that reports use most.
_WIDE = "\u1100"
_NARROW = str.maketrans("", "", "–—…−≤≥")
# Where a line may be broken: after a space, and beside a Chinese character, but not before a closing sign or a `%`.
_CHINESE = r"\u2e80-\u9fff\uff00-\uffef"
_WORDS = rf"[{_CHINESE}][\u3000-\u303f\uff00-\uff0f\uff1a-\uff20)]*|[^\s{_CHINESE}]+(?: %[^\s{_CHINESE}]*)?|\s+"
# The same for a text without such characters; the other takes long to compile.
_NARROW_WORDS = r"\S+(?: %\S*)?|\s+"
# These stand right below a heading and below each other.
_TIGHT = (doc.Notes, doc.Log)


def render(document: doc.Document, language: str = "en") -> str:
    lines: list[str] = []
    before: doc.Block | None = None
    lead = [document.lead] if document.lead is not None else []
    for block in _flat([*lead, *document.blocks]):
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
            yield from wrap(inline(block.text, language) + (":" if block.level > 3 else ""), after="  ")
        case doc.Lead():
            yield from wrap(say(block.text, language))
        case doc.Paragraph():
            for line in inline(block.text, language).splitlines():
                yield from wrap(line, after="  ")
        case doc.Notes():
            for item in block.items:
                yield from wrap(flat(inline(item, language)), "  ", "    ")
        case doc.Facts():
            yield from _facts(block, language)
        case doc.Table():
            yield from _table(block, language)
        case doc.Log():
            yield f"  {say(block.title, language)}:"
            yield from (f"    | {line}" for line in block.lines[-_MOST_LINES:])
        case doc.Verbatim():
            yield from block.lines


def _facts(block: doc.Facts, language: str) -> Iterator[str]:
    """Names to the left, values beside them."""
    pairs = [(f"  {say(name, language)}", flat(inline(value, language))) for name, value in block.pairs]
    room = max((_width(name) for name, _ in pairs), default=0) + 2
    for (name, value), (_, shown) in zip(pairs, block.pairs, strict=True):
        # A command or a path can be copied as it is.
        whole = isinstance(shown, doc.Code)
        yield from [_pad(name, room) + value] if whole else wrap(value, _pad(name, room), " " * room)


def _table(block: doc.Table, language: str) -> Iterator[str]:
    """Text in the last column is wrapped. Rows that are still too long have their name on a line of their own, and if
    need be each value its heading."""
    shown = [index for index, column in enumerate(block.columns) if _FORMAT in column.shown_in]
    head = [_lowered(block.columns[index].head, language) for index in shown]
    rows = [[flat(inline(row[index], language)) for index in shown] for row in block.rows]
    kept = [_kept(row[shown[0]], language) for row in block.rows]
    # A column in which no row has anything says nothing.
    used = [index for index in range(len(shown)) if index == 0 or any(row[index] for row in rows)]
    table = [[row[index] for index in used] for row in ([head, *rows] if any(head) else rows)]
    below = [[], *kept] if any(head) else kept
    text_last = len(used) > 1 and not block.columns[shown[used[-1]]].figures
    lines = _fitted(table, COLUMNS, text_last)
    if lines is None:
        others = _fitted([row[1:] for row in table], COLUMNS - 4, text_last and len(used) > 2)
        if others is not None:
            lines = [[row[0], *(f"    {one}" for one in more)] for row, more in zip(table, others, strict=True)]
    if lines is None:
        table, below = (table[1:], below[1:]) if any(head) else (table, below)
        lines = [[row[0], *_told(head, used, row)] for row in table]
    for (first, *rest), more in zip(lines, below, strict=True):
        yield first
        for text in more:
            yield from wrap(text, "  ", "  ")
        yield from rest


def _fitted(table: Sequence[Sequence[str]], room: int, text_last: bool) -> list[list[str]] | None:
    """Each row as one line, or as several where its last cell is wrapped; None where that does not fit."""
    lines = columns(table)
    if max(map(_width, lines), default=0) <= room:
        return [[line] for line in lines]
    if not text_last:
        return None
    before = columns([[*row[:-1], ""] for row in table])
    indent = max(map(_width, before)) + 2
    if indent + _LEAST_TEXT > room:
        return None
    return [wrap(row[-1], _pad(line, indent), " " * indent, room) for row, line in zip(table, before, strict=True)]


def _told(head: Sequence[str], used: Sequence[int], row: Sequence[str]) -> list[str]:
    """`rounds 3, median 24.6 …`, without what is unknown."""
    pairs = zip(used[1:], row[1:], strict=True)
    said = ", ".join(f"{head[index]} {cell}" for index, cell in pairs if cell and cell != numbers.NONE)
    return wrap(said, "    ", "    ")


def _kept(value: doc.Inline, language: str) -> list[str]:
    """What stands below the name of a row."""
    if isinstance(value, doc.Stack) and value.keeps and (said := flat(say(value.below, language))):
        return [said]
    return []


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


def wrap(text: str, before: str = "", after: str = "", columns: int = COLUMNS) -> list[str]:
    """Lines of at most so many columns, but for words that are longer: an id or a path can be copied as it is.
    `before` begins the first line, `after` all others."""
    if _width(before) + _width(text) <= columns:
        return [before + text]
    lines, line = [], before
    empty = True
    for word in re.findall(_NARROW_WORDS if _is_narrow(text) else _WORDS, text):
        if not empty and _width(line) + _width(word.rstrip()) > columns:
            lines.append(line.rstrip())
            line, empty = after, True
        if not (empty and word.isspace()):
            line, empty = line + word, False
    return [*lines, line.rstrip()]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, its columns as wide as they need to be."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def narrow(rows: Sequence[Sequence[str]], room: int, names: int) -> list[str]:
    """The same in a terminal of `room` columns. Where they do not fit, the first `names` cells of a row have a line of
    their own, and the others are below it."""
    whole = columns(rows)
    if max(map(_width, whole), default=0) <= room or not all(len(row) > names for row in rows):
        return whole
    others = columns([row[names:] for row in rows])
    return [line for row, rest in zip(rows, others, strict=True) for line in ("  ".join(row[:names]), f"    {rest}")]


def _is_narrow(text: str) -> bool:
    return max(text.translate(_NARROW), default="") < _WIDE


def _width(text: str) -> int:
    """Columns of a terminal: a Chinese character takes two."""
    if _is_narrow(text):
        return len(text)
    import unicodedata

    return len(text) + sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
