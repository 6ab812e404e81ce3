"""Making a job: a form and its YAML side by side. The script beside it asks the API for dry runs and submits."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec
from litestar import Response, get
from litestar.params import Parameter

from trainmark.devices.protocol import REGISTRY
from trainmark.spec import suite as suites
from trainmark.spec import workload as workloads
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import asker_of
from trainmark.web.pages import view
from trainmark.web.pages.cluster_page import known_sites
from trainmark.web.pages.way_in import Asked
from trainmark.web.server import Server
from trainmark.web.service import database, hosts, jobs, templates
from trainmark.web.service.records import JobSpec

_NEW = JobSpec(name="my-benchmark", suite="quick")


@cache
def _catalogue() -> dict[str, Any]:
    """Suites and workloads that come with trainmark."""
    loaded = [suites.load(suites.find(name)).suite for name in suites.built_in_names()]
    found = [workloads.find(name, (), "submit").workload for name in workloads.names()]
    return {
        "suites": [{"name": one.name, "title": one.title} for one in loaded],
        "workloads": [
            {"name": one.name, "title": one.title, "frameworks": list(one.entry), "presets": list(one.presets)}
            for one in found
        ],
        "devices": sorted(REGISTRY.names()),
        "defaults": msgspec.to_builtins(JobSpec(name="")),
    }


@get("/submit", **rules(Access.SUBMIT))
def submission_page(
    request: Asked,
    server: Server,
    source: Annotated[str, Parameter(query="from", pattern=r"^[0-9a-z]{0,32}$", max_length=32)] = "",
) -> Response[Any]:
    """A new job, or one like another."""
    asker = asker_of(request)
    spec = msgspec.structs.replace(jobs.detail(server, asker, source).spec, seed=None) if source else _NEW
    with database.reading(server.engine) as connection:
        found = templates.listed(connection, asker)
    known = [one["info"] for one in known_sites(request, server) if one["info"]]
    data = {
        **_catalogue(),
        "spec": msgspec.to_builtins(spec),
        "sites": [
            {**msgspec.to_builtins(one), "allowed": asker.role == "admin" or one.submit == "users"} for one in known
        ],
        "hosts": [msgspec.to_builtins(one) for one in hosts.listed(server, asker)],
        "free": [msgspec.to_builtins(one) for one in hosts.devices(server, asker)],
        "templates": [msgspec.to_builtins(one) for one in found],
    }
    return view.render(
        request,
        server,
        "submit.html",
        active="submit",
        catalogue=_catalogue(),
        sites=known,
        templates=found,
        shipped=templates.SHIPPED,
        data=view.as_json(data),
    )


ROUTES = [submission_page]
