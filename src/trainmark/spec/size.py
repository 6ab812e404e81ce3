"""Sizes of memory, as people write them."""

from __future__ import annotations

import re

from trainmark.errors import UserError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse(value: str | int, place: str) -> int:
    """Bytes: a number, or one with a unit such as 4GiB."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(value).strip())
    if found is None or found[2].upper() not in _UNITS or float(found[1]) <= 0:
        raise UserError(f"{place}: found {value!r}, allowed is a size such as 4GiB, 512MiB or a number of bytes")
    return int(float(found[1]) * _UNITS[found[2].upper()])
