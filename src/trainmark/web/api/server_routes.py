"""The server itself: alive, ready, its figures for Prometheus."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
from litestar import MediaType, Request, Response, get
from sqlalchemy import func, select

from trainmark import __version__
from trainmark.web.api.access import Access, rules
from trainmark.web.api.description import describe
from trainmark.web.server import Server
from trainmark.web.service import database
from trainmark.web.service.tables import jobs, users

_BEGAN = time.time()


class Health(msgspec.Struct, frozen=True):
    status: str
    version: str


@get("/health", **rules(Access.PUBLIC))
def health() -> Health:
    """Whether the process answers."""
    return Health("ok", __version__)


@get("/ready", **rules(Access.PUBLIC))
def ready(server: Server) -> Response[Health]:
    """Whether it can work: the database answers and the queue is looked after."""
    good = database.is_ready(server.engine) and (server.keeper is None or server.keeper.is_well())
    return Response(Health("ok" if good else "not ready", __version__), status_code=200 if good else 503)


@get("/openapi.json", **rules(Access.PUBLIC), include_in_schema=False)
def openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """What there is to call."""
    return describe(request.app)


@get("/metrics", **rules(Access.METRICS), media_type=MediaType.TEXT)
def metrics(server: Server) -> str:
    """Figures of the server, for Prometheus; needs a token with the scope `metrics`."""
    with database.reading(server.engine) as connection:
        asked = select(jobs.c.state, func.count().label("count")).group_by(jobs.c.state)
        states = {row["state"]: row["count"] for row in connection.execute(asked).mappings()}
        people = connection.execute(select(func.count()).select_from(users)).scalar() or 0
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    lines = ["# TYPE trainmark_jobs gauge"]
    lines += [f'trainmark_jobs{{state="{state}"}} {count}' for state, count in sorted(states.items())]
    lines += ["# TYPE trainmark_users gauge", f"trainmark_users {people}"]
    lines += ["# TYPE trainmark_up_seconds counter", f"trainmark_up_seconds {time.time() - _BEGAN:.1f}"]
    resident = pages * os.sysconf("SC_PAGESIZE")
    lines += ["# TYPE trainmark_resident_bytes gauge", f"trainmark_resident_bytes {resident}"]
    return "\n".join(lines) + "\n"


ROUTES = [health, ready, openapi, metrics]
