"""Values as people write them: shares (`3%`), sizes (`4GiB`), times (`15m`) and lists of hosts (`node[1-16]`)."""

from __future__ import annotations

import math
import re
from pathlib import Path

from trainmark.errors import UserError


def parse_share(text: str | float, place: str, *, zero: bool = False) -> float:
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


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_size(value: str | int, place: str) -> int:
    """Bytes: a number, or one with a unit such as 4GiB."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(value).strip())
    if found is None or found[2].upper() not in _UNITS or float(found[1]) <= 0:
        raise UserError(f"{place}: found {value!r}, allowed is a size such as 4GiB, 512MiB or a number of bytes")
    return int(float(found[1]) * _UNITS[found[2].upper()])


_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def parse_seconds(value: str | float, place: str) -> float:
    """A time above 0: a number of seconds, or one with a unit, as in 90s, 15m or 2h."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\s*([a-z]*)", str(value).strip())
    if found is None or found[2] not in _SECONDS or float(found[1]) <= 0:
        raise UserError(f"{place}: found {value!r}, allowed is a time such as 90s, 15m or 2h")
    return float(found[1]) * _SECONDS[found[2]]


_MOST_HOSTS = 100_000


def expand_hosts(names: list[str], where: str) -> list[str]:
    """Every bracket spelled out, in order."""
    found: list[str] = []
    for name in names:
        found += _expand_one(name, where)
        if len(found) > _MOST_HOSTS:
            raise UserError(f"{where}: hosts: more than {_MOST_HOSTS}")
    return found


def _expand_one(name: str, where: str) -> list[str]:
    begin, bracket, rest = name.partition("[")
    if not bracket:
        return [name]
    inside, closing, end = rest.partition("]")
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip()) for part in inside.split(",")]
    if not closing or not all(ranges):
        raise UserError(
            f"{where}: hosts: found {name!r}, allowed is a name, or ranges as in `node[1-16]` or `n[01-04,07]`"
        )
    found = []
    for match in ranges:
        assert match is not None  # noqa: S101 - `all` has looked
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= _MOST_HOSTS:
            raise UserError(f"{where}: hosts: found {name!r}, whose range {match[0]} runs backwards or is too long")
        # As wide as it is written: 01 stays two digits.
        found += [f"{begin}{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return [host for start in found for host in _expand_one(start + end, where)]


def read_host_file(path: Path) -> list[str]:
    """The first word of each line; what follows (`slots=8`) and comments are passed over."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    words = [line.partition("#")[0].split() for line in lines]
    names = [line[0] for line in words if line]
    if not names:
        raise UserError(f"{path}: no host in it; put one on each line")
    return expand_hosts(names, str(path))
