"""What users are told of their jobs: by a real mail server, a real receiver of webhooks, and the events of a page."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("litestar")
pytest.importorskip("aiosmtpd")

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from sqlalchemy import select, update

from tests.web.conftest import Person
from tests.web.test_browser import Seen, browser, served, set_password, submit_command  # noqa: F401
from tests.web.test_jobs import submit, until
from tests.web.test_operations import certificate
from trainmark.reasons import reason
from trainmark.spec.states import JobState
from trainmark.web.queue.keeper import Keeper
from trainmark.web.server import Server, Settings, open_server
from trainmark.web.service import couriers, database, notices
from trainmark.web.service.rules import NoticeRules, Rules, Smtp
from trainmark.web.service.tables import jobs, users
from trainmark.web.service.tables import notices as table


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("certificate"))


class Post:
    """A mail server that keeps what it gets; it asks for a password, and for encryption before that."""

    def __init__(self, signed: tuple[Path, Path]) -> None:
        self.mails: list[Any] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*signed)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            tls_context=context,
            require_starttls=True,
            authenticator=self._authenticate,
            auth_required=True,
        )

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(envelope)
        return "250 OK"

    def _authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"trainmark", b"letters")
        return AuthResult(success=good)


@pytest.fixture
def post(signed: tuple[Path, Path]) -> Iterator[Post]:
    made = Post(signed)
    made.controller.start()
    yield made
    made.controller.stop()


class Hook:
    """A receiver of webhooks that answers as it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.endless = False
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.calls.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(hook.answers.pop(0) if hook.answers else 204)
                self.send_header("location", "/elsewhere")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while hook.endless:
                        self.wfile.write(b"and on ")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.server.shutdown()
    made.server.server_close()


def allow(server: Server, **more: Any) -> None:
    server.rules = msgspec.structs.replace(server.rules, notices=NoticeRules(address="https://bench.example", **more))


def smtp(post: Post, ca: Path | str, folder: Path) -> Smtp:
    (folder / "password").write_text("letters\n")
    return Smtp(
        host="localhost",
        port=post.port,
        sender="trainmark@bench.example",
        user="trainmark",
        password_file=str(folder / "password"),
        ca_file=str(ca),
    )


def end(server: Server, job: str, state: JobState, why: str = "") -> None:
    """As the queue ends a job."""
    asked = select(jobs, users.c.name.label("owner")).join(users, users.c.id == jobs.c.owner_id)
    with database.reading(server.engine) as connection:
        row = connection.execute(asked.where(jobs.c.id == job)).mappings().one()
    Keeper(server)._end(row, state, reason("text", text=why) if why else None)


def due_now(server: Server) -> None:
    with database.writing(server.engine) as connection:
        connection.execute(update(table).values(next=0.0))


def test_mail_over_an_encrypted_connection_with_a_password(
    admin: Person, server: Server, post: Post, signed: tuple[Path, Path], tmp_path: Path
) -> None:
    allow(server, smtp=smtp(post, signed[0], tmp_path), mail_domains=["lab.example"])
    wanted = {"events": ["failed"], "mail": "anna@lab.example"}
    admin.ask("PUT", "/notices/settings", json={**wanted, "mail": "anna@elsewhere.example"}, status=400)
    admin.ask("PUT", "/notices/settings", json={**wanted, "mail": "a@lab.example\r\nBcc: b@lab.example"}, status=400)
    admin.ask("PUT", "/notices/settings", json=wanted, status=200)
    good, bad = submit(admin, command="true"), submit(admin, command="false")
    end(server, good, JobState.SUCCEEDED)
    end(server, bad, JobState.FAILED, "rank 0 ended with code 1")
    couriers.deliver(server)
    couriers.deliver(server)
    (mail,) = post.mails
    text = mail.content.decode()
    assert mail.rcpt_tos == ["anna@lab.example"] and "Message-ID: <notice-" in text
    assert "rank 0 ended with code 1" in text and f"https://bench.example/jobs/{bad}" in text
    (told,) = admin.ask("GET", "/notices", status=200).json()
    assert (told["way"], told["event"], told["problem"]) == ("mail", "failed", "") and told["told"]


def test_a_certificate_that_nobody_signed_gets_no_password(
    admin: Person, server: Server, post: Post, signed: tuple[Path, Path], tmp_path: Path
) -> None:
    allow(server, smtp=smtp(post, "", tmp_path))
    admin.ask("PUT", "/notices/settings", json={"events": ["ended"], "mail": "anna@lab.example"}, status=200)
    end(server, submit(admin, command="true"), JobState.SUCCEEDED)
    couriers.deliver(server)
    assert post.mails == []
    (told,) = admin.ask("GET", "/notices", status=200).json()
    assert "certificate" in told["problem"].lower() and told["told"] is None


