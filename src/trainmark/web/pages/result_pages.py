"""Results: runs, one run's report, comparisons, the history of a case, and what a link shows to strangers."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from litestar import Response, get
from litestar.params import Parameter

from trainmark import api
from trainmark.api_objects import Run
from trainmark.errors import UserError
from trainmark.i18n import words
from trainmark.i18n.speaker import say
from trainmark.i18n.texts import label
from trainmark.report import document as doc
from trainmark.report import show
from trainmark.report.make.whole import whole
from trainmark.report.render import html
from trainmark.spec.states import JobState
from trainmark.trust import leaderboard
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import asker_of
from trainmark.web.api.run_routes import RunName, ShareLink
from trainmark.web.pages import view
from trainmark.web.pages.job_pages import Before, State, Text
from trainmark.web.pages.way_in import Asked
from trainmark.web.server import Server
from trainmark.web.service import board, runs, sites, verdicts
from trainmark.web.service.errors import NotFound

_PAGE = 50
# Of the newest runs: whose cases are offered on the page of histories.
_LOOKED_AT = 30
METRICS = ("throughput", "step_time_median", "final_loss", "goodput")


def _embedded(request: Asked, record: Any) -> dict[str, Any]:
    return _shown(request, show.document_of(record))


def _shown(request: Asked, document: doc.Document) -> dict[str, Any]:
    body, texts = html.embed(document, view.language_of(request))
    # Both were escaped where they were made.
    return {"body": view.safe(body), "texts": view.safe(texts)}


def _listed(
    request: Asked, server: Server, mine: bool, state: str, text: str, site: str, before: int | None
) -> dict[str, Any]:
    wanted = JobState(state) if state in list(JobState) else None
    filters = {"mine": mine, "state": wanted, "text": text or None, "site": site or None, "before": before}
    found = runs.listed(server, asker_of(request), **filters, limit=_PAGE)  # type: ignore[arg-type]
    kept = {"mine": "true" if mine else "", "state": str(wanted or ""), "text": text, "site": site}
    kept = {name: value for name, value in kept.items() if value}
    return {
        "runs": found,
        "mine": mine,
        "state": wanted or "",
        "text": text,
        "site": site,
        "sites": sites.names(server.home),
        "before": before,
        "states": [str(one) for one in JobState if one.ended],
        "all_query": urlencode({name: value for name, value in kept.items() if name != "mine"}),
        "next_query": urlencode({**kept, "before": found[-1].number}) if len(found) == _PAGE else "",
        "filtered": bool(kept or before),
    }


@get("/results", **rules(Access.READ))
def results_page(
    request: Asked,
    server: Server,
    mine: bool = False,
    in_state: State = "",
    text: Text = "",
    site: Text = "",
    before: Before = None,
) -> Response[Any]:
    """Runs that one may see."""
    values = _listed(request, server, mine, in_state, text, site, before)
    return view.render(request, server, "results.html", active="results", **values)


@get("/results/{run:str}", **rules(Access.READ))
def report_page(request: Asked, server: Server, run: RunName) -> Response[Any]:
    """One run's report."""
    asker = asker_of(request)
    found = runs.detail(server, asker, run)
    folder = runs.folder(server, asker, run)
    own = "submit" in asker.scopes and (asker.is_admin or found.run.owner == asker.name)
    shares = runs.shares_of(server, asker, run) if own else []
    values = _embedded(request, whole(folder, series=True))
    values["baseline"] = verdicts.is_baseline(folder)
    return view.render(request, server, "report.html", active="results", found=found, own=own, shares=shares, **values)


@get("/compare", **rules(Access.READ))
def compare_page(
    request: Asked,
    server: Server,
    run: Annotated[list[RunName] | None, Parameter(query="run", max_items=view.MOST_COMPARED)] = None,
    metric: Annotated[str, Parameter(max_length=40)] = "throughput",
) -> Response[Any]:
    """Whether other runs are faster than the first."""
    asker, names = asker_of(request), list(dict.fromkeys(run or []))
    values: dict[str, Any] = {"body": None, "texts": view.safe("[]"), "problem": ""}
    if len(names) > 1:
        sides = [Run(runs.folder(server, asker, name)) for name in names]
        try:
            values |= _embedded(request, api.compare(*sides, runs=server.home.runs(asker.id), metric=metric).record)
        except NotFound:
            raise
        except UserError as error:
            values["problem"] = words.error(str(error), view.language_of(request))
    newest = runs.listed(server, asker, limit=_PAGE)
    chosen = [runs.detail(server, asker, name).run for name in names]
    return view.render(
        request,
        server,
        "compare.html",
        active="results",
        chosen=chosen,
        newest=newest,
        metric=metric,
        metrics=METRICS,
        **values,
    )


@get("/history", **rules(Access.READ))
def history_page(request: Asked, server: Server, case: Annotated[str, Parameter(max_length=400)] = "") -> Response[Any]:
    """A case over all of one's own runs."""
    asker = asker_of(request)
    folder = server.home.runs(asker.id)
    values: dict[str, Any] = {"body": None, "texts": view.safe("[]"), "problem": ""}
    if case:
        try:
            values |= _embedded(request, api.history(case, runs=folder).record)
        except UserError as error:
            values["problem"] = words.error(str(error), view.language_of(request))
    return view.render(
        request, server, "history.html", active="results", case=case, cases=_cases(server, asker), **values
    )


def _cases(server: Server, asker: Any) -> list[str]:
    """Cases of one's newest runs."""
    found: dict[str, None] = {}
    for one in runs.listed(server, asker, mine=True, kind="benchmark", limit=_LOOKED_AT):
        try:
            plan = runs.folder(server, asker, one.job).manifest().plan
        except UserError:
            continue  # its report says what is wrong with it
        found |= dict.fromkeys(case.case for case in plan.cases)
    return list(found)


@get("/leaderboard", **rules(Access.READ))
def leaderboard_page(request: Asked, server: Server) -> Response[Any]:
    """Who is fastest at what, over the runs that one may see."""
    found, unread = board.rows(server, asker_of(request))
    base = view.base_of(server)

    def proof(row: leaderboard.Row) -> doc.Inline:
        return doc.Stack(doc.Reference(label("web.job.report"), f"{base}/results/{row.bundle}"), row.maker)

    title = say(label("board.kind"), view.language_of(request))
    made = leaderboard.page_of_runs(found, title, proof) if found else None
    values: dict[str, Any] = _shown(request, made) if made else {"body": None, "texts": view.safe("[]")}
    return view.render(request, server, "leaderboard.html", active="results", unread=unread, **values)


@get("/shared/{link:str}", **rules(Access.PUBLIC))
def shared_page(request: Asked, server: Server, link: ShareLink) -> Response[Any]:
    """What somebody with a link sees: the report, and nothing else."""
    found, folder = runs.shared(server, link)
    values = _embedded(request, whole(folder, series=True))
    return view.render(request, server, "shared.html", found=msgspec.structs.asdict(found.run), link=link, **values)


ROUTES = [results_page, report_page, compare_page, history_page, leaderboard_page, shared_page]
