"""The document model: what a report shows, whatever format it is shown in.

`kinds/` makes a Document of each kind of record; `render/` has one renderer per format. Text in a document has no
language, see `texts`: a renderer makes words of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from trainmark.i18n.texts import Text, label
from trainmark.report.charts.records import Chart

Format = Literal["text", "md", "html"]
TEXT: tuple[Format, ...] = ("text",)
MARKDOWN: tuple[Format, ...] = ("md",)
PAGE: tuple[Format, ...] = ("html",)
NOT_TEXT: tuple[Format, ...] = ("md", "html")
NOT_PAGE: tuple[Format, ...] = ("text", "md")
EVERYWHERE: tuple[Format, ...] = ("text", "md", "html")

# What a coloured word or box says: `calm` is neither good nor bad.
Tone = Literal["", "good", "bad", "warn", "calm"]


class Badge(msgspec.Struct, frozen=True):
    """A small coloured word. The word says it all: the colour only helps."""

    text: Text
    tone: Tone = "calm"


class Code(msgspec.Struct, frozen=True):
    """An id, a path or a command."""

    text: str


class Link(msgspec.Struct, frozen=True):
    """A name that leads to the block with this anchor. `code`: an id, where the format marks them."""

    text: str
    anchor: str
    code: bool = True


class Reference(msgspec.Struct, frozen=True):
    """A name that leads to a file beside the page. Elsewhere it is only a name."""

    text: Text
    href: str


class Stack(msgspec.Struct, frozen=True):
    """A second, less loud line below the first, where there is room for it. In a line: beside it, or left out; in the
    first cell of a table that `keeps` it, on a line of its own."""

    main: Inline
    below: Text
    in_line: bool = False
    keeps: bool = False


class Several(msgspec.Struct, frozen=True):
    """Inline parts side by side."""

    parts: tuple[Inline, ...]
    joint: str = ", "


class Strong(msgspec.Struct, frozen=True):
    """The figure that a reader looks for."""

    text: Text


class Fold(msgspec.Struct, frozen=True):
    """A name that opens into facts."""

    text: Text
    facts: Sequence[tuple[Text, Text]]


Inline = Text | Badge | Code | Link | Reference | Stack | Several | Strong | Fold


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """`shown_in`: the formats that have room for it."""

    shown_in: tuple[Format, ...] = EVERYWHERE


class Heading(Block, frozen=True):
    """Levels: 2 a section, 3 a part of it, 4 a short heading above a list."""

    text: Inline
    level: int = 2


class Paragraph(Block, frozen=True):
    text: Inline
    small: bool = False
    # In a box of its own.
    card: bool = False


class Lead(Block, frozen=True):
    """The answer in one sentence, before everything else. The sentence says it all: the colour only helps."""

    text: Text
    tone: Tone = "calm"


class Notes(Block, frozen=True):
    """Remarks, one on each line."""

    items: Sequence[Inline]
    # How a page shows them: beside a coloured rule, as small paragraphs, or in a box.
    style: Literal["remarks", "small", "card"] = "remarks"


class Facts(Block, frozen=True):
    """Names and values: in a row, one below the other, or as large figures."""

    pairs: Sequence[tuple[Text, Inline]]
    style: Literal["row", "list", "tiles"] = "row"


class Column(msgspec.Struct, frozen=True):
    """`figures`: its cells are set to the right. `filter`: a page lets its reader choose among the column's values."""

    head: Text
    figures: bool = True
    shown_in: tuple[Format, ...] = EVERYWHERE
    filter: bool = False


def columns(*keys: str, text: int = 1, after: int = 0) -> list[Column]:
    """By their labels. The first `text` and the last `after` hold text, those between them figures."""
    return [Column(label(key), text <= index < len(keys) - after) for index, key in enumerate(keys)]


class Table(Block, frozen=True):
    """The first column names the row. On a narrow screen the rows of a table that is not `small` become lists."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Inline]]
    small: bool = False
    # A class for the page's style.
    style: str = ""


class Commands(Block, frozen=True):
    """What to type next, each to be copied as it is."""

    title: Text
    commands: Sequence[str]


class Log(Block, frozen=True):
    """Lines as a program wrote them."""

    title: Text
    lines: Sequence[str]


class Verbatim(Block, frozen=True):
    """Lines that are laid out already: bars of a terminal, or the table of another tool."""

    lines: Sequence[str]


class Figures(Block, frozen=True):
    """Charts, which only a page draws. `grid`: several side by side; `single`: one of moderate width; `full`: each over
    the whole width."""

    charts: Sequence[Chart]
    style: Literal["grid", "single", "full"] = "grid"
    card: bool = False


class Group(Block, frozen=True):
    """Blocks that belong together: a section with an anchor, or a box."""

    blocks: Sequence[Block]
    anchor: str = ""
    style: Literal["section", "card", "flush", "bad", "plain"] = "section"


class Details(Block, frozen=True):
    """Blocks that can be folded away. `style` case: the box of one case, with `marks` and its main figure beside its
    name."""

    summary: Inline
    blocks: Sequence[Block]
    anchor: str = ""
    open: bool = False
    style: Literal["plain", "case"] = "plain"
    marks: Sequence[Inline] = ()
    figure: Inline = ""


class Document(msgspec.Struct, frozen=True):
    """A whole report. Text shows its blocks only, Markdown the heading too, a page everything."""

    # Of the window.
    title: str
    # What kind of report it is, above the heading.
    kind: Text
    heading: Inline
    blocks: Sequence[Block]
    badges: Sequence[Badge] = ()
    facts: Sequence[tuple[Text, Inline]] = ()
    # Whether the heading stands in Markdown too, where nothing but the blocks may be wanted.
    headed: bool = True
    # On top of everything, in all formats.
    lead: Lead | None = None
