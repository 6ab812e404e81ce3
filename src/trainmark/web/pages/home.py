"""The first page: what runs, what waits and why, what ended last; and one's own account and all users."""

from __future__ import annotations

from typing import Any

from litestar import Response, get

from trainmark.spec.states import JobState
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import asker_of
from trainmark.web.pages import view
from trainmark.web.pages.cluster_page import map_of_hosts
from trainmark.web.pages.job_pages import in_words
from trainmark.web.pages.way_in import Asked
from trainmark.web.server import Server
from trainmark.web.service import accounts, audit, credentials, database, jobs, notices, runs, sites, ssh_keys, verdicts
from trainmark.web.service.hosts import Host

_MOST_RUNNING, _MOST_WAITING, _MOST_ENDED, _MOST_HOSTS = 50, 20, 8, 8


def _now(request: Asked, server: Server) -> dict[str, Any]:
    asker = asker_of(request)
    with database.reading(server.engine) as connection:
        running = jobs.listed(connection, asker, state=JobState.RUNNING, limit=_MOST_RUNNING)
        waiting = jobs.listed(connection, asker, state=JobState.PENDING, limit=_MOST_WAITING)
        counts = {str(one): jobs.count(connection, asker, one) for one in jobs.ACTIVE}
        newest = jobs.listed(connection, asker, limit=100)
    ended = [job for job in newest if JobState(job.state).ended]
    ended.sort(key=lambda job: -(job.ended or job.created))
    return {
        "counts": counts,
        "running": [in_words(request, job) for job in running],
        "waiting": [in_words(request, job) for job in waiting],
        "ended": [in_words(request, job) for job in ended[:_MOST_ENDED]],
        "against": verdicts.against(server, asker, ended),
        "progress": runs.progress(server, asker),
        **_hosts(request, server),
        "fresh": not newest,
    }


def _hosts(request: Asked, server: Server) -> dict[str, Any]:
    """Those that something is to be said of come first; of a large cluster not all are shown."""
    found = map_of_hosts(request, server)
    listed: list[Host] = found["hosts"]
    open_ones = [host for host in listed if host.slots is not None and host.drained is None]
    order = sorted(listed, key=lambda host: (host.drained is None, not host.uses))
    return {
        **found,
        "hosts": order[:_MOST_HOSTS],
        "more_hosts": len(order) - len(order[:_MOST_HOSTS]),
        "all_hosts": len(listed),
        "drained": sum(host.drained is not None for host in listed),
        "free": sum(host.free or 0 for host in open_ones),
        "slots": sum(host.slots or 0 for host in open_ones),
    }


@get("/", **rules(Access.READ))
def home_page(request: Asked, server: Server) -> Response[Any]:
    """What happens now."""
    asker = asker_of(request)
    may = "submit" in asker.scopes and (server.rules.of(sites.LOCAL).submit == "users" or asker.role == "admin")
    return view.render(request, server, "home.html", active="home", may_measure=may, **_now(request, server))


@get("/parts/home", **rules(Access.READ))
def home_part(request: Asked, server: Server) -> Response[Any]:
    """What of the first page changes."""
    return view.render(request, server, "home_part.html", **_now(request, server))


@get("/account", **rules(Access.SESSION))
def account_page(request: Asked, server: Server) -> Response[Any]:
    """One's own password, tokens and keys, and what one is told."""
    asker = asker_of(request)
    with database.reading(server.engine) as connection:
        tokens, keys = credentials.list_tokens(connection, asker.id), ssh_keys.listed(connection, asker)
    told = notices.settings(server, asker)
    return view.render(request, server, "account.html", active="account", tokens=tokens, keys=keys, notices=told)


def _people(server: Server) -> dict[str, Any]:
    with database.reading(server.engine) as connection:
        return {"users": accounts.list_users(connection), "groups": accounts.list_groups(connection)}


@get("/people", **rules(Access.ADMIN))
def people_page(request: Asked, server: Server) -> Response[Any]:
    """All users and groups, and what was done last."""
    with database.reading(server.engine) as connection:
        entries = audit.entries(connection, limit=50)
    open_to_users = server.rules.of(sites.LOCAL).submit == "users"
    rules_file = server.home.rules
    return view.render(
        request,
        server,
        "people.html",
        active="people",
        entries=entries,
        open_to_users=open_to_users,
        rules_file=rules_file,
        **_people(server),
    )


@get("/parts/people", **rules(Access.ADMIN))
def people_part(request: Asked, server: Server) -> Response[Any]:
    """The table of users."""
    return view.render(request, server, "people_part.html", **_people(server))


ROUTES = [home_page, home_part, account_page, people_page, people_part]
