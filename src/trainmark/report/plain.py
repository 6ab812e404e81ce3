"""Text that came from elsewhere, fit to be shown: in a page, in a table, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

# What is below this is one column wide, and so are the signs that reports use most.
_WIDE = "\u1100"
_NARROW = str.maketrans("", "", "–—…−≤≥")


@cache
def _odd() -> dict[int, str]:
    """Characters no document may hold, and those that turn the direction of what follows."""
    controls = (set(range(32)) - {9, 10}) | set(range(127, 160)) | {0xFFFE, 0xFFFF}
    turns = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    return dict.fromkeys(controls | turns | set(range(0xD800, 0xE000)), "\ufffd")


def clean(text: str) -> str:
    # Nearly all text is printable, and none of what is odd is.
    return text if text.isprintable() else text.translate(_odd())


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
