"""Text that came from elsewhere, fit to be shown: in a page, in a table, on a terminal."""

from __future__ import annotations

from functools import cache


@cache
def _odd() -> dict[int, str]:
    """Characters no document may hold, and those that turn the direction of what follows."""
    controls = (set(range(32)) - {9, 10}) | set(range(127, 160)) | {0xFFFE, 0xFFFF}
    turns = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    return dict.fromkeys(controls | turns | set(range(0xD800, 0xE000)), "\ufffd")


def clean(text: str) -> str:
    # Nearly all text is printable, and none of what is odd is.
    return text if text.isprintable() else text.translate(_odd())
