"""Names of hosts as people write them: `node[1-16]`, `gpu[01-04,07]`, and files with a host on each line."""

from __future__ import annotations

import re
from pathlib import Path

from trainmark.errors import UserError

_MOST = 100_000


def expand(names: list[str], where: str) -> list[str]:
    """Every bracket spelled out, in order."""
    found: list[str] = []
    for name in names:
        found += _one(name, where)
        if len(found) > _MOST:
            raise UserError(f"{where}: hosts: more than {_MOST}")
    return found


def _one(name: str, where: str) -> list[str]:
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
        if int(last) < int(first) or int(last) - int(first) >= _MOST:
            raise UserError(f"{where}: hosts: found {name!r}, whose range {match[0]} runs backwards or is too long")
        # As wide as it is written: 01 stays two digits.
        found += [f"{begin}{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return [host for start in found for host in _one(start + end, where)]


def read(path: Path) -> list[str]:
    """The first word of each line; what follows (`slots=8`) and comments are passed over."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    words = [line.partition("#")[0].split() for line in lines]
    names = [line[0] for line in words if line]
    if not names:
        raise UserError(f"{path}: no host in it; put one on each line")
    return expand(names, str(path))
