"""Jobs: the table of them, and the pages of one: overview, console, metrics, files, plan, events, search."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from litestar import Response, get
from litestar.params import Parameter

from trainmark.errors import UserError
from trainmark.i18n import words
from trainmark.i18n.speaker import say
from trainmark.report.render import html
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import MANIFEST
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import asker_of
from trainmark.web.api.job_routes import JobName
from trainmark.web.pages import phases, view
from trainmark.web.pages.way_in import Asked
from trainmark.web.server import Server
from trainmark.web.service import database, endpoints, files, job_plans, jobs, runs, search, sites, timeline
from trainmark.web.service.records import Job, JobDetail

TABS = ("overview", "console", "metrics", "endpoints", "files", "plan", "events")
_PAGE = 50
_MOST_ROUNDS = 200
# Tones of states in the order in which their rounds are listed; the others follow.
_FIRST = {"run": 0, "bad": 1, "warn": 1}
Text = Annotated[str, Parameter(max_length=64)]
State = Annotated[str, Parameter(query="state", max_length=64)]
Before = Annotated[int | None, Parameter(ge=1, le=2**31 - 1)]


def in_words(request: Asked, job: Job) -> Job:
    """Its reason in the language of the page."""
    return jobs.in_language(job, view.language_of(request))


def _listed(
    request: Asked, server: Server, mine: bool, state: str, text: str, site: str, before: int | None
) -> dict[str, Any]:
    wanted = JobState(state) if state in list(JobState) else None
    with database.reading(server.engine) as connection:
        found = jobs.listed(
            connection,
            asker_of(request),
            mine=mine,
            state=wanted,
            text=text or None,
            site=site or None,
            before=before,
            limit=_PAGE,
        )
    query = {"mine": "true" if mine else "", "state": wanted or "", "text": text, "site": site}
    kept = {name: value for name, value in query.items() if value}
    return {
        "jobs": [in_words(request, one) for one in found],
        "mine": mine,
        "state": wanted or "",
        "text": text,
        "site": site,
        "sites": sites.names(server.home),
        "before": before,
        "query": urlencode({**kept, **({"before": before} if before else {})}),
        "all_query": urlencode({name: value for name, value in kept.items() if name != "mine"}),
        "next_query": urlencode({**kept, "before": found[-1].number}) if len(found) == _PAGE else "",
        "states": [str(one) for one in JobState if one is not JobState.PREEMPTED],
        "filtered": bool(kept or before),
        "progress": runs.progress(server, asker_of(request)),
    }


@get("/jobs", **rules(Access.READ))
def jobs_page(
    request: Asked,
    server: Server,
    mine: bool = False,
    in_state: State = "",
    text: Text = "",
    site: Text = "",
    before: Before = None,
) -> Response[Any]:
    """All jobs that one may see."""
    values = _listed(request, server, mine, in_state, text, site, before)
    return view.render(request, server, "jobs.html", active="jobs", **values)


@get("/parts/jobs", **rules(Access.READ))
def jobs_part(
    request: Asked,
    server: Server,
    mine: bool = False,
    in_state: State = "",
    text: Text = "",
    site: Text = "",
    before: Before = None,
) -> Response[Any]:
    """The table of jobs."""
    values = _listed(request, server, mine, in_state, text, site, before)
    return view.render(request, server, "jobs_part.html", **values)


# One job.


def _may_change(request: Asked, job: Job) -> bool:
    asker = asker_of(request)
    return "submit" in asker.scopes and (asker.is_admin or job.owner == asker.name)


def _detail(request: Asked, server: Server, job: str) -> JobDetail:
    found = jobs.detail(server, asker_of(request), job)
    return msgspec.structs.replace(found, job=in_words(request, found.job))


def _tabs(request: Asked, server: Server, job: Job) -> list[str]:
    """Only a command has endpoints, and only an experiment a search."""
    first = ["search"] if _is_search(server, request, job) else []
    return first + [one for one in TABS if one != "endpoints" or job.kind == "command"]


def _page(request: Asked, server: Server, tab: str, found: JobDetail, **values: Any) -> Response[Any]:
    return view.render(
        request,
        server,
        f"job_{tab}.html",
        active="jobs",
        tab=tab,
        tabs=_tabs(request, server, found.job),
        job=found.job,
        spec=found.spec,
        ended=JobState(found.job.state).ended,
        may_change=_may_change(request, found.job),
        may_submit="submit" in asker_of(request).scopes,
        **values,
    )


def _is_search(server: Server, request: Asked, job: Job) -> bool:
    """Whether its run is an AutoML experiment, which has a page more."""
    if job.run is None:
        return False
    try:
        return jobs.need_run(server, asker_of(request), job.id).manifest().plan.kind == search.KIND
    except UserError:
        return False  # it is being made, or was removed


def _overview(request: Asked, server: Server, job: Job) -> dict[str, Any]:
    """Rounds as far as they are: those that run first, then those that went wrong, whatever there is no room for."""
    language = view.language_of(request)
    rounds: list[dict[str, Any]] = []
    torn, problem = 0, ""
    run = jobs.need_run(server, asker_of(request), job.id) if job.run is not None else None
    if run is not None and (run.path / MANIFEST).exists():  # before, it is being made; after, it was removed
        try:
            status = control.status(run)
            rounds = [
                {
                    "case": one.case,
                    "round": one.round,
                    "attempt": one.attempt,
                    "state": str(one.state),
                    "what": one.progress.text(one.unit, language) if one.progress else say(one.reason, language),
                }
                for one in status.rounds
            ]
            torn = len(journal.read(run.path).warnings)
        except UserError as error:
            problem = words.error(str(error), language)
    done = sum(1 for one in rounds if JobState(one["state"]).ended)
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker_of(request), job.id)
    rounds.sort(key=lambda one: _FIRST.get(view.tone(one["state"]), len(_FIRST)))
    return {
        "rounds": rounds[:_MOST_ROUNDS],
        "more_rounds": max(0, len(rounds) - _MOST_ROUNDS),
        "done": done,
        "problem": problem,
        "torn": torn,
        "phases": phases.draw(timeline.spans(row, run)),
    }


@get("/jobs/{job:str}", **rules(Access.READ))
def job_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """Its state and rounds."""
    found = _detail(request, server, job)
    return _page(request, server, "overview", found, **_overview(request, server, found.job))


@get("/parts/jobs/{job:str}/head", **rules(Access.READ))
def job_head_part(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """Its name, state and buttons."""
    found = _detail(request, server, job)
    return view.render(
        request,
        server,
        "job_head.html",
        job=found.job,
        ended=JobState(found.job.state).ended,
        may_change=_may_change(request, found.job),
        may_submit="submit" in asker_of(request).scopes,
    )


@get("/parts/jobs/{job:str}/overview", **rules(Access.READ))
def job_overview_part(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """Its rounds."""
    found = _detail(request, server, job)
    values = _overview(request, server, found.job)
    return view.render(request, server, "job_overview_part.html", job=found.job, spec=found.spec, **values)


@get("/jobs/{job:str}/console", **rules(Access.READ))
def job_console_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """What its ranks write."""
    return _page(request, server, "console", _detail(request, server, job))


@get("/jobs/{job:str}/metrics", **rules(Access.READ))
def job_metrics_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """Curves of what it uses and how fast it is."""
    return _page(request, server, "metrics", _detail(request, server, job))


def _endpoints(request: Asked, server: Server, found: JobDetail) -> dict[str, Any]:
    language = view.language_of(request)
    listed = endpoints.listed(server, asker_of(request), found.job.id)
    told = [msgspec.structs.replace(one, problem=words.error(one.problem, language)) for one in listed]
    return {"endpoints": told, "running": found.job.state == JobState.RUNNING}


@get("/jobs/{job:str}/endpoints", **rules(Access.READ))
def job_endpoints_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """What can be opened beside it."""
    found = _detail(request, server, job)
    return _page(request, server, "endpoints", found, **_endpoints(request, server, found))


@get("/parts/jobs/{job:str}/endpoints", **rules(Access.READ))
def job_endpoints_part(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """The table of that."""
    found = _detail(request, server, job)
    values = _endpoints(request, server, found)
    may = _may_change(request, found.job)
    return view.render(request, server, "job_endpoints_part.html", job=found.job, may_change=may, **values)


@get("/jobs/{job:str}/files", **rules(Access.READ))
def job_files_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """What it left."""
    found = _detail(request, server, job)
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker_of(request), job)
    run = jobs.run_of(server, row)
    groups = {
        "work": files.listed(server.home.job(row["id"]) / job_plans.WORK),
        "run": files.listed(run.path, of_run=True) if run else [],
    }
    return _page(request, server, "files", found, groups=groups)


@get("/jobs/{job:str}/plan", **rules(Access.READ))
def job_plan_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """Exactly what it runs, rank by rank."""
    found = _detail(request, server, job)
    plan = None
    if found.job.run is not None:
        plan = job_plans.preview(jobs.need_run(server, asker_of(request), job).manifest().plan, found.spec)
    asked = {
        name: value
        for name, value in msgspec.to_builtins(found.spec).items()
        if value not in (None, {}, [], "") and name != "command"
    }
    return _page(request, server, "plan", found, plan=plan, asked=asked)


@get("/jobs/{job:str}/events", **rules(Access.READ))
def job_events_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """What happened to it, in order."""
    found = _detail(request, server, job)
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker_of(request), job)
    events = timeline.events(row, jobs.run_of(server, row), view.language_of(request))
    return _page(request, server, "events", found, events=events)


def _search(request: Asked, server: Server, job: str) -> dict[str, Any]:
    run = jobs.need_run(server, asker_of(request), job)
    found = server.searches.look(run)
    body, texts = html.embed(search.document(run, found), view.language_of(request))
    return {"result": found, "body": view.safe(body), "texts": view.safe(texts)}


@get("/jobs/{job:str}/search", **rules(Access.READ))
def job_search_page(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """An AutoML experiment, live: its score, its tree, its trials, its best network."""
    return _page(request, server, "search", _detail(request, server, job), **_search(request, server, job))


@get("/parts/jobs/{job:str}/search", **rules(Access.READ))
def job_search_part(request: Asked, server: Server, job: JobName) -> Response[Any]:
    """What of an experiment changes."""
    return view.render(request, server, "job_search_part.html", **_search(request, server, job))


ROUTES = [
    jobs_page,
    jobs_part,
    job_page,
    job_head_part,
    job_overview_part,
    job_console_page,
    job_metrics_page,
    job_endpoints_page,
    job_endpoints_part,
    job_files_page,
    job_plan_page,
    job_events_page,
    job_search_page,
    job_search_part,
]
