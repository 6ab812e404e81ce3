"""What jobs gave: reports, comparisons, history; sites and templates to make the next one of."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import MediaType, Response, delete, get, put
from litestar.params import Parameter

from trainmark import api
from trainmark.api_objects import Run
from trainmark.launch import doctor
from trainmark.run import machine
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, GroupName, asker_of
from trainmark.web.api.job_routes import JobName
from trainmark.web.server import Server
from trainmark.web.service import database, jobs, sites, templates
from trainmark.web.service.records import JobSpec, Template
from trainmark.web.service.sites import SiteInfo

Language = Literal["en", "zh"]
Format = Literal["text", "html", "md", "json", "csv"]
_MEDIA = {
    "text": "text/plain",
    "html": "text/html",
    "md": "text/markdown",
    "json": "application/json",
    "csv": "text/csv",
}
# A report is a page of its own: it may use its own style and script, and nothing from elsewhere.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)


class PutTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    spec: JobSpec
    shared: bool = False


class HostUse(msgspec.Struct, frozen=True):
    """What holds a host now; `slots` None: all of it."""

    host: str
    run: str
    slots: list[int] | None


def _report(text: str, format: str) -> Response[str]:
    headers = {"content-security-policy": _REPORT_POLICY} if format == "html" else {}
    return Response(text, media_type=f"{_MEDIA[format]}; charset=utf-8", headers=headers)


@get("/jobs/{job:str}/report", **rules(Access.READ), media_type=MediaType.TEXT)
def job_report(
    request: Asked, server: Server, job: JobName, format: Format = "json", language: Language = "en"
) -> Response[str]:
    """The result of a job's run, as far as it is."""
    run = Run(jobs.need_run(server, asker_of(request), job))
    return _report(run.report(format, language), format)


@get("/compare", **rules(Access.READ), media_type=MediaType.TEXT)
def compare_jobs(
    request: Asked,
    server: Server,
    a: JobName,
    b: JobName,
    metric: Annotated[str, Parameter(max_length=40)] = "throughput",
    format: Literal["text", "html", "md", "json"] = "json",
    language: Language = "en",
) -> Response[str]:
    """Whether one job's run is faster than another's."""
    sides = [Run(jobs.need_run(server, asker_of(request), job)) for job in (a, b)]
    return _report(api.compare(*sides, metric=metric).report(format, language), format)


@get("/history", **rules(Access.READ), media_type=MediaType.TEXT)
def case_history(
    request: Asked,
    server: Server,
    case: Annotated[str, Parameter(max_length=400)],
    format: Literal["text", "html", "md", "json"] = "json",
    language: Language = "en",
) -> Response[str]:
    """A case over all of one's own runs, and where its speed changed."""
    found = api.history(case, runs=server.home.runs(asker_of(request).id))
    return _report(found.report(format, language), format)


@get("/sites", **rules(Access.READ))
def list_sites(server: Server) -> list[SiteInfo]:
    """Where jobs may run."""
    return [sites.info(server.home, server.rules, name) for name in sites.names(server.home)]


@get("/sites/{name:str}/check", **rules(Access.ADMIN))
def check_one_site(server: Server, name: GroupName) -> list[dict[str, Any]]:
    """Whether a site can be used: what `trainmark doctor` finds."""
    return [msgspec.to_builtins(one) for one in doctor.look(sites.load(server.home, name))]


@get("/hosts", **rules(Access.READ))
def list_hosts(request: Asked) -> list[HostUse]:
    """What holds which host now. Names of runs are shown to admins."""
    admin = asker_of(request).is_admin
    return [
        HostUse(host, claim.run.rpartition("/")[2] if admin else "", slots)
        for claim in machine.claims()
        for host, slots in claim.places.items()
    ]


@get("/templates", **rules(Access.READ))
def list_templates(request: Asked, server: Server) -> list[Template]:
    """One's own templates, and those that are shared."""
    with database.reading(server.engine) as connection:
        return templates.listed(connection, asker_of(request))


@put("/templates/{name:str}", **rules(Access.SUBMIT))
def put_template(request: Asked, server: Server, name: GroupName, data: PutTemplate) -> Template:
    """Keep a template, or replace one's own of this name."""
    with database.writing(server.engine) as connection:
        return templates.put(connection, asker_of(request), name, data.spec, data.shared)


@delete("/templates/{name:str}", **rules(Access.SUBMIT))
def remove_template(request: Asked, server: Server, name: GroupName) -> None:
    """Remove one's own template."""
    with database.writing(server.engine) as connection:
        templates.remove(connection, asker_of(request), name)


ROUTES = [
    job_report,
    compare_jobs,
    case_history,
    list_sites,
    check_one_site,
    list_hosts,
    list_templates,
    put_template,
    remove_template,
]
