"""The index of runs: a SQLite file on this machine that makes listing fast. The run directories are the truth."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from trainmark import cache
from trainmark.store import journal
from trainmark.store.rundir import is_run, names

SCHEMA = 3
# States that may change without a record.
_PASSING = ("RUNNING", "LOST", "INVALID")


class Row(msgspec.Struct, frozen=True):
    """One run in a list."""

    run: str
    created: int
    suite: str
    state: str
    cases: int
    succeeded: int
    # Of the journal this was computed from.
    stamp: int


Summarise = Callable[[Path], Row]


class Index:
    """One index per runs folder, in the local cache: SQLite's locks do not hold on shared file systems."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs.resolve()
        name = hashlib.sha256(str(self._runs).encode()).hexdigest()[:16]
        self.file = cache.cache_dir("index") / f"{name}.db"

    def put(self, rows: list[Row]) -> None:
        """The newest state of runs. Losing it is no harm, so failing to write it is none either."""
        try:
            with self._open() as database:
                values = [msgspec.structs.astuple(row) for row in rows]
                database.executemany("INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,?,?)", values)
        except (sqlite3.Error, OSError):
            self.file.unlink(missing_ok=True)

    def rows(self, summarise: Summarise, last: int = 0) -> list[Row]:
        """All runs, or the `last` ones, oldest first. What is not known, or was before it changed, is read again."""
        known = self._known()
        rows: list[Row] = []
        fresh: list[Row] = []
        for run in reversed(names(self._runs)):
            row = self._current(run, known.get(run), summarise, fresh)
            if row is not None:
                rows.append(row)
            if len(rows) == last:
                break
        rows.reverse()
        if fresh:
            self.put(fresh)
        return rows

    def some(self, runs: Iterable[str], summarise: Summarise) -> dict[str, Row]:
        """Those of these runs that are there."""
        known, fresh = self._known(), list[Row]()
        found = {run: self._current(run, known.get(run), summarise, fresh) for run in runs}
        if fresh:
            self.put(fresh)
        return {run: row for run, row in found.items() if row is not None}

    def _known(self) -> dict[str, Row]:
        try:
            with self._open() as database:
                return {row.run: row for row in self._all(database)}
        except (sqlite3.Error, OSError):
            self.file.unlink(missing_ok=True)
            return {}

    def _current(self, run: str, row: Row | None, summarise: Summarise, fresh: list[Row]) -> Row | None:
        """As it is known, or read again and added to `fresh`; None: there is no such run."""
        path = f"{self._runs}/{run}"
        if row is not None and row.state not in _PASSING and row.stamp == journal.stamp(path):
            return row
        if not is_run(path):
            return None
        made = summarise(Path(path))
        fresh.append(made)
        return made

    def rebuild(self, summarise: Summarise) -> int:
        self.file.unlink(missing_ok=True)
        return len(self.rows(summarise))

    def _open(self) -> sqlite3.Connection:
        cache.make(self.file.parent)
        database = sqlite3.connect(self.file, timeout=5.0)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA:
            database.executescript(
                "DROP TABLE IF EXISTS runs;"
                "CREATE TABLE runs(run TEXT PRIMARY KEY, created INTEGER, suite TEXT, state TEXT, cases INTEGER,"
                " succeeded INTEGER, stamp INTEGER);"
                f"PRAGMA user_version={SCHEMA:d};"
            )
        return database

    def _all(self, database: sqlite3.Connection) -> list[Row]:
        return [Row(*values) for values in database.execute("SELECT * FROM runs")]
