"""What users are told of their jobs, and how."""

from __future__ import annotations

from litestar import get, post, put

from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, asker_of
from trainmark.web.api.job_routes import JobName
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import database, jobs, notices
from trainmark.web.service.notices import Notice, NoticeAnswer, NoticeSettings


@get("/notices", **rules(Access.READ))
def list_notices(request: Asked, server: Server) -> list[Notice]:
    """What one was told last, and what could not be told."""
    with database.reading(server.engine) as connection:
        return notices.listed(connection, asker_of(request))


@get("/notices/settings", **rules(Access.READ))
def notice_settings(request: Asked, server: Server) -> NoticeAnswer:
    """What one wants to be told, and how."""
    return notices.settings(server, asker_of(request))


@put("/notices/settings", **rules(Access.SUBMIT))
def put_notice_settings(request: Asked, server: Server, data: NoticeSettings) -> NoticeAnswer:
    """Choose that. A new address of a webhook gets a new key, which is shown only now."""
    return notices.put_settings(server, asker_of(request), data, address_of(request.scope))


@post("/jobs/{job:str}/notices/test", **rules(Access.SUBMIT), status_code=202)
def test_notice(request: Asked, server: Server, job: JobName) -> None:
    """Send oneself a notice about a job of one's own, in each way that one chose; once a minute."""
    asker = asker_of(request)
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker, job, own=True)
    notices.test(server, asker, row)


ROUTES = [list_notices, notice_settings, put_notice_settings, test_notice]
