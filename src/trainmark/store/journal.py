"""The journal of a run: append-only JSON lines, fsynced, readable after any crash.

A record carries the epoch of the controller that wrote it. One written by a controller that had already been
replaced is ignored, so a take-over never counts anything twice.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.reasons import Reason, reason
from trainmark.spec.states import JobState
from trainmark.store.files import BROKEN, read_bytes, write_all

NAME = "journal.jsonl"
RESERVE = "reserve"
_RESERVED_BYTES = 128 * 1024

# Record kinds.
OWNER, ATTEMPT, SUBMITTED, WAITING, BEGAN, ENDED, ENOUGH, SKIPPED, STOP, FINISHED = (
    "owner",
    "attempt",
    "submitted",
    # A scheduler has it in its queue, and why; and has started it.
    "waiting",
    "began",
    "ended",
    "enough",
    "skipped",
    "stop",
    "finished",
)


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the journal."""

    k: str
    epoch: int
    wall: int
    case: int | None = None
    round: int | None = None
    attempt: int | None = None
    token: str | None = None
    handle: str | None = None
    state: JobState | None = None
    # Text in journals of older versions.
    reason: Reason | str | None = None
    failure: dict[str, Any] | None = None
    speed: float | None = None
    band: Reason | str | None = None
    # An attempt that failed after its training was over, on every rank: what it measured is kept.
    trained: bool = False
    host: str | None = None
    pid: int | None = None
    # Of what an attempt left when it ended, and of the manifest that an owner found (`trainmark.store.digests`).
    digest: str | None = None


class Journal:
    """The writing end. `guard` is held around each append and fails when this controller was replaced."""

    def __init__(self, run_dir: Path, epoch: int, guard: Callable[[], AbstractContextManager[None]]) -> None:
        self._path = run_dir / NAME
        self._reserve = run_dir / RESERVE
        self._epoch = epoch
        self._guard = guard
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with guard():
            self._end_torn_line()
        self._keep_room()

    def append(self, kind: str, **fields: Any) -> Record:
        record = Record(k=kind, epoch=self._epoch, wall=time.time_ns(), **fields)
        line = msgspec.json.encode(record) + b"\n"
        with self._guard():
            try:
                write_all(self._handle, line)
            except OSError:
                # A full disk: give back the room kept for this moment, then say what happened.
                self._reserve.unlink(missing_ok=True)
                self._end_torn_line()
                write_all(self._handle, line)
            os.fsync(self._handle)
        return record

    def close(self) -> None:
        self._reserve.unlink(missing_ok=True)
        os.close(self._handle)

    def _end_torn_line(self) -> None:
        size = os.fstat(self._handle).st_size
        if size and os.pread(self._handle, 1, size - 1) != b"\n":
            write_all(self._handle, b"\n")

    def _keep_room(self) -> None:
        with contextlib.suppress(OSError):
            handle = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.posix_fallocate(handle, 0, _RESERVED_BYTES)
            finally:
                os.close(handle)


def write(run_dir: Path, records: list[Record]) -> None:
    """The whole journal at once, for a run that was over before we met it."""
    with (run_dir / NAME).open("wb") as out:
        for record in records:
            out.write(msgspec.json.encode(record) + b"\n")
        out.flush()
        os.fsync(out.fileno())


class Read(msgspec.Struct, frozen=True):
    records: list[Record]
    warnings: list[Reason]


def read(run_dir: Path) -> Read:
    """All valid records. A line torn by a crash is passed over with a warning: nobody had acted on it yet."""
    path = run_dir / NAME
    try:
        lines = read_bytes(path).split(b"\n")
    except FileNotFoundError:
        return Read([], [])
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    records: list[Record] = []
    warnings: list[Reason] = []
    for number, line in enumerate(lines, 1):
        record = _decode(line) if line else None
        if record is not None:
            records.append(record)
        elif line:
            warnings.append(reason("journal-line-torn", file=str(path), line=number))
    return Read(list(_valid(records)), warnings)


def stamp(run_dir: Path | str) -> int:
    """Changes with every record: what was computed from the journal before it changed is old."""
    try:
        return os.stat(f"{run_dir}/{NAME}").st_mtime_ns  # asked of thousands of runs at a time
    except OSError:
        return 0


def highest_epoch(run_dir: Path) -> int:
    return max((record.epoch for record in read(run_dir).records), default=0)


def _decode(line: bytes) -> Record | None:
    try:
        return _DECODER.decode(line)
    except BROKEN:
        return None


_DECODER = msgspec.json.Decoder(Record)


def _valid(records: list[Record]) -> Iterator[Record]:
    """Leaves out what a replaced controller wrote after its successor had taken over."""
    epoch = 0
    for record in records:
        if record.epoch >= epoch:
            epoch = record.epoch
            yield record
