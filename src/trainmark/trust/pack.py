"""Packs runs into a bundle: everything that their figures can be recomputed and doubted from, in one signed file."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark import __version__
from trainmark.errors import UserError
from trainmark.extras import need
from trainmark.plan.build import program_version
from trainmark.plan.records import CasePlan
from trainmark.report import build
from trainmark.report.records import Report
from trainmark.run import control, session
from trainmark.score.records import SCORER_VERSION
from trainmark.spec.states import JobState
from trainmark.store import journal, rundir, secrets, series
from trainmark.store.rundir import Manifest, RunDir
from trainmark.trust import archive, citation, keys, removal, statement
from trainmark.trust.records import (
    FIGURES,
    MANIFEST,
    PACKAGES,
    RUNS,
    SCHEMA,
    SERIES,
    SOURCES,
    BundleManifest,
    FileEntry,
    Reported,
    tree_root,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# Of a run's folder, what says nothing about it once it has ended.
_PASSING = (
    *("lease.lock", secrets.NAME, rundir.UNPACKED, rundir.LEASE, rundir.STOP, journal.RESERVE, rundir.CONTROL),
    rundir.TESTER_SAID,
)
# Rounds may keep checkpoints, experiments weights, and ranks write what they like into their folders.
_NOT_OURS = ("checkpoints", "weights")
_OF_RANKS = "env.log"
LOGS = ".log"
# Settings: variables and arguments, where a long random word is a secret.
_SETTINGS = ("env.log", rundir.MANIFEST, rundir.NODE_PLAN, "config.json")
_PROGRAM = (".py", ".yaml", ".yml", ".json")


class Packed(msgspec.Struct, frozen=True):
    """What was packed. `removed`: kind of what was taken out → how often; `left_out`: files without content."""

    path: str
    bytes: int
    sha256: str
    files: int
    runs: list[str]
    removed: dict[str, int]
    left_out: int
    signed_by: str | None
    citation: str
    bibtex: str


class _Source(msgspec.Struct, frozen=True):
    """Where the bytes of an entry are: a file, or here."""

    entry: FileEntry
    path: Path | None = None
    content: bytes = b""

    def pieces(self) -> Iterable[bytes]:
        return [self.content] if self.path is None else removal.content(self.path, self.entry.removed)


def pack(
    runs: Sequence[RunDir],
    output: Path,
    *,
    key: Ed25519PrivateKey | None = None,
    logs: bool = True,
    anonymous: bool = False,
) -> Packed:
    """Writes the bundle, whole or not at all. The same runs, options and key give the same bytes."""
    need("trust", "pack", "cryptography", "zstandard")
    if not runs:
        raise UserError("no run to pack")
    twice = {run.id for run in runs if sum(one.id == run.id for one in runs) > 1}
    if twice:
        raise UserError(f"run {min(twice)} is named twice")
    manifests = [_checked(run) for run in runs]
    search = removal.Search(removal.user_names() if anonymous else ())
    sources = sorted(
        [*_made(runs, manifests, search), *(one for run in runs for one in _of_run(run, search, logs))],
        key=lambda one: one.entry.path,
    )
    files = [one.entry for one in sources]
    bundle = BundleManifest(
        SCHEMA, __version__, SCORER_VERSION, [run.id for run in runs], files, tree_root(files), anonymous
    )
    manifest = archive.canonical(bundle)
    signatures = []
    if key is not None:
        signatures.append(statement.sign(key, "maker", manifest, statement.provenance(bundle, manifests)))
    written = write(output, manifest, signatures, sources)
    counts: dict[str, int] = {}
    for one in (removed for entry in files for removed in entry.removed):
        counts[one.kind] = counts.get(one.kind, 0) + 1
    digest = hashlib.sha256(manifest).hexdigest()
    return Packed(
        path=str(output),
        bytes=written,
        sha256=digest,
        files=len(files),
        runs=bundle.runs,
        removed=counts,
        left_out=sum(entry.left_out for entry in files),
        signed_by=None if key is None else keys.fingerprint(keys.raw(key.public_key())),
        citation=citation.line(manifests[0], digest),
        bibtex=citation.bibtex(manifests[0], digest),
    )


def write(
    output: Path,
    manifest: bytes,
    signatures: Iterable[tuple[str, bytes]],
    sources: Iterable[_Source],
) -> int:
    """The archive: what is signed, the signatures, the files. Returns its size."""
    head = [(MANIFEST, len(manifest), [manifest])]
    head += [(path, len(content), [content]) for path, content in sorted(signatures)]
    body = ((one.entry.path, one.entry.size, one.pieces()) for one in sources if not one.entry.left_out)
    return write_file(output, itertools.chain(head, body))


def write_file(output: Path, members: Iterable[tuple[str, int, Iterable[bytes]]]) -> int:
    """Under another name first, so that nobody finds half a bundle."""
    folder = output.parent if str(output.parent) else Path(".")
    if not folder.is_dir():
        raise UserError(f"-o {output}: there is no folder {folder}")
    handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            archive.write(out, members)
            size = out.tell()
        os.chmod(name, 0o644)
        os.replace(name, output)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return size


def _checked(run: RunDir) -> Manifest:
    manifest = run.manifest()
    if control.state_of(run, session.state_of(run, manifest.plan)) is JobState.RUNNING:
        raise UserError(f"{run.id}: still running; pack it when it has ended (`trainmark stop {run.id}` ends it)")
    return manifest


def _of_run(run: RunDir, search: removal.Search, logs: bool) -> Iterator[_Source]:
    for path in sorted(_files(run.path)):
        inside = path.relative_to(run.path).as_posix()
        log = path.suffix == LOGS
        depth: removal.Depth = "random" if path.name in _SETTINGS else "assigned" if log else "shapes"
        yield _entry(f"{RUNS}{run.id}/{inside}", path, search, depth, left_out=log and not logs)


def _files(folder: Path, depth: int = 0) -> Iterator[Path]:
    """Plain files of the run: down to the folders of nodes all of them, in those of ranks what trainmark wrote."""
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if entry.is_symlink() or entry.name in _PASSING or (entry.name in _NOT_OURS and depth):
            continue
        if entry.is_dir():
            yield from _files(Path(entry.path), depth + 1)
        elif stat.S_ISREG(entry.stat().st_mode) and (depth <= 4 or entry.name == _OF_RANKS):
            yield Path(entry.path)


def _entry(name: str, path: Path, search: removal.Search, depth: removal.Depth, *, left_out: bool = False) -> _Source:
    found = removal.scan(path, search, depth)
    original = found.original if found.removed else None
    entry = FileEntry(name, found.size, found.sha256, found.removed, original, left_out)
    return _Source(entry, path)


def _made(runs: Sequence[RunDir], manifests: list[Manifest], search: removal.Search) -> Iterator[_Source]:
    """What is not a file of a run: figures as they were reported, sources, packages, the series."""
    reports = [as_reported(build.build(run)) for run in runs]
    yield _bytes(FIGURES, archive.canonical(Reported(SCORER_VERSION, reports)))
    yield _bytes(PACKAGES, archive.canonical(citation.packages(manifests)))
    suites: set[str] = set()
    programs: set[str] = set()
    for run, manifest in zip(runs, manifests, strict=True):
        chain = series.chain(run.path.parent, run.id)
        if chain:
            yield _bytes(f"{RUNS}{run.id}/{SERIES}", b"".join(line + b"\n" for line in chain))
        if manifest.plan.suite_text and manifest.plan.suite not in suites:
            suites.add(manifest.plan.suite)
            yield _bytes(f"{SOURCES}suite/{manifest.plan.suite}.yaml", manifest.plan.suite_text.encode())
        for case in manifest.plan.cases:
            if case.folder and case.workload not in programs:
                programs.add(case.workload)
                yield from _sources(case, search)


def _bytes(name: str, content: bytes) -> _Source:
    return _Source(FileEntry(name, len(content), hashlib.sha256(content).hexdigest()), None, content)


def _sources(case: CasePlan, search: removal.Search) -> Iterator[_Source]:
    """The program, with the modules it shares with others: what `CasePlan.version` is the hash of."""
    from trainmark.spec import workload as workloads

    folder = Path(case.folder)
    try:
        shared = workloads.read(folder).workload.path
        if program_version(folder, tuple(shared)) != case.version:
            return  # changed since, as is one that is gone: verifying says that it is missing
    except (UserError, OSError):
        return
    for number, place in enumerate((folder, *((folder / extra).resolve() for extra in shared))):
        for name in sorted(os.listdir(place)) if place.is_dir() else ():
            if name.endswith(_PROGRAM) and (place / name).is_file():
                yield _entry(f"{SOURCES}{case.workload}/{number}/{name}", place / name, search, "shapes")


_CHANGED = "files-changed"
_OF_REPORT = ("run", "suite", "state", "studies", "contests", "experiment")
_OF_CASE = (
    "case", "state", "fingerprint", "division", "preset", "rounds", "counted", "measurements", "band", "trained"
)  # fmt: skip


def as_reported(made: Report) -> dict[str, Any]:
    """The figures of a run's report, without what depends on where its files lie, and without logs and variables."""
    report: dict[str, Any] = msgspec.to_builtins(made)
    cases = [{name: case[name] for name in _OF_CASE if name in case} for case in report["cases"]]
    for measurement in (one for case in cases for one in case["measurements"].values()):
        # A packed file may lack what was taken out of it; verifying looks at digests itself.
        flags = [one for one in measurement.get("flags", ()) if one["reason"]["code"] != _CHANGED]
        measurement["flags"] = flags
    of_run = {name: report[name] for name in _OF_REPORT if report.get(name) is not None}
    return {**of_run, "cases": cases}
