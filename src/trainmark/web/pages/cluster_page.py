"""Hosts and their devices: who uses what, and what `doctor` finds."""

from __future__ import annotations

from typing import Any

from litestar import Response, get

from trainmark.errors import UserError
from trainmark.i18n import words
from trainmark.launch import doctor
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import GroupName, asker_of
from trainmark.web.pages import view
from trainmark.web.pages.way_in import Asked
from trainmark.web.server import Server
from trainmark.web.service import hosts, sites


def _now(request: Asked, server: Server) -> dict[str, Any]:
    return {"hosts": hosts.listed(server, asker_of(request))}


def known_sites(request: Asked, server: Server) -> list[dict[str, Any]]:
    """A site whose file is wrong is shown with what is wrong."""
    found: list[dict[str, Any]] = []
    for name in sites.names(server.home):
        try:
            found.append({"name": name, "info": sites.info(server.home, server.rules, name), "problem": ""})
        except UserError as error:
            told = words.error(str(error), view.language_of(request))
            found.append({"name": name, "info": None, "problem": told})
    return found


@get("/cluster", **rules(Access.READ))
def cluster_page(request: Asked, server: Server) -> Response[Any]:
    """All hosts."""
    values = _now(request, server)
    return view.render(request, server, "cluster.html", active="cluster", sites=known_sites(request, server), **values)


@get("/parts/cluster", **rules(Access.READ))
def cluster_part(request: Asked, server: Server) -> Response[Any]:
    """The map of devices."""
    return view.render(request, server, "cluster_part.html", **_now(request, server))


@get("/parts/cluster/{name:str}/check", **rules(Access.ADMIN))
def site_findings_part(request: Asked, server: Server, name: GroupName) -> Response[Any]:
    """What `doctor` finds at a site; it takes some seconds."""
    found = doctor.look(sites.load(server.home, name))
    return view.render(request, server, "findings.html", findings=found)


ROUTES = [cluster_page, cluster_part, site_findings_part]
