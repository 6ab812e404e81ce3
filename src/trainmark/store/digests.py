"""Whether the files of a finished attempt are still what its agents wrote.

Each node's `result.json` holds the digest of every file beside it, the journal holds that of all results of the attempt
(`attempt_digest`) and of the manifest. So one changed byte anywhere is seen. Runs of older versions have no digests.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainmark import cache
from trainmark.agent.digests import of_file
from trainmark.reasons import Reason, reason
from trainmark.store import journal
from trainmark.store.files import read_json, write_whole
from trainmark.store.rundir import MANIFEST, RESULT, RunDir, node_files
from trainmark.store.state import RunState

# Smaller files are hashed each time: that is as fast as looking up what was found the last time.
CACHE_FROM = 4 << 20
# Names files that were too large to be brought here.
LEFT_THERE = "left_on_host.txt"


def attempt_digest(attempt: Path) -> str | None:
    """Of the results of all its nodes; None when none has left one. The digest of lines `FOLDER SHA256`, in order."""
    digest, found = hashlib.sha256(), False
    for file in node_files(attempt, RESULT):
        with contextlib.suppress(OSError):
            digest.update(f"{file.parent.name} {of_file(str(file))}\n".encode())
            found = True
    return digest.hexdigest() if found else None


def manifest_digest(run_dir: Path) -> str | None:
    try:
        return of_file(str(run_dir / MANIFEST))
    except OSError:
        return None


def changes(attempt: Path, digest: str | None) -> list[Reason]:
    """What is no longer as it was when the attempt ended; `digest` is the journal's. Empty where nothing is known."""
    found = []
    if digest is not None and attempt_digest(attempt) != digest:
        found.append(reason("results-changed", folder=str(attempt)))
    for file in node_files(attempt, RESULT):
        result = read_json(file)
        files = result.get("files") if isinstance(result, dict) else None
        if isinstance(files, dict):
            found += list(_changed(file.parent, files))
    return found


def changes_of_run(run: RunDir) -> list[Reason]:
    """The same of the last attempt at each of its rounds."""
    plan = run.manifest().plan
    state = RunState.replay(plan, journal.read(run.path).records)
    lasts = [(ref, last) for ref, one in state.rounds.items() if (last := one.last()) is not None]
    folders = [(run.attempt(plan.cases[ref.case], ref, last.number), last.digest) for ref, last in lasts]
    return [one for folder, digest in folders for one in changes(folder, digest)]


def _changed(node: Path, files: dict[str, Any]) -> Iterator[Reason]:
    left = left_there(node)
    for name, about in files.items():
        wanted = about.get("sha256") if isinstance(about, dict) else None
        if not isinstance(wanted, str) or ".." in Path(name).parts or name.startswith("/"):
            continue
        try:
            if _digest(node / name, about.get("bytes")) != wanted:
                yield reason("file-changed", path=str(node / name))
        except OSError:
            # An empty file has nothing to be sent; a large one may have stayed on its host.
            if about.get("bytes") and name not in left:
                yield reason("file-gone", path=str(node / name))


def left_there(node: Path) -> set[str]:
    """Names of files that were too large to be brought from their host."""
    try:
        lines = (node / LEFT_THERE).read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {name for line in lines for name in (line, *_tails(line))}


def _tails(line: str) -> Iterator[str]:
    parts = line.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))


def _digest(file: Path, size: Any) -> str | None:
    """None when its size says enough. What was found for a large file holds while its size and times do."""
    seen = os.stat(file)
    if seen.st_size != size:
        return None
    if seen.st_size < CACHE_FROM:
        return of_file(str(file))
    stamp = f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino}"
    place = cache.cache_dir("digests") / hashlib.sha256(str(file.resolve()).encode()).hexdigest()
    with contextlib.suppress(OSError, ValueError):
        known, _, digest = place.read_text().partition("\n")
        if known == stamp:
            return digest
    digest = of_file(str(file))
    # A cache that cannot be written is no cache, and no error.
    with contextlib.suppress(OSError):
        cache.make(place.parent)
        write_whole(place, f"{stamp}\n{digest}".encode())
    return digest
