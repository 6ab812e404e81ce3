"""The layout of `runs/<run-id>/`: the one place that knows its names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError, did_you_mean
from trainmark.plan.records import CasePlan, Kind, Plan, RoundRef
from trainmark.spec import site as sites
from trainmark.store.files import read_json, write_json
from trainmark.store.series import Place

MANIFEST = "manifest.json"
RUN_LOG = "run.log"
LEASE = "lease.json"
STOP = "stop.json"
EVENTS = "events.jsonl"
SAMPLES = "samples.jsonl"
RESULT = "result.json"
STATUS = "status.json"
CONTROL = "control.json"
CLAIM = "agent.json"
FACTS = "facts.json"
NODE_PLAN = "node.json"
CLOCK = "clock.json"
# How long an attempt waited for its image, beside the folders of its nodes.
IMAGE = "image.json"

SCHEMA = 1


class Imported(msgspec.Struct, frozen=True):
    """Where a run comes from that another tool did: what was read, and what it does not say."""

    format: str
    # Name of the file or folder, and the hash of all that was read; the files lie in `raw/` by their hashes.
    source: str
    sha256: str
    files: int
    bytes: int
    tools: dict[str, str]
    options: dict[str, Any]
    missing: list[str]
    # How often each kind of trouble was met, and the first few word for word.
    flags: dict[str, int] = {}
    examples: list[str] = []
    # lines = taken + other + flagged
    counts: dict[str, int] = {}


class Manifest(msgspec.Struct, frozen=True):
    """What a run is: written once, before anything starts."""

    schema: int
    run: str
    created: int
    trainmark: str
    command: list[str]
    plan: Plan
    provenance: dict[str, Any]
    # False for a run of trainmark's own.
    imported: Imported | bool = False
    # None in runs of older versions.
    series: Place | None = None


class RunDir:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Written once and never changed, so it is read once.
        self._manifest: Manifest | None = None

    @property
    def id(self) -> str:
        return self.path.name

    def attempt(self, case: CasePlan, ref: RoundRef, attempt: int) -> Path:
        return self.path / case.id.dir_name() / f"round{ref.round}" / f"attempt{attempt}"

    def manifest(self) -> Manifest:
        if self._manifest is None:
            self._manifest = self._read_manifest()
        return self._manifest

    def _read_manifest(self) -> Manifest:
        file = self.path / MANIFEST
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            raise UserError(f"{self.path}: no run here ({MANIFEST} is missing)") from None
        except OSError as error:
            raise UserError(f"{file}: cannot be read: {error.strerror}") from None
        try:
            head = msgspec.json.decode(data, type=_Head)
            if head.schema != SCHEMA:
                raise UserError(f"{file}: written with schema {head.schema}; this trainmark reads {SCHEMA}")
            if head.plan.kind:
                return msgspec.json.decode(data, type=Manifest)
            return _with_kind(msgspec.convert(_of_older_version(msgspec.json.decode(data)), Manifest))
        except msgspec.DecodeError as error:
            raise UserError(f"{file}: broken: {error}") from None


class _PlanHead(msgspec.Struct, frozen=True):
    kind: str = ""


class _Head(msgspec.Struct):
    schema: int
    plan: _PlanHead = _PlanHead()


def _of_older_version(raw: Any) -> Any:
    """A manifest of a version whose sites had the options of launchers under keys of their own."""
    if isinstance(raw.get("plan"), dict) and isinstance(raw["plan"].get("site"), dict):
        return {**raw, "plan": {**raw["plan"], "site": sites.of_older_version(raw["plan"]["site"])}}
    return raw


def _with_kind(manifest: Manifest) -> Manifest:
    """A manifest of a version whose plans did not say their kind: it follows from what only that kind had then."""
    plan = manifest.plan
    known: dict[Kind, bool] = {
        "import": bool(manifest.imported),
        "diagnosis": any(case.diagnostic is not None for case in plan.cases),
        "goodput": plan.recover,
        "automl": any("experiment" in case.params for case in plan.cases),
        "peaks": any(case.workload == "peaks" for case in plan.cases),
        "acceptance": plan.suite == "accept",
    }
    kind: Kind = next((kind for kind, holds in known.items() if holds), "benchmark")
    return msgspec.structs.replace(manifest, plan=msgspec.structs.replace(plan, kind=kind))


def node_dir(attempt: Path, host: str, index: int) -> Path:
    """`host` is empty where a scheduler is yet to choose it."""
    return attempt / (f"{host}_noderank{index}" if host else f"noderank{index}")


def node_index(folder: Path) -> int:
    return int(folder.name.rpartition("noderank")[2])


def node_name(folder: Path) -> str:
    """`HOST_noderankI`, also where the host was chosen after its folder was made."""
    if not folder.name.startswith("noderank"):
        return folder.name
    claim = read_json(folder / CLAIM)
    host = claim.get("host") if isinstance(claim, dict) else None
    return f"{host}_{folder.name}" if host else folder.name


def earlier_attempts(attempt: Path) -> list[Path]:
    """The folders of the attempts at the same round that came before, oldest first."""
    number = int(attempt.name.removeprefix("attempt"))
    return [attempt.with_name(f"attempt{one}") for one in range(1, number)]


def node_files(attempt: Path, name: str) -> list[Path]:
    """The files of that name that nodes left, in the order of their folders. (Globbing takes ten times as long.)"""
    try:
        nodes = sorted(os.listdir(attempt))
    except OSError:
        return []
    return [Path(file) for node in nodes if os.path.isfile(file := f"{attempt}/{node}/{name}")]


def rank_log(node: Path, rank: int) -> Path:
    return node / f"rank{rank}.out.log"


def create(runs: Path, suite: str) -> RunDir:
    """A new, empty run folder with an id nobody else has."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--runs {runs}: cannot be made: {error.strerror}") from None
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for _ in range(100):
        path = runs / f"{stamp}-{suite}-{os.urandom(2).hex()}"
        try:
            path.mkdir()
            return RunDir(path)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"--runs {runs}: cannot be written: {error.strerror}") from None
    raise UserError(f"--runs {runs}: no free run id")


