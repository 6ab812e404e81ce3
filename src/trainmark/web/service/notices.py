"""What users are told when a job of theirs ends, fails, or was slower than the one before: by mail, webhook, browser.

A notice is written down with what it tells of, in one transaction, and sent later by `couriers.py`. So none is lost
with the server, and none is made twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.reasons import Reason
from trainmark.spec.states import JobState
from trainmark.web.server import Server
from trainmark.web.service import audit, database, sealing
from trainmark.web.service.errors import Conflict, Refused, TooMany
from trainmark.web.service.records import Principal
from trainmark.web.service.rules import NoticeRules
from trainmark.web.service.tables import jobs, notice_settings, notices

Event = Literal["ended", "failed", "regression"]
_BAD = (JobState.FAILED, JobState.TIMEOUT, JobState.LOST, JobState.INVALID)
# `check`: whether there is anything to tell is found out first.
CHECK, MAIL, WEBHOOK, BROWSER = "check", "mail", "webhook", "browser"
_KEPT_SECONDS = 30 * 86400.0
_TEST_SECONDS = 60.0
# A page that is opened later is not told what happened before.
_FRESH_SECONDS = 3600.0


class NoticeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`events`: `ended` tells of every end, `failed` of those that went wrong, `regression` of benchmarks that were
    slower than the one before of the same name. `mail` and `webhook`: an address; empty: not in this way."""

    events: Annotated[list[Event], Meta(max_length=3)] = msgspec.field(default_factory=lambda: ["failed", "regression"])
    mail: Annotated[str, Meta(max_length=254, pattern=r"^([A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+)?\Z")] = ""
    webhook: Annotated[str, Meta(max_length=500)] = ""
    browser: bool = False
    language: Literal["en", "zh"] = "en"


class NoticeAnswer(msgspec.Struct, frozen=True):
    """`webhook_key`: signs what is sent to the webhook; shown only when it was made, with a new address. `ways`: those
    that this server has."""

    settings: NoticeSettings
    webhook_key: str | None
    ways: list[str]


class Notice(msgspec.Struct, frozen=True):
    """`told`: when; None: not yet, or given up. `problem`: why it was not."""

    id: int
    way: str
    event: str
    job: str
    created: float
    told: float | None
    problem: str


# Settings.


def settings_of(connection: Connection, user: int) -> NoticeSettings | None:
    found = connection.execute(select(notice_settings.c.settings).where(notice_settings.c.user_id == user)).scalar()
    return msgspec.json.decode(found, type=NoticeSettings) if found else None


def settings(server: Server, asker: Principal) -> NoticeAnswer:
    with database.reading(server.engine) as connection:
        found = settings_of(connection, asker.id)
    return NoticeAnswer(found or NoticeSettings(), None, ways(server.rules.notices))


def put_settings(server: Server, asker: Principal, wanted: NoticeSettings, address: str) -> NoticeAnswer:
    check_settings(server.rules.notices, wanted)
    made = None
    with database.writing(server.engine) as connection:
        before = settings_of(connection, asker.id)
        values: dict[str, Any] = {"settings": msgspec.json.encode(wanted).decode()}
        if wanted.webhook and (before is None or before.webhook != wanted.webhook):
            # Another address is another receiver, who must not be able to speak for the server elsewhere.
            made = secrets.token_urlsafe(32)
            values["webhook_key"] = sealing.seal(server.key, _purpose(asker.id), made.encode())
        own = notice_settings.c.user_id == asker.id
        if connection.execute(update(notice_settings).where(own).values(**values)).rowcount == 0:
            connection.execute(insert(notice_settings).values(user_id=asker.id, **values))
        audit.note(connection, asker.name, "notices.put", f"{wanted.mail} {wanted.webhook}", address)
    return NoticeAnswer(wanted, made, ways(server.rules.notices))


def ways(rules: NoticeRules) -> list[str]:
    return [*([MAIL] if rules.smtp else []), *([WEBHOOK] if rules.webhooks else []), BROWSER]


def check_settings(rules: NoticeRules, wanted: NoticeSettings) -> None:
    if wanted.mail and rules.smtp is None:
        raise Conflict("mail: this server sends none; an admin names a mail server in server.yaml (`notices: smtp`)")
    domain = wanted.mail.rpartition("@")[2].lower()
    if wanted.mail and rules.mail_domains and domain not in rules.mail_domains:
        raise UserError(f"mail: found {domain}, allowed is {', '.join(rules.mail_domains)}")
    if wanted.webhook:
        check_webhook(rules, wanted.webhook)


def check_webhook(rules: NoticeRules, url: str) -> None:
    """Only to where an admin allows it: whoever could name any address would have this server ask its own network."""
    allowed = ", ".join(rules.webhooks) or "none"
    try:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        raise UserError("webhook: allowed is https://HOST/PATH") from None
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if not plain or parts.username or parts.password or parts.fragment:
        raise UserError("webhook: allowed is https://HOST/PATH")
    if origin not in rules.webhooks:
        raise UserError(f"webhook: found {origin}, this server allows {allowed}")


