"""Logs of jobs from anywhere in them, in pieces: a log may be larger than the memory, and 200 may follow it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.run import control
from trainmark.store.rundir import RunDir

# Bytes of one rank's log in one event, at most.
PIECE = 1 << 16
# Of one file, as an answer by itself.
MOST_BYTES = 4 << 20


class Piece(msgspec.Struct, frozen=True):
    """`text` of one rank, from one byte of its log to another."""

    rank: int
    start: int
    end: int
    text: str


def rank_files(run: RunDir, rank: int | None) -> dict[int, Path]:
    """By rank, in the newest attempt."""
    try:
        files = control.log_files(run, "ranks", rank)
    except UserError:
        return {}
    return {int(file.name.partition(".")[0][4:]): file for file in files}


def tail(files: dict[int, Path], most: int) -> str:
    """The last bytes of each, in whole lines; of several with a heading for each."""
    texts = []
    for rank, file in files.items():
        try:
            size = file.stat().st_size
        except OSError:
            continue
        begin = max(0, size - most)
        data = _read(file, begin, size)
        if begin:
            data = data[data.find(b"\n") + 1 :]
        heading = f"--- rank {rank}\n" if len(files) > 1 else ""
        texts.append(heading + data.decode("utf-8", "replace"))
    return "".join(texts)


def following(files: dict[int, Path], seen: dict[int, int], *, final: bool) -> list[Piece]:
    """What was added since: whole lines, at most one piece of each rank. `final` also takes a last line that has no
    end. `seen` is brought up to date."""
    found = []
    for rank, file in files.items():
        start = seen.get(rank, 0)
        try:
            size = file.stat().st_size
        except OSError:
            continue
        if size == start:
            continue
        if size < start:
            start = 0  # it grew too large and has begun again
        data = _read(file, start, min(size, start + PIECE))
        cut = data.rfind(b"\n") + 1
        if cut == 0 and (final or len(data) == PIECE):
            cut = len(data)  # a line without an end is shown in pieces
        elif final and start + len(data) == size:
            cut = len(data)
        if cut:
            seen[rank] = start + cut
            found.append(Piece(rank, start, start + cut, data[:cut].decode("utf-8", "replace")))
    return found


def _read(file: Path, start: int, end: int) -> bytes:
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.pread(handle, max(0, end - start), start)
    finally:
        os.close(handle)


def encode_seen(seen: dict[int, int]) -> str:
    """What `Last-Event-ID` holds: `rank:byte` for each."""
    return ",".join(f"{rank}:{at}" for rank, at in sorted(seen.items()))


def decode_seen(text: str) -> dict[int, int]:
    """Of what a client sent back; what is no such text is from the beginning."""
    found = {}
    for one in text.split(",")[:100_000]:
        rank, _, at = one.partition(":")
        if rank.isascii() and rank.isdigit() and at.isascii() and at.isdigit() and len(rank) < 8 and len(at) < 16:
            found[int(rank)] = int(at)
    return found
