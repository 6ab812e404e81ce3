"""Text that came from elsewhere, made safe for the format it is shown in: no data can break out of it."""

from __future__ import annotations

import re
from functools import cache

# Control characters beyond ASCII's, and those that turn the direction of what follows.
_UNSEEN = "[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"


@cache
def _odd() -> dict[int, str]:
    """Characters no document may hold, and those that turn the direction of what follows."""
    controls = (set(range(32)) - {9, 10}) | set(range(127, 160)) | {0xFFFE, 0xFFFF}
    turns = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    return dict.fromkeys(controls | turns | set(range(0xD800, 0xE000)), "\ufffd")


def clean(text: str) -> str:
    """Fit for a terminal: nothing moves the reader's cursor or changes colours."""
    # Nearly all text is printable, and none of what is odd is.
    return text if text.isprintable() else text.translate(_odd())


def json(text: str) -> str:
    """JSON escapes control characters up to 31 by itself. The others stand in strings only, and become escapes too."""
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(_UNSEEN, lambda found: f"\\u{ord(found[0]):04x}", text)


def html(text: str) -> str:
    """For use as text and inside attributes in double quotes."""
    from html import escape  # its table of names is large, and most commands make no page

    return escape(clean(text), quote=True)


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", clean(text)).strip()


def markdown(text: str) -> str:
    """Text that stays text: no markup, no links, nobody called by name, one line."""
    shown = flat(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = re.sub(r"([\\`*_{}\[\]()|~!])", r"\\\1", shown)
    # A joint of no width: a site that turns @name and #1 into links and calls finds neither.
    return re.sub(r"([@#])(?=\w)", "\\1\u2060", shown)


def markdown_code(text: str) -> str:
    """Fenced by more backticks than the text holds in a row. A bar would end the cell of a table."""
    shown = flat(text).replace("|", "\\|") or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"
