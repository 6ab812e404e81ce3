"""What a run is held against: the baseline of its hosts and its suite, else the run of its name before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from trainmark import api
from trainmark.api_objects import Run
from trainmark.errors import UserError
from trainmark.spec.states import JobState
from trainmark.store import baselines
from trainmark.store.baselines import Baseline
from trainmark.store.rundir import Manifest, RunDir
from trainmark.web.server import Server
from trainmark.web.service import audit, database, jobs, runs
from trainmark.web.service.errors import Conflict
from trainmark.web.service.records import Job, Principal
from trainmark.web.service.tables import jobs as table

# Manifests never change; the plan of a large run takes a while to read.
_MOST_KNOWN = 2000
# Jobs of the same name that the one before is looked for among.
_LOOKED_AT = 100


class Against(msgspec.Struct, frozen=True):
    """`job`: the one that it is held against. `baseline`: which somebody chose, or the one before it."""

    job: str
    baseline: bool


class Judged(msgspec.Struct, frozen=True):
    """`job`: the one that it was held against; None: there is none. `word`: faster, slower, equivalent, inconclusive or
    incomplete; None where they have nothing in common. `ratio` of their speeds."""

    job: str | None
    baseline: bool
    word: str | None
    ratio: float | None


def put_baseline(server: Server, asker: Principal, name: str, address: str) -> Baseline:
    """Makes a run what later ones of its owner, hosts and suite are held against."""
    with database.writing(server.engine) as connection:
        row = runs.find(connection, asker, name, own=True)
        if row["state"] != JobState.SUCCEEDED:
            raise Conflict(f"the run is {row['state']}: only one that succeeded can be a baseline")
        made = baselines.put(server.home.runs(row["owner_id"]), RunDir(jobs.run_path(server, row)).manifest())
        audit.note(connection, asker.name, "run.baseline", row["run"], address)
    return made


def is_baseline(run: RunDir) -> bool:
    return any(one.run == run.id for one in baselines.read(run.path.parent))


def against(server: Server, asker: Principal, ended: Sequence[Job]) -> dict[str, Against]:
    """Of benchmarks that succeeded, by job. `ended`: newest first, with those that they may be held against. A baseline
    that the asker may not see is none to them."""
    good = [job for job in ended if job.kind == "benchmark" and job.state == JobState.SUCCEEDED and job.run]
    asked = jobs.visible(asker).with_only_columns(table.c.id, table.c.run, table.c.owner_id)
    with database.reading(server.engine) as connection:
        own = asked.where(table.c.id.in_([job.id for job in good]))
        folders = {row.id: server.home.runs(row.owner_id) for row in connection.execute(own)}
        chosen = {job.id: _baseline(folders[job.id], str(job.run)) for job in good if job.id in folders}
        wanted = [run for run in chosen.values() if run is not None]
        jobs_of = {row.run: row.id for row in connection.execute(asked.where(table.c.run.in_(wanted)))}
    found: dict[str, Against] = {}
    last: dict[tuple[str, str, str], str] = {}
    for job in reversed(good):
        key, base = (job.owner, job.name, job.site), chosen.get(job.id)
        if base is not None and base in jobs_of and jobs_of[base] != job.id:
            found[job.id] = Against(jobs_of[base], True)
        elif base is None and key in last:
            found[job.id] = Against(last[key], False)
        last[key] = job.id
    return found


def _baseline(folder: Path, run: str) -> str | None:
    """The run that this one is held against; None: nobody chose one."""
    if not (folder / baselines.NAME).is_file():
        return None
    try:
        manifest = _manifest(folder / run)
        found = baselines.find(folder, manifest)
    except UserError:
        return None  # there is none for these hosts, or the run was removed
    return found.run if found.suite == manifest.plan.suite else None


def verdict(server: Server, asker: Principal, name: str) -> Judged:
    """Whether a run is faster than the one that it is held against."""
    with database.reading(server.engine) as connection:
        own = jobs.record(runs.find(connection, asker, name))
        before = jobs.listed(connection, asker, owner=own.owner, text=own.name, before=own.number, limit=_LOOKED_AT)
    found = against(server, asker, [own, *before]).get(own.id)
    if found is None:
        return Judged(None, False, None, None)
    try:
        sides = [Run(runs.folder(server, asker, one)) for one in (found.job, own.id)]
        (made,) = api.compare(*sides).record
    except UserError:
        return Judged(found.job, found.baseline, None, None)  # they have nothing in common, or one was removed
    overall = made.overall
    return Judged(found.job, found.baseline, overall.word, overall.verdict.ratio if overall.verdict else None)


@lru_cache(_MOST_KNOWN)
def _manifest(path: Path) -> Manifest:
    return RunDir(path).manifest()
