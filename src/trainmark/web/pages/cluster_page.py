"""Hosts and their devices: who uses what, what they measure, what `doctor` and `accept` find; one host over time."""

from __future__ import annotations

from typing import Any

from litestar import Response, get

from trainmark.errors import UserError
from trainmark.i18n import words
from trainmark.i18n.texts import label
from trainmark.launch import doctor
from trainmark.report import document as doc
from trainmark.report.charts import records as charts
from trainmark.report.render import html
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import GroupName, asker_of
from trainmark.web.api.site_routes import HostName
from trainmark.web.pages import view
from trainmark.web.pages.job_pages import in_words
from trainmark.web.pages.way_in import Asked
from trainmark.web.server import Server
from trainmark.web.service import acceptance, host_history, hosts, sites
from trainmark.web.service.host_history import Speed

# Of a chart: cases that have a line of their own.
_MOST_CASES = 6


def map_of_hosts(request: Asked, server: Server) -> dict[str, Any]:
    return {"hosts": hosts.listed(server, asker_of(request)), "readings": host_history.readings()}


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
    asker, listed = asker_of(request), known_sites(request, server)
    accepted = {one["name"]: acceptance.last(server, asker, one["name"]) for one in listed if one["info"]}
    values = map_of_hosts(request, server)
    return view.render(request, server, "cluster.html", active="cluster", sites=listed, accepted=accepted, **values)


@get("/parts/cluster", **rules(Access.READ))
def cluster_part(request: Asked, server: Server) -> Response[Any]:
    """The map of devices."""
    return view.render(request, server, "cluster_part.html", **map_of_hosts(request, server))


@get("/parts/cluster/{name:str}/check", **rules(Access.ADMIN))
def site_findings_part(request: Asked, server: Server, name: GroupName) -> Response[Any]:
    """What `doctor` finds at a site; it takes some seconds."""
    found = doctor.look(sites.load(server.home, name))
    return view.render(request, server, "findings.html", findings=found)


@get("/cluster/{name:str}", **rules(Access.READ))
def host_page(request: Asked, server: Server, name: HostName) -> Response[Any]:
    """One host over time."""
    found = host_history.detail(server, asker_of(request), name)
    chart = _chart(found.speeds)
    blocks = [doc.Figures([chart], style="full")] if chart else []
    body, texts = html.embed_blocks(blocks, view.language_of(request))
    return view.render(
        request,
        server,
        "host.html",
        active="cluster",
        host=found.host,
        hosts=[found.host],
        readings={name: found.reading} if found.reading else {},
        jobs=[in_words(request, one) for one in found.jobs[:50]],
        body=view.safe(body),
        texts=view.safe(texts),
    )


def _chart(speeds: list[Speed]) -> charts.LineChart | None:
    """Of the cases that ran most often: each run against the median of its case there."""
    by_case: dict[str, list[Speed]] = {}
    for one in speeds:
        by_case.setdefault(one.case, []).append(one)
    most = sorted(by_case.items(), key=lambda item: -len(item[1]))[:_MOST_CASES]
    if not most:
        return None
    lines = [
        charts.Line(case, charts.Curve(case, "fraction", [one.at for one in found], [one.relative for one in found]))
        for case, found in most
    ]
    return charts.LineChart(
        label("web.host.speeds"),
        lines=lines,
        x_title=label("history.axis"),
        y_title=label("history.relative"),
        x_kind="dates",
        wide=True,
    )


ROUTES = [cluster_page, cluster_part, site_findings_part, host_page]
