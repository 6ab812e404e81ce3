"""The layout of `runs/<run-id>/`: the one place that knows its names."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import msgspec

from trainmark.agent import private
from trainmark.errors import UserError, did_you_mean
from trainmark.plan.records import CasePlan, Kind, Plan, RoundRef
from trainmark.spec import site as sites
from trainmark.store.files import BROKEN, Damaged, decode, make_folders, read_json, write_json
from trainmark.store.series import SeriesPlace

MANIFEST = "manifest.json"
RUN_LOG = "run.log"
LEASE = "lease.json"
STOP = "stop.json"
# In the folder of a run that came in a bundle.
UNPACKED = "unpacked.json"
# Which test of a tester a run belongs to, and what the tester said of it.
TESTER = "tester.json"
TESTER_SAID = "tester_said.json"
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
# `group`: new runs may be read by the group of their folder.
SHARE = "TRAINMARK_SHARE"


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
    series: SeriesPlace | None = None


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
            head = decode(file, _Head)
            if head.schema != SCHEMA:
                raise UserError(f"{file}: written with schema {head.schema}; this trainmark reads {SCHEMA}")
            if head.plan.kind:
                return _usable(decode(file, Manifest))
            return _usable(_with_kind(msgspec.convert(_of_older_version(read_json(file)), Manifest)))
        except FileNotFoundError:
            raise UserError(f"{self.path}: no run here ({MANIFEST} is missing)") from None
        except UserError:
            raise
        except BROKEN as error:
            raise Damaged(file, str(error) or type(error).__name__) from None


def _usable(manifest: Manifest) -> Manifest:
    """Fails where the parts of the plan do not fit together: everybody behind this may rely on them."""
    if not 0 <= manifest.created < 1 << 63:
        raise ValueError("created: not a time")
    count = len(manifest.plan.cases)
    for case in manifest.plan.cases:
        folder = case.id.dir_name()  # the name of the case is one
        if "/" in folder or folder.startswith("."):
            raise ValueError(f"case {case.case!r} cannot be a folder")
    for ref in manifest.plan.order:
        if not 0 <= ref.case < count:
            raise ValueError(f"the plan has no case number {ref.case}")
    return manifest


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


def write_node_plan(folder: Path, plan: dict[str, Any]) -> None:
    """A new node folder with its plan, which holds the attempt's key."""
    make_folders(folder)
    write_json(folder / NODE_PLAN, plan, mode=private.FILE)


def rank_log(node: Path, rank: int) -> Path:
    return node / f"rank{rank}.out.log"


def create(runs: Path, suite: str) -> RunDir:
    """A new, empty run folder with an id nobody else has."""
    try:
        if not runs.is_dir():
            make_folders(runs.absolute())
    except OSError as error:
        raise UserError(f"--runs {runs}: cannot be made: {error.strerror}") from None
    check_place(runs)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for _ in range(100):
        path = runs / f"{stamp}-{suite}-{os.urandom(2).hex()}"
        try:
            make_private(path)
            return RunDir(path)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"--runs {runs}: cannot be written: {error.strerror}") from None
    raise UserError(f"--runs {runs}: no free run id")


def make_private(path: Path) -> None:
    """The folder of a run or a campaign. Nobody else can enter it, so that nobody reads the keys of its attempts or
    changes what runs; with $TRAINMARK_SHARE=group the folder's group may read."""
    if not path.parent.is_dir():
        make_folders(path.parent)
    mode = _mode()
    path.mkdir(private.FOLDER)
    path.chmod(mode)


def close(path: Path) -> None:
    """The same for the folder of a run that was brought here."""
    path.chmod(_mode())


def _mode() -> int:
    share = os.environ.get(SHARE, "")
    if share not in ("", "group"):
        raise UserError(f"{SHARE}={share}: allowed is `group`, or nothing for runs that only this account reads")
    return 0o750 if share else private.FOLDER


def check_place(runs: Path) -> None:
    """Whoever owns the folder above a run can put another one in its place."""
    found = runs.stat()
    open_to_all = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    why = "everybody can write to it" if open_to_all else private.why_foreign_owner(found.st_uid)
    if why is not None:
        raise UserError(
            f"--runs {runs}: no runs are made here: {why}; name a folder of your own, or, if you trust its owner, "
            f"set {private.TRUSTED_OWNERS}={found.st_uid} (docs/security.md)"
        )


def is_of_test(run: RunDir) -> bool:
    """Whether a run belongs to a test, whose tester hears of it."""
    return (run.path / TESTER).is_file()


def check_own(folder: Path) -> None:
    """UserError unless only this account can have written the run or campaign in `folder`: its plan says what to
    start, on which hosts, and which processes to end."""
    if os.path.lexists(folder / UNPACKED):
        raise UserError(
            f"{folder}: it was unpacked from a bundle, so nothing is started or ended by it: its commands are somebody "
            "else's; run its suite instead, once you know what it does"
        )
    for name in ("", MANIFEST, "journal.jsonl", LEASE, "campaign.json"):
        path = folder / name if name else folder
        try:
            why = private.why_foreign(str(path))
        except OSError:
            continue
        if why is not None:
            raise UserError(
                f"{path}: {why}, so nothing is started or ended by it; import what it holds, or "
                f"`chown -R` and `chmod -R go-w` it once you know what it does (docs/security.md)"
            )


def write_manifest(run: RunDir, manifest: Manifest) -> None:
    write_json(run.path / MANIFEST, manifest, durable=True)
    run._manifest = manifest


def find(runs: Path, name: str | None, *, own: bool = False) -> RunDir:
    """A run by id, by the unique start or end of an id, by path, by its suite (the newest run of it), or the newest
    when no name is given. However it is named, its path is whole: what is kept of it is found by that. `own`: other
    accounts' and those of bundles are never the newest."""
    if name and (Path(name) / MANIFEST).is_file():
        return RunDir(Path(name).resolve())
    ids = run_ids(runs)
    if name == "":
        raise UserError("RUN is empty; leave it out for the newest run, or name one (`trainmark list`)")
    mine = [one for one in ids if _may_start(runs / one)] if own else ids
    if name is None or name == "last":
        if not mine:
            raise UserError(f"{runs}: no runs here; start one with `trainmark run SUITE` or name another --runs")
        return RunDir(runs.resolve() / _newest(runs, mine))
    matches = [found for found in ids if found.startswith(name) or found.endswith(name)]
    if name in ids:
        matches = [name]
    # The name of a suite is that of its newest run.
    of_suite = [found for found in mine if found.split("-", 2)[-1].rpartition("-")[0] == name]
    if of_suite:
        return RunDir(runs.resolve() / _newest(runs, of_suite))
    if len(matches) == 1:
        return RunDir(runs.resolve() / matches[0])
    if matches:
        raise UserError(f"run `{name}` could be any of {', '.join(matches[:5])}")
    raise UserError(f"{runs}: no run `{name}`{did_you_mean(name, ids)}; `trainmark list` shows all")


def _may_start(folder: Path) -> bool:
    ours = all(private.is_ours(f"{folder}/{name}") for name in ("", MANIFEST))
    return ours and not os.path.lexists(folder / UNPACKED)


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
