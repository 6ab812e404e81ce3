"""Reports of large finished runs, kept in the cache for as long as no file they were made from changes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from trainmark import __version__
from trainmark.cache import cache_dir
from trainmark.report.records import Report
from trainmark.score.measurement import SCORER_VERSION
from trainmark.store import journal
from trainmark.store.files import write_json
from trainmark.store.rundir import EVENTS, FACTS, MANIFEST, RESULT, SAMPLES, RunDir

# Below so many rounds, making the report again is as fast as looking at all its files.
LEAST_ROUNDS = 200
_SOURCES = frozenset((EVENTS, SAMPLES, FACTS, RESULT))
_FORMAT = 1


def or_made(run: RunDir, make: Callable[[], Report]) -> Report:
    file = cache_dir() / "reports" / f"{_key(run.path)}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError):
        pass
    made = make()
    # A cache that cannot be written is no cache, and no error.
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, made)
    return made


def _key(folder: Path) -> str:
    """Names, sizes and times of all files that a report is made from. Whoever changes a file and sets its time back
    still changes the time at which that was done."""
    import hashlib

    digest = hashlib.sha256(f"{_FORMAT} {SCORER_VERSION} {__version__} {folder}".encode())
    for path in (f"{folder}/{MANIFEST}", f"{folder}/{journal.NAME}", *sorted(_sources(str(folder)))):
        seen = os.stat(path)
        digest.update(f"{path} {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino}\n".encode())
    return digest.hexdigest()


def _sources(folder: str, depth: int = 0) -> Iterator[str]:
    """Case, round, attempt, node: files of interest lie four folders below the run's."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if depth < 4 and entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path, depth + 1)
            elif depth == 4 and entry.name in _SOURCES:
                yield entry.path