def test_a_webhook_is_signed_and_tried_again(admin: Person, server: Server, hook: Hook, tmp_path: Path) -> None:
    allow(server, webhooks=[hook.origin], private_webhooks=True)
    url = f"{hook.origin}/in?room=1"
    made = admin.ask("PUT", "/notices/settings", json={"events": ["ended"], "webhook": url}, status=200).json()
    key = made["webhook_key"].encode()
    assert admin.ask("GET", "/notices/settings").json()["webhook_key"] is None
    hook.answers = [500, 302]
    job = submit(admin, command="true")
    end(server, job, JobState.SUCCEEDED)
    couriers.deliver(server)
    couriers.deliver(server)  # not at once
    assert len(hook.calls) == 1
    # What was not told is told by the next server.
    vars(server).update(engine=open_server(Settings(server.home.path)).engine)
    for _ in range(3):
        due_now(server)
        couriers.deliver(server)
    assert len(hook.calls) == 3  # answered with an error, with another address, then well; and then no more
    headers, body = hook.calls[-1]
    at, _, signed = headers["x-trainmark-signature"].removeprefix("t=").partition(",v1=")
    assert signed == couriers.signature(key, at, body) and abs(int(at) - time.time()) < 60
    assert msgspec.json.decode(body)["job"] == job
    assert len({call[0]["x-trainmark-delivery"] for call in hook.calls}) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/",
        "https://hooks.example@evil.example/",
        "https://evil.example/?https://hooks.example",
        "https://hooks.example:444/",
        "http://hooks.example/",
        "file:///etc/passwd",
        "https://hooks.example/ x",
        "https://hooks.example\\@evil.example/",
        "https://[::1",
    ],
)
def test_webhooks_go_nowhere_else(admin: Person, server: Server, url: str) -> None:
    allow(server, webhooks=["https://hooks.example"])
    assert "webhook: " in admin.ask("PUT", "/notices/settings", json={"webhook": url}, status=400).text


def test_a_name_that_leads_into_the_inner_network_is_not_called(hook: Hook) -> None:
    """Whatever the allowed name means on this day."""
    rules = NoticeRules(webhooks=[hook.origin])
    with pytest.raises(Exception, match="inner network"):
        couriers.call_webhook(rules, f"{hook.origin}/", b"key", {"delivery": 1})
    assert hook.calls == []


def test_an_answer_without_an_end_keeps_nobody_waiting(hook: Hook) -> None:
    hook.answers, hook.endless = [200], True
    rules = NoticeRules(webhooks=[hook.origin], private_webhooks=True)
    couriers.call_webhook(rules, f"{hook.origin}/", b"key", {"delivery": 1})
    assert len(hook.calls) == 1


def test_a_page_is_told_once_and_nobody_else(admin: Person, person: Callable[..., Person], server: Server) -> None:
    admin.ask("PUT", "/notices/settings", json={"events": ["ended"], "browser": True}, status=200)
    job = submit(admin, command="true")
    end(server, job, JobState.SUCCEEDED)
    other = person("bob")
    assert notices.take_for_browser(server, 2) == [] and other.ask("GET", "/notices", status=200).json() == []
    (told,) = notices.take_for_browser(server, 1)
    assert (told["event"], told["job"]) == ("ended", job)
    assert notices.take_for_browser(server, 1) == []


def test_who_stopped_a_job_is_not_told(admin: Person, server: Server) -> None:
    admin.ask("PUT", "/notices/settings", json={"events": ["ended"], "browser": True}, status=200)
    admin.ask("POST", f"/jobs/{submit(admin, command='true')}/stop", status=202)
    assert notices.take_for_browser(server, 1) == []


@pytest.mark.web
def test_a_benchmark_that_was_slower_is_told(admin: Person, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found out after its end; the verdict is that of `compare`, which has its own tests."""
    from trainmark import api

    words = iter(["equivalent", "slower"])

    class Compared:
        def report(self, _format: str) -> str:
            return msgspec.json.encode([{"overall": {"word": next(words), "verdict": {"ratio": 0.9}}}]).decode()

    monkeypatch.setattr(api, "compare", lambda *_, **__: Compared())
    admin.ask("PUT", "/notices/settings", json={"events": ["regression"], "browser": True}, status=200)
    found = []
    for number in range(3):
        job = submit(admin, suite="mnist:pytorch:cpu:1:1:1", preset="smoke", name="nightly")
        (server.home.runs(1) / f"run{number}").mkdir(parents=True)
        with database.writing(server.engine) as connection:
            connection.execute(update(jobs).where(jobs.c.id == job).values(run=f"run{number}"))
        end(server, job, JobState.SUCCEEDED)
        couriers.deliver(server)
        found.append(notices.take_for_browser(server, 1))
    assert found[:2] == [[], []]
    assert [(one["event"], one["why"]) for one in found[2]] == [("regression", "-10.0 % against job #2")]


def test_rules_that_would_send_a_password_in_the_open_are_refused() -> None:
    content = {"notices": {"smtp": {"host": "h", "sender": "s@h.example", "user": "u", "security": "none"}}}
    with pytest.raises(msgspec.ValidationError, match="password_file"):
        msgspec.convert(content, Rules)


@pytest.mark.web
def test_an_open_page_tells_that_a_job_has_ended(browser: Any, served: tuple[str, str]) -> None:  # noqa: F811
    """By the browser's own notices, once it was allowed to."""
    address, link = served
    seen = Seen(browser, address)
    seen.context.grant_permissions(["notifications"], origin=address)
    seen.page.add_init_script(
        "window.told = []; window.Notification = class extends Notification {"
        " constructor(title, more) { super(title, more); window.told.push(title); } };"
    )
    set_password(seen, link)
    page = seen.go("/account")
    page.check("[data-own=notices] [value=ended]")
    page.check("[data-own=notices] [name=browser]")
    page.click("[data-own=notices] [type=submit]")
    page.wait_for_selector(".toast")
    seen.check()
    submit_command(page, address, "short", "true")
    assert until(lambda: page.evaluate("window.told")) == ["Job short (#1) has ended: succeeded"]
