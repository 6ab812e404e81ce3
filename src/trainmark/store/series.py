"""How often a suite was run: every run has a number in the series of runs of the same cases on the same hosts.

`runs/.series.jsonl` has a line for each run, which holds the hash of the line before it. Whoever shows three runs
of twenty shows by their numbers that there are twenty. The file proves nothing against somebody who rewrites all of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainmark.plan.records import Plan
from trainmark.store.files import read_bytes

NAME = ".series.jsonl"


class SeriesPlace(msgspec.Struct, frozen=True):
    """Where a run stands in its series, which `name` identifies. `previous`: SHA-256 of the line before, or empty."""

    name: str
    number: int
    previous: str = ""


class Line(msgspec.Struct, frozen=True):
    """A line of the file."""

    run: str
    created: int
    series: SeriesPlace


def name_of(plan: Plan) -> str:
    """The same for runs of the same cases with the same settings on the same hosts."""
    cases = sorted(f"{case.id.identity} {case.fingerprint}" for case in plan.cases)
    hosts = sorted({node.host for case in plan.cases for node in case.nodes})
    return hashlib.sha256("\n".join([plan.suite, *cases, *hosts]).encode()).hexdigest()[:16]


def join(runs: Path, run: str, plan: Plan, created: int) -> SeriesPlace | None:
    """Gives the run its number. None where the folder cannot be locked or written: a run needs no number to be made."""
    name = name_of(plan)
    with contextlib.suppress(OSError), _locked(runs / NAME) as handle:
        lines = _read(handle)
        mine = [line for line, found in lines if found.series.name == name]
        before = hashlib.sha256(lines[-1][0]).hexdigest() if lines else ""
        place = SeriesPlace(name, len(mine) + 1, before)
        os.write(handle, msgspec.json.encode(Line(run, created, place)) + b"\n")
        return place
    return None


def chain(runs: Path, run: str) -> list[bytes]:
    """All lines of the list that a run is in, also of runs after it: how many there are is what the list is for. Empty
    when the run has no line."""
    try:
        content = read_bytes(runs / NAME).split(b"\n")
    except OSError:
        return []
    found = _decoded(content)
    return [line for line, _ in found] if any(line.run == run for _, line in found) else []


def read_chain(content: bytes) -> list[Line] | None:
    """The lines of a packed list; None when one of them does not hold the hash of the line before it."""
    found, before = [], ""
    for text in content.split(b"\n")[:-1]:
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.DecodeError, ValueError):
            return None
        if line.series.previous != before:
            return None
        before = hashlib.sha256(text).hexdigest()
        found.append(line)
    return found


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _read(handle: int) -> list[tuple[bytes, Line]]:
    size = os.fstat(handle).st_size
    content = os.pread(handle, size, 0)
    if content and not content.endswith(b"\n"):
        os.write(handle, b"\n")  # the torn line of a process that was killed
    return _decoded(content.split(b"\n"))


def _decoded(lines: list[bytes]) -> list[tuple[bytes, Line]]:
    found = []
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            found.append((line, msgspec.json.decode(line, type=Line)))
    return found