def webhook_key(server: Server, connection: Connection, user: int) -> bytes:
    found = connection.execute(select(notice_settings.c.webhook_key).where(notice_settings.c.user_id == user)).scalar()
    key = sealing.unseal(server.key, _purpose(user), found) if found is not None else None
    if key is None:
        raise UserError("webhook: there is no key to sign with; save another address, then this one again")
    return key


def _purpose(user: int) -> str:
    return f"webhook {user}"


# What is told.


def about_end(connection: Connection, row: RowMapping, state: JobState, why: Reason | None, at: float) -> None:
    """A job ended. In the transaction that says so."""
    found = settings_of(connection, row["owner_id"])
    if found is None or (state is JobState.CANCELLED and why is not None and why.code == "job-stopped"):
        return  # whoever stopped it knows
    bad = state in _BAD
    if "ended" in found.events or (bad and "failed" in found.events):
        content = _content(row, "failed" if bad else "ended", str(state), say(why, found.language) if why else "")
        _write(connection, row, found, content, f"end {at}")
    if "regression" in found.events and row["kind"] == "benchmark" and state is JobState.SUCCEEDED:
        _insert(connection, row, CHECK, f"check {at}", _content(row, "regression", str(state), ""))


def about_regression(server: Server, row: RowMapping, text: str) -> None:
    with database.writing(server.engine) as connection:
        found = settings_of(connection, row["owner_id"])
        if found is not None:
            _write(connection, row, found, _content(row, "regression", row["state"], text), f"slower {row['ended']}")


def test(server: Server, asker: Principal, row: RowMapping) -> None:
    """One in each way, about a job of the asker's."""
    if row["owner_id"] != asker.id:
        raise Refused("this job is another user's")
    now = time.time()
    with database.writing(server.engine) as connection:
        asked = select(func.max(notices.c.created)).where(notices.c.user_id == asker.id, notices.c.event == "test")
        last = connection.execute(asked).scalar() or 0.0
        if now - last < _TEST_SECONDS:
            raise TooMany(_TEST_SECONDS - (now - last))
        found = settings_of(connection, asker.id) or NoticeSettings()
        _write(connection, row, found, _content(row, "test", row["state"], ""), f"test {now}")


def _content(row: RowMapping, event: str, state: str, why: str) -> dict[str, Any]:
    return {"event": event, "job": row["id"], "number": row["number"], "name": row["name"], "state": state, "why": why}


def _write(
    connection: Connection, row: RowMapping, found: NoticeSettings, content: Mapping[str, Any], mark: str
) -> None:
    for way, wanted in ((MAIL, found.mail), (WEBHOOK, found.webhook), (BROWSER, found.browser)):
        if wanted:
            _insert(connection, row, way, mark, content)


def _insert(connection: Connection, row: RowMapping, way: str, mark: str, content: Mapping[str, Any]) -> None:
    mark = f"{row['id']} {mark}"[:64]
    own = (notices.c.user_id == row["owner_id"], notices.c.way == way, notices.c.mark == mark)
    if connection.execute(select(notices.c.id).where(*own)).first() is not None:
        return
    now = time.time()
    values = {"user_id": row["owner_id"], "job_number": row["number"], "way": way, "event": content["event"]}
    text = msgspec.json.encode(content).decode()
    connection.execute(
        insert(notices).values(mark=mark, content=text, created=now, tries=0, next=now, problem="", **values)
    )


# Reading them.


def listed(connection: Connection, asker: Principal, limit: int = 50) -> list[Notice]:
    """The newest first."""
    asked = select(notices, jobs.c.id.label("job")).join(jobs, jobs.c.number == notices.c.job_number)
    asked = asked.where(notices.c.user_id == asker.id, notices.c.way != CHECK).order_by(notices.c.id.desc())
    return [
        Notice(row.id, row.way, row.event, row.job, row.created, None if row.problem else row.done, row.problem)
        for row in connection.execute(asked.limit(limit))
    ]


def take_for_browser(server: Server, user: int) -> list[dict[str, Any]]:
    """What an open page of this user is to show; each goes to one page."""
    now = time.time()
    open_ones = (notices.c.user_id == user, notices.c.way == BROWSER, notices.c.done.is_(None))
    asked = select(notices.c.id).where(*open_ones, notices.c.created > now - _FRESH_SECONDS).limit(20)
    with database.reading(server.engine) as connection:
        if connection.execute(asked).first() is None:
            return []
    found = []
    with database.writing(server.engine) as connection:
        for row in connection.execute(select(notices).where(*open_ones, notices.c.created > now - _FRESH_SECONDS)):
            taken = update(notices).where(notices.c.id == row.id, notices.c.done.is_(None)).values(done=now)
            if connection.execute(taken).rowcount == 1:
                found.append({"id": row.id, **msgspec.json.decode(row.content)})
    return found


def forget_old(server: Server) -> None:
    with database.writing(server.engine) as connection:
        connection.execute(delete(notices).where(notices.c.created < time.time() - _KEPT_SECONDS))
