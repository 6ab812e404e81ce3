"""Jobs: submit, look, change, stop."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import get, patch, post
from litestar.params import Parameter
from msgspec import Meta

from trainmark.i18n.speaker import say
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, asker_of
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import database, jobs
from trainmark.web.service.records import Job, JobDetail, JobSpec, Visibility

JobName = Annotated[str, Parameter(pattern=r"^[0-9a-z]{1,32}$", max_length=32, description="id, number, or `last`")]


class Jobs(msgspec.Struct, frozen=True):
    """`next`: what `before` is for the next page; None: there is none."""

    jobs: list[Job]
    next: int | None


class JobChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    priority: Annotated[int, Meta(ge=0, le=1000)] | None = None
    visibility: Visibility | None = None


class Round(msgspec.Struct, frozen=True):
    case: str
    round: int
    attempt: int
    state: str
    what: str


class JobStatus(msgspec.Struct, frozen=True):
    job: Job
    rounds: list[Round]


class DryRun(msgspec.Struct, frozen=True):
    """What would run, rank by rank, and the slots it would wait for. `launcher`: how nodes would be asked for.
    `workers`: of a command, what its workers find: host file, rank tables."""

    suite: str
    seed: int
    rounds: int
    cases: list[dict[str, Any]]
    needs: dict[str, int]
    launcher: list[str]
    workers: dict[str, Any] | None


@post("/jobs", **rules(Access.SUBMIT))
def submit_job(request: Asked, server: Server, data: JobSpec) -> JobDetail:
    """Queue a job."""
    return jobs.submit(server, asker_of(request), data, address_of(request.scope))


@post("/jobs/plan", **rules(Access.SUBMIT), status_code=200)
def plan_job(request: Asked, server: Server, data: JobSpec) -> DryRun:
    """What a job would run, without queueing it."""
    return DryRun(**jobs.dry_run(server, asker_of(request), data))


@get("/jobs", **rules(Access.READ))
def list_jobs(
    request: Asked,
    server: Server,
    mine: bool = False,
    in_state: Annotated[JobState | None, Parameter(query="state")] = None,
    site: Annotated[str | None, Parameter(max_length=64)] = None,
    text: Annotated[str | None, Parameter(max_length=64)] = None,
    before: Annotated[int | None, Parameter(ge=1, le=2**31 - 1)] = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 50,
) -> Jobs:
    """Jobs that one may see, the newest first."""
    with database.reading(server.engine) as connection:
        found = jobs.listed(
            connection,
            asker_of(request),
            mine=mine,
            state=in_state,
            site=site,
            text=text,
            before=before,
            limit=limit,
        )
    return Jobs(found, found[-1].number if len(found) == limit else None)


@get("/jobs/{job:str}", **rules(Access.READ))
def get_job(request: Asked, server: Server, job: JobName) -> JobDetail:
    """One job and what was asked for."""
    return jobs.detail(server, asker_of(request), job)


@get("/jobs/{job:str}/status", **rules(Access.READ))
def job_status(request: Asked, server: Server, job: JobName) -> JobStatus:
    """One job and each round of its run."""
    found = jobs.detail(server, asker_of(request), job).job
    if found.run is None:
        return JobStatus(found, [])
    status = control.status(jobs.need_run(server, asker_of(request), job))
    return JobStatus(found, [_round(one) for one in status.rounds])


def _round(one: control.RoundStatus) -> Round:
    what = one.progress.text(one.unit) if one.progress else say(one.reason)
    return Round(one.case, one.round, one.attempt, str(one.state), what)


@patch("/jobs/{job:str}", **rules(Access.SUBMIT))
def change_job(request: Asked, server: Server, job: JobName, data: JobChange) -> JobDetail:
    """Change a job's priority, or who sees it."""
    asker, address = asker_of(request), address_of(request.scope)
    return jobs.change(server, asker, job, data.priority, data.visibility, address)


@post("/jobs/{job:str}/stop", **rules(Access.SUBMIT), status_code=202)
def stop_job(request: Asked, server: Server, job: JobName) -> JobDetail:
    """Ask a job to stop; it has stopped when its state says so."""
    return jobs.stop(server, asker_of(request), job, address_of(request.scope))


@post("/jobs/{job:str}/clone", **rules(Access.SUBMIT))
def clone_job(request: Asked, server: Server, job: JobName) -> JobDetail:
    """Queue the same again."""
    return jobs.clone(server, asker_of(request), job, address_of(request.scope))


ROUTES = [submit_job, plan_job, list_jobs, get_job, job_status, change_job, stop_job, clone_job]
