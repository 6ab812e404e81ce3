"""Reports of large finished runs, in the cache for as long as no file they were made from changes.

For each run there is a list of these files, the whole report, and one with its headlines only, which is all that
comparing needs, and a sixth as large. A stamp of sizes and times says which files a report was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainmark import __version__, cache
from trainmark.report.records import CaseReport, Report, RunReport
from trainmark.score.figures.case import HEADLINES
from trainmark.score.records import SCORER_VERSION
from trainmark.store import journal
from trainmark.store.files import write_whole
from trainmark.store.rundir import CLAIM, EVENTS, FACTS, MANIFEST, RESULT, SAMPLES, RunDir

# Below so many rounds, making the report again is as fast as looking at all its files.
LEAST_ROUNDS = 200
_SOURCES = frozenset((EVENTS, SAMPLES, FACTS, RESULT, CLAIM))
_FORMAT = 6
_FILES, _WHOLE, _SHORT = "files", "report", "headlines"


class _Cached(msgspec.Struct, frozen=True):
    stamp: str
    report: Report


def find(run: RunDir, *, headlines: bool = False) -> Report | None:
    """None when nothing is cached, or what is cached is old."""
    try:
        sources = _place(run, _FILES).read_text().split("\n")
        content = _place(run, _SHORT if headlines else _WHOLE).read_bytes()
        found = msgspec.json.decode(content, type=_Cached)
        return found.report if found.stamp == stamp(run, sources) else None
    except (OSError, ValueError):  # a broken file is as good as none
        return None


def store(run: RunDir, report: Report, sources: list[str], before: str) -> None:
    """`before`: the stamp of the sources when the report was begun."""
    # A cache that cannot be written is no cache, and no error.
    with contextlib.suppress(OSError):
        cache.make(_place(run, _FILES).parent)
        write_whole(_place(run, _WHOLE), msgspec.json.encode(_Cached(before, report)))
        write_whole(_place(run, _SHORT), msgspec.json.encode(_Cached(before, _headlines(report))))
        write_whole(_place(run, _FILES), "\n".join(sources).encode())


def sources_of(run: RunDir) -> list[str]:
    """Folders of attempts and nodes, which tell what is new in them, and the files that a report is made from."""
    return [MANIFEST, journal.NAME, *sorted(_walk(str(run.path), ""))]


def stamp(run: RunDir, sources: list[str]) -> str:
    """Sizes and times of all sources. Setting the time of a file back changes the time at which that was done."""
    from array import array

    folder, numbers = str(run.path), array("Q")
    for name in sources:
        seen = os.stat(f"{folder}/{name}")
        numbers.extend((seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino))
    return hashlib.sha256(
        f"{_FORMAT} {SCORER_VERSION} {__version__} {folder} ".encode() + numbers.tobytes()
    ).hexdigest()


def _place(run: RunDir, what: str) -> Path:
    name = hashlib.sha256(str(run.path).encode()).hexdigest()
    return cache.cache_dir("reports") / f"{name}.{what}"


def _walk(folder: str, inside: str, depth: int = 0) -> Iterator[str]:
    """Case, round, attempt, node: files of interest lie four folders below the run's."""
    with os.scandir(f"{folder}/{inside}") as entries:
        for entry in entries:
            name = f"{inside}{entry.name}"
            if depth < 4 and entry.is_dir(follow_symlinks=False):
                if depth >= 2:
                    yield name
                yield from _walk(folder, f"{name}/", depth + 1)
            elif depth == 4 and entry.name in _SOURCES:
                yield name


def _headlines(report: Report) -> Report:
    return msgspec.structs.replace(report, cases=[_headline(case) for case in report.cases])


def _headline(case: CaseReport) -> CaseReport:
    """What a comparison looks at."""
    found = {name: case.measurements[name] for name in HEADLINES if name in case.measurements}
    return msgspec.structs.replace(case, measurements=found, runs=[_round(one) for one in case.runs], notes=[])


def _round(one: RunReport) -> RunReport:
    return msgspec.structs.replace(one, phases={}, histogram_edges=[], histogram_counts=[])
