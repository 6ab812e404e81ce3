"""Values as people write them: shares (`3%`), sizes (`4GiB`), times (`15m`) and lists of hosts (`node[1-16]`)."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path

from trainmark.errors import UserError
from trainmark.spec.inputs import read_text, shown


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
    found = re.fullmatch(r"(\d{1,30}(?:\.\d{1,30})?)\s*([A-Za-z]*)", str(value).strip())
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


MOST_HOSTS = 100_000
_RANGE = r"(\d{1,12})(?:-(\d{1,12}))?"


def expand_hosts(names: list[str], where: str) -> list[str]:
    """Every bracket spelled out, in order. How many there will be is known before any is."""
    patterns = [_pattern(name, where) for name in names]
    if sum(math.prod(len(choices) for choices in pattern) for pattern in patterns) > MOST_HOSTS:
        raise UserError(f"{where}: hosts: more than {MOST_HOSTS}")
    return ["".join(parts) for pattern in patterns for parts in itertools.product(*pattern)]


def split_hosts(text: str) -> list[str]:
    """The names of a list as schedulers write it, `node[1-3,7],gpu01`: brackets stay as they are."""
    return re.findall(r"(?:[^,\[\]\s]|\[[^\[\]]*\])+", text)


class _Numbers:
    """The numbers in one bracket, as wide as they are written: 01 stays two digits."""

    def __init__(self, ranges: list[tuple[int, int, int]]) -> None:
        self._ranges = ranges

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last, _ in self._ranges)

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{width}d}" for first, last, width in self._ranges for number in range(first, last + 1))


def _pattern(name: str, where: str) -> list[tuple[str] | _Numbers]:
    """`n[1-2]-[3,4]` as the parts of which each host takes one."""
    found: list[tuple[str] | _Numbers] = []
    rest = name
    while rest:
        begin, bracket, rest = rest.partition("[")
        found.append((begin,))
        if bracket:
            inside, closing, rest = rest.partition("]")
            ranges = [re.fullmatch(_RANGE, part.strip()) for part in inside.split(",")]
            if not closing or not all(ranges) or len(found) > _MOST_BRACKETS:
                raise UserError(
                    f"{where}: hosts: found {shown(name)}, allowed is a name, or ranges as in `node[1-16]` or "
                    "`n[01-04,07]`"
                )
            found.append(_Numbers([_bounds(one, name, where) for one in ranges if one is not None]))
    return found or [("",)]


def _bounds(found: re.Match[str], name: str, where: str) -> tuple[int, int, int]:
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first or last - first >= MOST_HOSTS:
        raise UserError(f"{where}: hosts: found {shown(name)}, whose range {found[0]} runs backwards or is too long")
    return first, last, len(found[1])


_MOST_BRACKETS = 16


def read_host_file(path: Path) -> list[str]:
    """The first word of each line; what follows (`slots=8`) and comments are passed over."""
    words = [line.partition("#")[0].split() for line in read_text(path).splitlines()]
    names = [line[0] for line in words if line]
    if not names:
        raise UserError(f"{path}: no host in it; put one on each line")
    return expand_hosts(names, str(path))
