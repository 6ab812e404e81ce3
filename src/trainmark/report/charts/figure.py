"""A chart with its caption, its legend and, where it helps, the same as a table."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report.i18n.speaker import Label
from trainmark.report.markup import element, words
from trainmark.report.numbers import NONE

COLOURS = 6


def colour(index: int) -> str:
    """The class of a series; past the last colour they begin again, with dashes."""
    return f"s{index % COLOURS + 1}" + (" dash" if index >= COLOURS else "")


def figure(
    title: Label | str, svg: str, legend: Sequence[tuple[str, Label | str]] = (), after: str = "", kind: str = ""
) -> str:
    """`legend` is (class of the mark, its name); `after` is markup below the drawing."""
    marks = "".join(element("li", name, f' class="{mark}"' if mark else "") for mark, name in legend)
    listed = f'<ul class="legend">{marks}</ul>' if marks else ""
    more = f' class="{kind}"' if kind else ""
    return f"<figure{more}>{element('figcaption', title)}{listed}<div>{svg}{after}</div></figure>"


def table(
    head: Sequence[Label | str],
    rows: Sequence[Sequence[Label | str]],
    *,
    kind: str = "cards",
    plain: Sequence[int] = (0,),
) -> str:
    """A table whose first column names the row. Columns not in `plain` hold figures. On a narrow screen rows of `cards`
    become lists, for which every cell carries its heading; other kinds are small enough."""
    sides = ["" if index in plain else ' class="n"' for index in range(len(head))]
    top = "".join(element("th", name, f' scope="col"{side}') for name, side in zip(head, sides, strict=True))
    body = ""
    for name, *cells in rows:
        named = head if kind == "cards" else [""] * len(head)
        data = (data_cell(named[index], words(cell), index not in plain) for index, cell in enumerate(cells, 1))
        body += f'<tr><th scope="row">{words(name)}</th>{"".join(data)}</tr>'
    return f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def data_cell(head: Label | str, value: str, right: bool) -> str:
    """`value` is markup. Its heading is seen only where a row is shown as a list, and an empty cell only elsewhere."""
    kind = " ".join(name for name, holds in (("n", right), ("e", value == NONE)) if holds)
    more = f' class="{kind}"' if kind else ""
    return f"<td{more}>{element('b', head) if head else ''}{f'<span>{value}</span>' if '<' in value else value}</td>"
