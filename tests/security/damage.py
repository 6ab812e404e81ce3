"""Damage as disks, editors and people do it: bytes that flip, parts that are lost, values that are no such values."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 10**400, 1e308, "", "x", "\ud800", "../../etc", "a" * 5000, [], {}, [[]],
)  # fmt: skip


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """Another content for the file."""
    kind = chance.randrange(9)
    at = chance.randrange(len(whole) + 1)
    if kind == 0:
        return whole[:at]
    if kind == 1:
        place = min(at, len(whole) - 1)
        return whole[:place] + bytes([whole[place] ^ (1 << chance.randrange(8))]) + whole[place + 1 :]
    if kind == 2:
        return whole[:at] + bytes(chance.randrange(256) for _ in range(chance.randrange(1, 20))) + whole[at:]
    if kind == 3:
        return whole[:at] + bytes(chance.choice((16, 4096))) + whole[at + 16 :]
    if kind == 4:
        return chance.choice(
            (b"", b"\0", b"\n", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe{}", b"null", b"[]", b'"x"')
        )
    if kind == 5:
        return re.sub(rb"\d+", lambda found: b"9" * 5000 if chance.random() < 0.1 else found[0], whole)
    return _other_values(whole, chance)


def _other_values(whole: bytes, chance: random.Random) -> bytes:
    """Valid JSON in which some values are of another kind, or gone."""
    if b"\n{" in whole:
        lines = whole.split(b"\n")
        number = chance.randrange(len(lines))
        lines[number] = _other_values(lines[number], chance) if lines[number] else b"{}"
        return b"\n".join(lines)
    try:
        value = msgspec.json.decode(whole)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return whole[::-1]
    for _ in range(chance.randrange(1, 4)):
        value = _changed(value, chance)
    return _encoded(value)


def _encoded(value: Any) -> bytes:
    import json

    return json.dumps(value).encode("utf-8", "surrogatepass")


def _changed(value: Any, chance: random.Random) -> Any:
    inner = isinstance(value, dict | list) and value and chance.random() < 0.9
    if not inner:
        return chance.choice(ODD)
    if isinstance(value, dict):
        key = chance.choice(list(value))
        if chance.random() < 0.2:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: _changed(value[key], chance)}
    place = chance.randrange(len(value))
    return [*value[:place], _changed(value[place], chance), *value[place + 1 :]]
