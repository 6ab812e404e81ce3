"""Runs as results: lists, reports, curves, comparisons, history, and links for others."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from litestar import MediaType, Response, delete, get, post, put
from litestar.params import Parameter
from msgspec import Meta

from trainmark import api
from trainmark.api_objects import Run
from trainmark.report.charts.records import Curve, RankCurve
from trainmark.report.show import show
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.store import baselines
from trainmark.store.baselines import Baseline
from trainmark.store.rundir import RunDir
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, Number, asker_of
from trainmark.web.api.job_routes import Filter, JobName
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import board, jobs, runs, verdicts
from trainmark.web.service.board import Board
from trainmark.web.service.runs import RunDetail, RunInfo, Share
from trainmark.web.service.verdicts import Judged

Language = Literal["en", "zh"]
Format = Literal["text", "html", "md", "json", "csv"]
TableFormat = Literal["text", "html", "md", "json"]
RunName = Annotated[
    str, Parameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\Z", max_length=200, description="run, job, or `last`")
]
ShareLink = Annotated[str, Parameter(pattern=r"^[A-Za-z0-9_-]{20,100}\Z", max_length=100)]
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


class Runs(msgspec.Struct, frozen=True):
    """`next`: what `before` is for the next page; None: there is none."""

    runs: list[RunInfo]
    next: int | None


class NewShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    days: Annotated[float, Meta(gt=0, le=runs.SHARE_DAYS_MOST)] = 7.0


class MadeShare(msgspec.Struct, frozen=True):
    """`link` is shown once: `/api/v1/shared/LINK` and `/api/v1/shared/LINK/report` read the run until it ends."""

    share: Share
    link: str


class Curves(msgspec.Struct, frozen=True):
    """Of the newest attempt: x is the step for `loss`, seconds since its start for the others. `ranks`: of the first
    ranks, by step."""

    case: str
    round: int
    curves: list[Curve]
    ranks: list[RankCurve]


@get("/runs", **rules(Access.READ))
def list_runs(
    request: Asked,
    server: Server,
    mine: bool = False,
    owner: Filter = None,
    in_state: Annotated[JobState | None, Parameter(query="state")] = None,
    site: Filter = None,
    kind: Literal["benchmark", "command"] | None = None,
    pinned: bool | None = None,
    text: Filter = None,
    before: Annotated[int | None, Parameter(ge=1, le=2**31 - 1)] = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 50,
) -> Runs:
    """Runs of jobs that one may see, the newest first."""
    filters = {"owner": owner, "state": in_state, "site": site, "kind": kind, "pinned": pinned, "text": text}
    asker = asker_of(request)
    found = runs.listed(server, asker, mine=mine, before=before, limit=limit, **filters)  # type: ignore[arg-type]
    return Runs(found, found[-1].number if len(found) == limit else None)


@get("/runs/{run:str}", **rules(Access.READ))
def get_run(request: Asked, server: Server, run: RunName) -> RunDetail:
    """One run, and the speed of each of its cases."""
    return runs.detail(server, asker_of(request), run)


def shown(text: str, format: str) -> Response[str]:
    headers = {"content-security-policy": _REPORT_POLICY} if format == "html" else {}
    return Response(text, media_type=f"{_MEDIA[format]}; charset=utf-8", headers=headers)


@get("/runs/{run:str}/report", **rules(Access.READ), media_type=MediaType.TEXT)
def run_report(
    request: Asked, server: Server, run: RunName, format: Format = "json", language: Language = "en"
) -> Response[str]:
    """The result of a run, as far as it is."""
    return shown(Run(runs.folder(server, asker_of(request), run)).report(format, language), format)


@get("/runs/{run:str}/search", **rules(Access.READ))
def run_search(request: Asked, server: Server, run: RunName) -> Response[str]:
    """An AutoML experiment as far as it is: score and error over time, and all trials."""
    found = server.searches.look(runs.folder(server, asker_of(request), run))
    return shown(show(found, "json"), "json")


@get("/runs/{run:str}/curves", **rules(Access.READ))
def run_curves(request: Asked, server: Server, run: RunName) -> Curves:
    """Step times, losses and use of devices of the newest attempt, thinned to what a screen shows."""
    return _curves(runs.folder(server, asker_of(request), run))


def _curves(run: RunDir) -> Curves:
    from trainmark.report.make.series import curves_of, curves_of_ranks
    from trainmark.store import columns, events

    attempt = control.newest_attempt(run)
    if attempt is None:
        return Curves("", 0, [], [])
    read = columns.read(attempt)
    made = curves_of(read, events.samples(attempt), ())
    found = [one for one in (made.step_time, made.loss) if one is not None]
    number = attempt.parent.name.removeprefix("round")
    return Curves(
        attempt.parent.parent.name.replace("+", ":"),
        int(number) if number.isdigit() else 0,
        [*found, *made.evaluations, *made.utilisation],
        curves_of_ranks(read),
    )


@get("/jobs/{job:str}/report", **rules(Access.READ), media_type=MediaType.TEXT)
def job_report(
    request: Asked, server: Server, job: JobName, format: Format = "json", language: Language = "en"
) -> Response[str]:
    """The result of a job's run, as far as it is."""
    return shown(Run(jobs.need_run(server, asker_of(request), job)).report(format, language), format)


