"""`import`: a foreign file or folder → kept by hash → read by its format → one run directory, or none."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trainmark import __version__
from trainmark.errors import UserError
from trainmark.interop.protocol import REGISTRY, Format
from trainmark.interop.reading import source
from trainmark.interop.reading.archive import shown
from trainmark.interop.reading.records import Counted, End, Kept, Verbatim
from trainmark.interop.reading.writer import LISTING, RAW, Writer, discard
from trainmark.store.files import make_folders
from trainmark.store.rundir import Imported, RunDir, check_place, close, run_ids

_KEY_LENGTH = 12
_PART = ".import-"
# An import that has just begun may not hold its folder yet.
_FRESH_SECONDS = 60


Progress = Callable[[int, int], None]


class ImportResult(msgspec.Struct, frozen=True):
    """What an import did. `again` when the same source had been imported before; no run for a configuration."""

    run: str
    dir: str
    again: bool
    cases: int
    rounds: int
    imported: Imported
    verbatim: list[Verbatim] = []


def import_results(
    name: str, path: Path, runs: Path, options: Mapping[str, Any], progress: Progress | None = None
) -> ImportResult:
    """Imports `path`. The same source with the same options is the same run, however often it is imported.

    `progress` hears from time to time how many files were found, and how many rounds were read."""
    form: Format = REGISTRY.get(name, "import")
    if form.import_options is None:
        raise UserError(f"import {name}: this format can only be exported")
    if not path.exists():
        raise UserError(f"import {name}: no such file or folder `{path}`")
    try:
        if not runs.is_dir():
            make_folders(runs.absolute())
        check_place(runs)
        _sweep(runs)
        part = Path(tempfile.mkdtemp(prefix=_PART, dir=runs))
    except OSError as error:
        raise UserError(f"--runs {runs}: cannot be written: {error.strerror}") from None
    lock = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _import(name, form, path, runs, part, options, progress or _silent)
    finally:
        os.close(lock)
        discard(part)


def _silent(files: int, rounds: int) -> None:
    """Nobody wants to hear how far it is."""


def _sweep(runs: Path) -> None:
    """What imports that were killed have left: nobody holds it, and it is not of this minute."""
    for part in runs.glob(f"{_PART}*"):
        try:
            lock = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(lock).st_mtime > _FRESH_SECONDS:
                discard(part)
        except OSError:
            pass
        finally:
            os.close(lock)


def _import(
    name: str,
    form: Format,
    path: Path,
    runs: Path,
    part: Path,
    options: Mapping[str, Any],
    progress: Progress,
) -> ImportResult:
    writer = Writer(part)
    kept = source.keep_all(path, form.wants, part / RAW, writer.take, lambda files: progress(files, 0))
    if not kept:
        raise UserError(f"import {name}: {path}: nothing to read here{_why(writer)}")
    for item in form.read(kept, options):
        writer.take(item)
        if isinstance(item, Counted | End):
            progress(len(kept), writer.rounds)
    if not writer.rounds and writer.verbatim:
        # A configuration: files to write, nothing to keep.
        return ImportResult("", "", False, 0, 0, _imported(name, form, path, kept, writer, options), writer.verbatim)
    if not writer.rounds:
        raise UserError(f"import {name}: {path}: no round in {len(kept)} file(s){_why(writer)}")
    imported = _imported(name, form, path, kept, writer, options)
    key = _key(name, form, imported.sha256, options, writer.identities())
    same = next((run for run in run_ids(runs) if run.endswith(f"-{key}")), None)
    run = RunDir(runs / (same or f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{key}"))
    if same is None:
        _list_files(part / RAW / LISTING, kept)
        writer.finish(name, imported, run)
        close(part)
        os.rename(part, run.path)
    return ImportResult(run.id, str(run.path), same is not None, writer.cases, writer.rounds, imported, writer.verbatim)


def _why(writer: Writer) -> str:
    return "".join(f"\n  {example}" for example in writer.examples)


def _key(name: str, form: Format, sha256: str, options: Mapping[str, Any], cases: list[str]) -> str:
    """The same for the same bytes, read in the same way: names of files count as far as they change the cases."""
    telling = {option.name: options.get(option.name) for option in form.import_options or () if option.identity}
    return hashlib.sha256(msgspec.json.encode([name, sha256, sorted(telling.items()), cases])).hexdigest()[:_KEY_LENGTH]


def _imported(
    name: str, form: Format, path: Path, kept: list[Kept], writer: Writer, options: Mapping[str, Any]
) -> Imported:
    return Imported(
        format=name,
        # The last part only: where it lay on this machine is nobody's business.
        source=shown(path.resolve().name),
        sha256=source.source_hash(kept),
        files=len(kept),
        bytes=sum(file.size for file in kept),
        tools={"trainmark": __version__, **form.tools},
        options={key: value for key, value in options.items() if value is not None},
        missing=writer.missing,
        flags=dict(writer.flags),
        examples=writer.examples,
        counts=dict(writer.counts),
    )


def _list_files(file: Path, kept: list[Kept]) -> None:
    with file.open("wb") as out:
        for one in kept:
            out.write(msgspec.json.encode({"name": one.name, "sha256": one.sha256, "bytes": one.size}) + b"\n")