def write_manifest(run: RunDir, manifest: Manifest) -> None:
    write_json(run.path / MANIFEST, manifest, durable=True)
    run._manifest = manifest


def find(runs: Path, name: str | None) -> RunDir:
    """A run by id, by the unique start or end of an id, by path, by its suite (the newest run of it), or the newest
    when no name is given. However it is named, its path is whole: what is kept of it is found by that."""
    if name and (Path(name) / MANIFEST).is_file():
        return RunDir(Path(name).resolve())
    ids = run_ids(runs)
    if name == "":
        raise UserError("RUN is empty; leave it out for the newest run, or name one (`trainmark list`)")
    if name is None or name == "last":
        if not ids:
            raise UserError(f"{runs}: no runs here; start one with `trainmark run SUITE` or name another --runs")
        return RunDir(runs.resolve() / _newest(runs, ids))
    matches = [found for found in ids if found.startswith(name) or found.endswith(name)]
    if name in ids:
        matches = [name]
    # The name of a suite is that of its newest run.
    of_suite = [found for found in ids if found.split("-", 2)[-1].rpartition("-")[0] == name]
    if of_suite:
        return RunDir(runs.resolve() / _newest(runs, of_suite))
    if len(matches) == 1:
        return RunDir(runs.resolve() / matches[0])
    if matches:
        raise UserError(f"run `{name}` could be any of {', '.join(matches[:5])}")
    raise UserError(f"{runs}: no run `{name}`{did_you_mean(name, ids)}; `trainmark list` shows all")


def _newest(runs: Path, ids: list[str]) -> str:
    """The last one; among those of the same second, the one whose manifest was written last."""
    stamp = ids[-1][: len("20260102-101500")]
    return max(
        (one for one in ids if one.startswith(stamp)), key=lambda one: (runs / one / MANIFEST).stat().st_mtime_ns
    )


def run_ids(runs: Path) -> list[str]:
    """All runs in the folder, oldest first (ids begin with their time)."""
    return [name for name in names(runs) if is_run(f"{runs}/{name}")]


def names(runs: Path) -> list[str]:
    """What may be runs, oldest first: a name with a dot is still being imported, or kept for another purpose."""
    try:
        return sorted(name for name in os.listdir(runs) if not name.startswith("."))
    except OSError:
        return []


def is_run(path: str) -> bool:
    """Whether there is a manifest; another user's closed folder, or a link to itself, is no run of ours."""
    return os.path.isfile(f"{path}/{MANIFEST}")
