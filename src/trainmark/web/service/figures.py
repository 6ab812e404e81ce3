"""Figures of runs that have ended, kept: making them takes a while, and they never change.

One file of the server's folder, a line for each run. Losing it is no harm.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from trainmark.score.records import SCORER_VERSION
from trainmark.store.files import decode_line
from trainmark.trust.leaderboard import Row


class _Line(msgspec.Struct, frozen=True):
    run: str
    scorer: int
    rows: list[Row]


class Figures:
    """What is known of runs that have ended, by run."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        self._known: dict[str, list[Row]] | None = None

    def known(self) -> dict[str, list[Row]]:
        with self._lock:
            if self._known is None:
                self._known = self._read()
            return self._known

    def _read(self) -> dict[str, list[Row]]:
        try:
            lines = self._file.read_bytes().splitlines()
        except OSError:
            return {}
        found = {}
        for line in lines:
            try:
                one = msgspec.convert(decode_line(line), _Line)
            except msgspec.ValidationError:
                continue  # of another version, or cut short when the server was killed
            if one.scorer == SCORER_VERSION:
                found[one.run] = one.rows
        return found

    def put(self, run: str, rows: list[Row]) -> None:
        known, line = self.known(), msgspec.json.encode(_Line(run, SCORER_VERSION, rows))
        with self._lock:
            known[run] = rows
            with self._file.open("ab") as file:
                file.write(line + b"\n")
