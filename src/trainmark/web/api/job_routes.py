"""Jobs: submit, look, change, stop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import get, patch, post
from litestar.params import Parameter
from msgspec import Meta

from trainmark.errors import UserError
from trainmark.i18n import words
from trainmark.i18n.speaker import say
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.web.api.access import Access, language_of, rules
from trainmark.web.api.account_routes import Asked, asker_of
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import database, jobs, timeline
from trainmark.web.service.records import MOST_PRIORITY, Job, JobDetail, JobSpec, Visibility
from trainmark.web.service.timeline import JobEvent, Span

Filter = Annotated[str | None, Parameter(max_length=64)]
JobName = Annotated[str, Parameter(pattern=r"^[0-9a-z]{1,32}\Z", max_length=32, description="id, number, or `last`")]


class Jobs(msgspec.Struct, frozen=True):
    """`next`: what `before` is for the next page; None: there is none."""

    jobs: list[Job]
    next: int | None


class JobChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    priority: Annotated[int, Meta(ge=0, le=MOST_PRIORITY)] | None = None
    visibility: Visibility | None = None


class Several(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    jobs: Annotated[list[Annotated[str, Meta(pattern=r"^[0-9a-z]{1,32}\Z", max_length=32)]], Meta(max_length=1000)]


class Stopped(msgspec.Struct, frozen=True):
    """One of several jobs that were to stop: its state, or why it could not be stopped."""

    job: str
    state: str | None
    problem: str


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


def in_words(request: Asked, job: Job) -> Job:
    """Its reason in the language that the client asks for."""
    return jobs.in_language(job, language_of(request))


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
    site: Filter = None,
    owner: Filter = None,
    kind: Literal["benchmark", "command", "automl"] | None = None,
    active: bool = False,
    text: Filter = None,
    before: Annotated[int | None, Parameter(ge=1, le=2**31 - 1)] = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 50,
) -> Jobs:
    """Jobs that one may see, the newest first. `active`: only those that have not ended."""
    with database.reading(server.engine) as connection:
        found = jobs.listed(
            connection,
            asker_of(request),
            mine=mine,
            state=in_state,
            site=site,
            owner=owner,
            kind=kind,
            active=active,
            text=text,
            before=before,
            limit=limit,
        )
    found = [in_words(request, one) for one in found]
    return Jobs(found, found[-1].number if len(found) == limit else None)


@get("/jobs/{job:str}", **rules(Access.READ))
def get_job(request: Asked, server: Server, job: JobName) -> JobDetail:
    """One job and what was asked for."""
    found = jobs.detail(server, asker_of(request), job)
    return JobDetail(in_words(request, found.job), found.spec)


@get("/jobs/{job:str}/status", **rules(Access.READ))
def job_status(request: Asked, server: Server, job: JobName) -> JobStatus:
    """One job and each round of its run."""
    found = in_words(request, jobs.detail(server, asker_of(request), job).job)
    language = language_of(request)
    if found.run is None:
        return JobStatus(found, [])
    status = control.status(jobs.need_run(server, asker_of(request), job))
    return JobStatus(found, [_round(one, language) for one in status.rounds])


def _round(one: control.RoundStatus, language: str) -> Round:
    what = one.progress.text(one.unit, language) if one.progress else say(one.reason, language)
    return Round(one.case, one.round, one.attempt, str(one.state), what)


@get("/jobs/{job:str}/events", **rules(Access.READ))
def job_events(request: Asked, server: Server, job: JobName) -> list[JobEvent]:
    """What happened to a job, in order."""
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker_of(request), job)
    return timeline.events(row, jobs.run_of(server, row), language_of(request))


@get("/jobs/{job:str}/timeline", **rules(Access.READ))
def job_timeline(request: Asked, server: Server, job: JobName) -> list[Span]:
    """How long a job was in each phase: in the queue, and of each attempt of its newest ones."""
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker_of(request), job)
    return timeline.spans(row, jobs.run_of(server, row))


@patch("/jobs/{job:str}", **rules(Access.SUBMIT))
def change_job(request: Asked, server: Server, job: JobName, data: JobChange) -> JobDetail:
    """Change a job's priority, or who sees it."""
    asker, address = asker_of(request), address_of(request.scope)
    return jobs.change(server, asker, job, data.priority, data.visibility, address)


@post("/jobs/{job:str}/stop", **rules(Access.SUBMIT), status_code=202)
def stop_job(request: Asked, server: Server, job: JobName) -> JobDetail:
    """Ask a job to stop; it has stopped when its state says so."""
    return jobs.stop(server, asker_of(request), job, address_of(request.scope))


@post("/jobs/stop", **rules(Access.SUBMIT), status_code=202)
def stop_jobs(request: Asked, server: Server, data: Several) -> list[Stopped]:
    """Ask several jobs to stop, each by itself: one that cannot be stopped does not keep the others."""
    found = []
    for name in dict.fromkeys(data.jobs):
        try:
            made = jobs.stop(server, asker_of(request), name, address_of(request.scope)).job
            found.append(Stopped(name, made.state, ""))
        except UserError as error:
            found.append(Stopped(name, None, words.error(str(error), language_of(request))))
    return found


@post("/jobs/{job:str}/clone", **rules(Access.SUBMIT))
def clone_job(request: Asked, server: Server, job: JobName) -> JobDetail:
    """Queue the same again."""
    return jobs.clone(server, asker_of(request), job, address_of(request.scope))


ROUTES = [
    submit_job,
    plan_job,
    list_jobs,
    get_job,
    job_status,
    job_events,
    job_timeline,
    change_job,
    stop_job,
    stop_jobs,
    clone_job,
]
