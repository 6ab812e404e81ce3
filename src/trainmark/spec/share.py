"""Shares as people write them: `3%` or `0.03`."""

from __future__ import annotations

import math

from trainmark.errors import UserError


def parse(text: str | float, place: str, *, zero: bool = False) -> float:
    """A share below 1, from `3%` or `0.03`; 0 only where `zero` says so."""
    words = str(text).strip()
    number, percent = (words[:-1], 100.0) if words.endswith("%") else (words, 1.0)
    try:
        value = float(number) / percent
    except ValueError:
        value = math.nan
    if 0 < value < 1 or (zero and value == 0):
        return value
    least = "from 0%" if zero else "above 0%"
    raise UserError(f"{place}: found `{text}`, allowed is a share {least} and below 100%, written as `3%` or `0.03`")
