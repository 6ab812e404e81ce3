"""Digests of the files that a node left, for its result: whoever reads them later can tell if they have changed."""

from __future__ import annotations

import os
from typing import Dict, Iterator

from trainmark.agent.events.reader import open_plain

# Written after the result, or by others than this agent.
_LEFT_OUT = ("result.json", "status.json", "control.json", "node.json", "agent.log", "clock.json", "reserve", "spool")
_CHUNK = 1 << 20
# Of all files that are read for this: what ranks leave beyond it is theirs, and is named without a digest.
MOST_BYTES = 256 << 20

Digests = Dict[str, Dict[str, object]]


def of_folder(folder: str, known: Digests) -> Digests:
    """`{"events.jsonl": {"bytes": 812, "sha256": "…"}, …}` for every plain file below `folder`. `known`: those hashed
    while they were written; None as a digest means that there is none."""
    found: Digests = {}
    room = MOST_BYTES
    for name in sorted(_names(folder)):
        if name in known:
            found[name] = known[name]
            continue
        try:
            size = os.path.getsize(os.path.join(folder, name))
            room -= size
            digest = of_file(os.path.join(folder, name)) if room >= 0 else None
        except OSError:
            continue  # removed at this moment, or not a plain file
        found[name] = {"bytes": size, "sha256": digest}
    return found


def of_file(path: str) -> str:
    import hashlib  # most agents need it only when their ranks have ended

    digest = hashlib.sha256()
    descriptor = open_plain(path)
    try:
        while True:
            data = os.read(descriptor, _CHUNK)
            if not data:
                return digest.hexdigest()
            digest.update(data)
    finally:
        os.close(descriptor)


def _names(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        inner = os.path.relpath(place, folder)
        folders[:] = [name for name in folders if name != "spool" and not os.path.islink(os.path.join(place, name))]
        for name in names:
            if inner == "." and (name in _LEFT_OUT or name.endswith(".tmp")):
                continue
            if not os.path.islink(os.path.join(place, name)):
                yield name if inner == "." else os.path.join(inner, name)
