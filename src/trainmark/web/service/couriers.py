"""Sends what users are told: mail through a mail server, and signed calls of webhooks. What fails is tried again.

A notice whose sending was cut off is sent again under the same name (`Message-ID`, `X-Trainmark-Delivery`).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import smtplib
import socket
import ssl
import time
from collections.abc import Iterable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpcore
import msgspec
from sqlalchemy import RowMapping, select, update

from trainmark.errors import SiteError, UserError
from trainmark.i18n.speaker import say
from trainmark.i18n.texts import label
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir
from trainmark.web.server import Server
from trainmark.web.service import database, jobs, notices
from trainmark.web.service.rules import NoticeRules
from trainmark.web.service.tables import jobs as job_table
from trainmark.web.service.tables import notices as table
from trainmark.web.service.tables import users

log = logging.getLogger("trainmark.web")

_SECONDS = 20.0
# Tries of one notice: after half a minute, then each time twice as long, at most six hours; then it is given up.
_FIRST_SECONDS, _LONGEST_SECONDS, _MOST_TRIES = 30.0, 6 * 3600.0, 10
_AT_A_TIME = 20


def deliver(server: Server) -> None:
    """All that is due."""
    asked = select(table, users.c.disabled).join(users, users.c.id == table.c.user_id)
    asked = asked.where(table.c.done.is_(None), table.c.way != notices.BROWSER, table.c.next <= time.time())
    with database.reading(server.engine) as connection:
        due = list(connection.execute(asked.order_by(table.c.next).limit(_AT_A_TIME)).mappings())
    for row in due:
        _deliver(server, row)


def _deliver(server: Server, row: RowMapping) -> None:
    tries = row["tries"] + 1
    again = time.time() + min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** (tries - 1))
    _set(server, row, tries=tries, next=again)  # before it is tried: one that ends this process is not tried at once
    try:
        _send(server, row)
    except (UserError, OSError, smtplib.SMTPException) as error:
        problem = (str(error) or type(error).__name__)[:300]
        log.warning("notice %d by %s: %s", row["id"], row["way"], problem)
        _set(server, row, problem=problem, done=time.time() if tries >= _MOST_TRIES else None)
        return
    _set(server, row, problem="", done=time.time())


def _set(server: Server, row: RowMapping, **values: Any) -> None:
    with database.writing(server.engine) as connection:
        connection.execute(update(table).where(table.c.id == row["id"]).values(**values))


def _send(server: Server, row: RowMapping) -> None:
    with database.reading(server.engine) as connection:
        found = notices.settings_of(connection, row["user_id"])
        wanted = job_table.c.number == row["job_number"]
        asked = select(job_table, users.c.name.label("owner")).join(users, users.c.id == job_table.c.owner_id)
        job = connection.execute(asked.where(wanted)).mappings().one()
    if found is None or row["disabled"]:
        return  # nobody wants it any more
    content = msgspec.json.decode(row["content"], type=dict[str, Any])
    if row["way"] == notices.CHECK:
        _check(server, job, found.language)
    elif row["way"] == notices.MAIL and found.mail:
        name = f"<notice-{row['id']}.{row['mark'].replace(' ', '.')}@trainmark>"
        _mail(server, found.mail, *_words(server, content, found.language), name)
    elif row["way"] == notices.WEBHOOK and found.webhook:
        notices.check_webhook(server.rules.notices, found.webhook)  # it may have been allowed once
        with database.reading(server.engine) as connection:
            key = notices.webhook_key(server, connection, row["user_id"])
        body = {**content, "url": _link(server, content), "delivery": row["id"]}
        call_webhook(server.rules.notices, found.webhook, key, body)


def _words(server: Server, content: dict[str, Any], language: str) -> tuple[str, str]:
    """The subject and the text of a mail."""
    state = say(label(f"web.state.{content['state']}"), language)
    event = f"notice.{content['event']}"
    subject = say(label(event, content["name"], content["number"], state), language)
    lines = [subject, content["why"], _link(server, content)]
    return subject, "\n\n".join(line for line in lines if line) + "\n"


def _link(server: Server, content: dict[str, Any]) -> str:
    address = server.rules.notices.address.rstrip("/")
    return f"{address}{server.settings.root_path.rstrip('/')}/jobs/{content['job']}" if address else ""


def _check(server: Server, row: RowMapping, language: str) -> None:
    """Whether a benchmark was slower than the one before of its name and site."""
    from trainmark import api
    from trainmark.api_objects import Run

    same = (job_table.c.owner_id == row["owner_id"], job_table.c.name == row["name"], job_table.c.site == row["site"])
    asked = select(job_table).where(*same, job_table.c.kind == row["kind"], job_table.c.number < row["number"])
    asked = asked.where(job_table.c.state == JobState.SUCCEEDED).order_by(job_table.c.number.desc()).limit(1)
    with database.reading(server.engine) as connection:
        before = connection.execute(asked).mappings().first()
    if before is None or not before["run"] or not row["run"]:
        return
    sides = [jobs.run_path(server, one) for one in (before, row)]
    if not all(side.is_dir() for side in sides):
        return  # the rules of retention were faster
    found = api.compare(*(Run(RunDir(side)) for side in sides), runs=server.home.runs(row["owner_id"]))
    overall = msgspec.json.decode(found.report("json"))[0].get("overall") or {}
    if overall.get("word") != "slower":
        return
    ratio = (overall.get("verdict") or {}).get("ratio")
    share = f"{(ratio - 1) * 100:+.1f} %" if isinstance(ratio, int | float) else ""
    notices.about_regression(server, row, say(label("notice.slower", share, before["number"]), language))


# Mail.


def _mail(server: Server, to: str, subject: str, text: str, name: str) -> None:
    asked = server.rules.notices.smtp
    if asked is None:
        raise SiteError("mail: server.yaml names no mail server any more")
    message = EmailMessage()
    message["From"], message["To"], message["Subject"], message["Message-ID"] = asked.sender, to, subject, name
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    context = ssl.create_default_context(cafile=asked.ca_file or None)
    if asked.security == "tls":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(asked.host, asked.port, timeout=_SECONDS, context=context)
    else:
        connection = smtplib.SMTP(asked.host, asked.port, timeout=_SECONDS)
    with connection:
        if asked.security == "starttls":
            connection.starttls(context=context)
        if asked.user:
            connection.login(asked.user, Path(asked.password_file).read_text("utf-8").strip())
        connection.send_message(message)


# Webhooks.


class _Checked(httpcore.SyncBackend):
    """Connects to the address that was looked at, whatever a name means a moment later."""

    def __init__(self, rules: NoticeRules) -> None:
        self._rules = rules

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        inner = [one for one in found if not ipaddress.ip_address(one.partition("%")[0]).is_global]
        if inner and not self._rules.private_webhooks:
            raise SiteError(f"webhook: {host} is {inner[0]}, an address of an inner network")
        return super().connect_tcp(found[0], port, timeout, local_address, socket_options)


def call_webhook(rules: NoticeRules, url: str, key: bytes, content: dict[str, Any]) -> None:
    """One request; whoever answers with another address is not followed."""
    body, now = msgspec.json.encode(content), str(int(time.time()))
    context = ssl.create_default_context(cafile=rules.webhook_ca_file or None)
    headers: dict[bytes | str, bytes | str] = {
        "content-type": "application/json",
        "user-agent": "trainmark",
        "x-trainmark-delivery": str(content["delivery"]),
        "x-trainmark-signature": f"t={now},v1={signature(key, now, body)}",
    }
    timeouts = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), _SECONDS)}
    with httpcore.ConnectionPool(ssl_context=context, network_backend=_Checked(rules)) as pool:
        try:
            # What is answered besides is not read: it may have no end.
            with pool.stream("POST", url, headers=headers, content=body, extensions=timeouts) as answer:
                status = answer.status
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise SiteError(f"webhook: {error or type(error).__name__}") from None
    if not 200 <= status < 300:
        raise SiteError(f"webhook: answered with status {status}")


def signature(key: bytes, at: str, body: bytes) -> str:
    """Of the time and the body: an old call cannot be sent again as a new one."""
    return hmac.new(key, at.encode() + b"." + body, hashlib.sha256).hexdigest()