@put("/runs/{run:str}/pin", **rules(Access.SUBMIT))
def put_pin(request: Asked, server: Server, run: RunName) -> RunDetail:
    """Keep a run, whatever the rules of retention say."""
    return runs.pin(server, asker_of(request), run, True, address_of(request.scope))


@delete("/runs/{run:str}/pin", **rules(Access.SUBMIT))
def remove_pin(request: Asked, server: Server, run: RunName) -> None:
    """Let the rules of retention decide again."""
    runs.pin(server, asker_of(request), run, False, address_of(request.scope))


@put("/runs/{run:str}/baseline", **rules(Access.SUBMIT))
def put_baseline(request: Asked, server: Server, run: RunName) -> Baseline:
    """Hold later runs of these hosts and this suite against this one."""
    return verdicts.put_baseline(server, asker_of(request), run, address_of(request.scope))


@get("/runs/{run:str}/verdict", **rules(Access.READ))
def run_verdict(request: Asked, server: Server, run: RunName) -> Judged:
    """Whether a run is faster than the baseline of its hosts and suite, else than the run of its name before it."""
    return verdicts.verdict(server, asker_of(request), run)


@get("/baselines", **rules(Access.READ))
def list_baselines(request: Asked, server: Server) -> list[Baseline]:
    """One's own baselines: one for each set of hosts and suite."""
    return baselines.read(server.home.runs(asker_of(request).id))


@get("/compare", **rules(Access.READ), media_type=MediaType.TEXT)
def compare_runs(
    request: Asked,
    server: Server,
    a: RunName,
    b: RunName,
    metric: Annotated[str, Parameter(max_length=40)] = "throughput",
    format: TableFormat = "json",
    language: Language = "en",
) -> Response[str]:
    """Whether one run is faster than another."""
    asker = asker_of(request)
    sides = [Run(runs.folder(server, asker, one)) for one in (a, b)]
    found = api.compare(*sides, runs=server.home.runs(asker.id), metric=metric)
    return shown(found.report(format, language), format)


@get("/history", **rules(Access.READ), media_type=MediaType.TEXT)
def case_history(
    request: Asked,
    server: Server,
    case: Annotated[str, Parameter(max_length=400)],
    format: TableFormat = "json",
    language: Language = "en",
) -> Response[str]:
    """A case over all of one's own runs, and where its speed changed."""
    found = api.history(case, runs=server.home.runs(asker_of(request).id))
    return shown(found.report(format, language), format)


@get("/leaderboard", **rules(Access.READ))
def get_leaderboard(request: Asked, server: Server) -> Board:
    """Who is fastest at what, over all runs that one may see."""
    return board.board(server, asker_of(request))


@get("/runs/{run:str}/shares", **rules(Access.READ))
def list_shares(request: Asked, server: Server, run: RunName) -> list[Share]:
    """Links to a run that have not ended, without what they hold."""
    return runs.shares_of(server, asker_of(request), run)


@post("/runs/{run:str}/shares", **rules(Access.SUBMIT))
def make_share(request: Asked, server: Server, run: RunName, data: NewShare) -> MadeShare:
    """A link by which anybody reads this run for some days."""
    return MadeShare(*runs.share(server, asker_of(request), run, data.days, address_of(request.scope)))


@delete("/runs/{run:str}/shares/{share:int}", **rules(Access.SUBMIT))
def end_share(request: Asked, server: Server, run: RunName, share: Number) -> None:
    """End a link before its time."""
    runs.end_share(server, asker_of(request), run, share, address_of(request.scope))


@get("/shared/{link:str}", **rules(Access.PUBLIC))
def get_shared(server: Server, link: ShareLink) -> RunDetail:
    """The run of a link, for anybody who has it."""
    return runs.shared_detail(server, link)


@get("/shared/{link:str}/report", **rules(Access.PUBLIC), media_type=MediaType.TEXT)
def shared_report(server: Server, link: ShareLink, format: Format = "json", language: Language = "en") -> Response[str]:
    """The result of the run of a link."""
    return shown(Run(runs.shared(server, link)[1]).report(format, language), format)


@get("/shared/{link:str}/curves", **rules(Access.PUBLIC))
def shared_curves(server: Server, link: ShareLink) -> Curves:
    """Curves of the run of a link."""
    return _curves(runs.shared(server, link)[1])


ROUTES = [
    list_runs,
    get_run,
    run_report,
    job_report,
    run_search,
    run_curves,
    put_pin,
    remove_pin,
    put_baseline,
    list_baselines,
    run_verdict,
    compare_runs,
    case_history,
    get_leaderboard,
    list_shares,
    make_share,
    end_share,
    get_shared,
    shared_report,
    shared_curves,
]
