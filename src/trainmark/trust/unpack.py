"""A bundle's runs as runs of one's own: unpacked into a folder of runs once they are verified."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.i18n.speaker import say
from trainmark.store import rundir
from trainmark.store.files import make_folders, write_json
from trainmark.store.rundir import MANIFEST, RunDir
from trainmark.trust import verify
from trainmark.trust.bundle import opened

# Closed, and with that removed, when the process ends.
_OPEN = contextlib.ExitStack()


def for_a_while(path: Path) -> RunDir:
    """The only run of a verified bundle, to be read while this process lives."""
    seen = path.stat()
    return _unpacked(path.resolve(), seen.st_mtime_ns, seen.st_size)


@cache
def _unpacked(path: Path, _time: int, _size: int) -> RunDir:
    import atexit

    _demand(path)
    bundle = _OPEN.enter_context(opened(path))
    atexit.register(_OPEN.close)
    found = bundle.runs()
    if len(found) != 1:
        raise UserError(
            f"{path}: holds {len(found)} runs; `trainmark import bundle {path}` makes them runs of your own"
        )
    return found[0]


@contextlib.contextmanager
def verified(path: Path) -> Iterator[RunDir]:
    """The first run of a verified bundle, unpacked for a while."""
    _demand(path)
    with opened(path) as bundle:
        yield bundle.runs()[0]


def cases(run: RunDir, wanted: str | None = None) -> list[str]:
    """Ids that run the cases of a run again, as often; or of one of them."""
    plans = run.manifest().plan.cases
    own = [case.case for case in plans if case.open]
    if own:
        raise UserError(
            f"{own[0]}: a command of its user's own, which the bundle does not hold: it cannot be run again"
        )
    named = [case.case for case in plans]
    if wanted is not None and wanted not in named:
        raise UserError(f"--case {wanted}: not in this bundle{did_you_mean(wanted, named)}; it has {one_of(named)}")
    # Ids of older runs do not tell their preset; the identity does, and has a star for the number of rounds.
    return [case.identity.replace(":*", f":{case.id.repeat}", 1) for case in plans if wanted in (None, case.case)]


def unpack(path: Path, runs: Path) -> list[RunDir]:
    """The runs, whole or not at all. One that is there already, with the same manifest, stays as it is."""
    _demand(path)
    if not runs.is_dir():
        make_folders(runs.absolute())
    rundir.check_place(runs)
    with opened(path) as bundle:
        for run in bundle.runs():
            mine = runs / run.id
            if mine.exists() and _manifest(mine) != _manifest(run.path):
                raise UserError(f"{mine}: another run has this name; unpack into another folder (--runs)")
        made = []
        for run in bundle.runs():
            target = runs / run.id
            if not target.exists():
                part = Path(tempfile.mkdtemp(prefix=".bundle-", dir=runs))
                try:
                    shutil.copytree(run.path, part / run.id)
                    # Ours by owner from now on, and still somebody else's commands.
                    write_json(part / run.id / rundir.UNPACKED, {"bundle": path.name})
                    rundir.close(part / run.id)
                    os.rename(part / run.id, target)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
            made.append(RunDir(target.resolve()))
    return made


def _demand(path: Path) -> None:
    """UserError when the bundle has faults."""
    found = verify.verify(path)
    if not found.verified:
        first = found.faults()[0]
        where = f" ({first.place})" if first.place else ""
        raise UserError(f"{path}: not verified: {say(first.reason)}{where}; `trainmark verify {path}` tells more")


def _manifest(folder: Path) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError:
        return b""
