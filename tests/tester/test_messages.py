"""Messages that are forged, replayed, cut short, too large or meant for another: none is heard, nothing is written."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.tester.conftest import link_to
from trainmark.errors import UserError
from trainmark.tester import messages, subject
from trainmark.tester.client import Away
from trainmark.tester.messages import WINDOW, Gate, Refused, Request, digest_of, headers_of
from trainmark.tester.server import Tester as Serving
from trainmark.trust import keys

BODY = b'{"asked": "q"}'
LONG = b'{"asked": "%s"}' % (b"q" * 201)


def made(target: str = "/v1/tickets", body: bytes = BODY, **fields: Any) -> Request:
    known = {
        "key": keys.public("subject").hex(),
        "time": int(time.time()),
        "nonce": "0" * 32,
        "session": "1" * 32,
        "sequence": 1,
        "length": len(body),
        "digest": digest_of(body),
    }
    return Request(target=target, **{**known, **fields})


def headers(request: Request, key: str = "subject", audience: str = "tester") -> dict[str, str]:
    return headers_of(request, keys.fingerprint(keys.public(audience)), keys.load(key))


def sent(tester: Serving, target: str, given: dict[str, str], body: bytes = BODY) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(str(urlsplit(tester.url).hostname), urlsplit(tester.url).port, timeout=20)
    try:
        connection.request("POST", target, body=body, headers=given)
        answer = connection.getresponse()
        return answer.status, msgspec.json.decode(answer.read())
    finally:
        connection.close()


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["refused"]["code"]


def test_a_message_is_heard_once(serve: Callable[..., Serving]) -> None:
    """Also by a tester that was started again."""
    tester = serve()
    good = headers(made())
    assert sent(tester, "/v1/tickets", good)[0] == 200
    assert code(sent(tester, "/v1/tickets", good)) == (409, "tester-replayed")
    tester.__exit__()
    again = serve()
    assert code(sent(again, "/v1/tickets", good)) == (409, "tester-replayed")
    assert code(sent(again, "/v1/tickets", headers(made(sequence=1, nonce="2" * 32)))) == (409, "tester-replayed")
    assert sent(again, "/v1/tickets", headers(made(sequence=2)))[0] == 200
    assert len(again.tickets.rows()) == 1


def test_old_sessions_are_forgotten_while_the_tester_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none whose messages could be let in again, also where a subject's clock was set back."""
    monkeypatch.setattr(messages, "_LEAST_LINES", 10)
    now, file = 1_000_000.0, tmp_path / "messages.jsonl"
    gate = Gate(file, [keys.fingerprint(keys.public("subject"))], lambda: now)
    for number in range(50):
        gate.admit(made(session=f"{number:032x}", time=int(now)))
        now += WINDOW
    assert len(file.read_bytes().splitlines()) <= 11
    ahead = made(time=int(now) + WINDOW)
    gate.admit(ahead)
    gate.admit(made(time=int(now) - WINDOW, sequence=2))
    now += 2 * WINDOW
    for number in range(30):
        gate.admit(made(session=f"{100 + number:032x}", time=int(now)))
    again = Gate(file, [keys.fingerprint(keys.public("subject"))], lambda: now)
    for one in (gate, again):
        with pytest.raises(Refused, match="tester-replayed"):
            one.admit(ahead)


def test_old_messages_and_clocks_that_differ_are_refused(tester: Serving) -> None:
    for off in (-WINDOW - 60, WINDOW + 60):
        late = made(time=int(time.time()) + off)
        assert code(sent(tester, "/v1/tickets", headers(late))) == (401, "tester-clock")
    assert not tester.tickets.rows()


def test_forged_messages_are_refused(tester: Serving) -> None:
    stranger = made(key=keys.public("stranger").hex())
    assert code(sent(tester, "/v1/tickets", headers(stranger, "stranger"))) == (403, "tester-key-unknown")
    assert code(sent(tester, "/v1/tickets", headers(made(), "stranger"))) == (401, "tester-signature-wrong")
    assert code(sent(tester, "/v1/tickets", headers(made(), audience="stranger"))) == (401, "tester-signature-wrong")
    assert code(sent(tester, "/v1/definition", headers(made()))) == (401, "tester-signature-wrong")
    for name in ("Time", "Nonce", "Session", "Sequence", "Length", "Digest"):
        given = headers(made())
        value = given[f"X-Trainmark-{name}"]
        given[f"X-Trainmark-{name}"] = value[:-1] + ("8" if value.endswith("7") else "7")
        assert code(sent(tester, "/v1/tickets", given)) == (401, "tester-signature-wrong"), name
        del given[f"X-Trainmark-{name}"]
        assert code(sent(tester, "/v1/tickets", given)) == (400, "tester-not-a-message"), name
    assert not tester.tickets.rows()


def test_a_body_that_is_another_is_refused(tester: Serving) -> None:
    other = BODY.replace(b"q", b"r")
    assert code(sent(tester, "/v1/tickets", headers(made()), other)) == (400, "tester-body-changed")
    assert code(sent(tester, "/v1/tickets", headers(made(sequence=2)), other + b" ")) == (400, "tester-not-a-message")
    for at, wrong in enumerate((b"{}", b"[]", b"\xff", b'{"asked": 1}', b'{"asked": "a", "b": 1}', LONG), 3):
        given = headers(made(body=wrong, sequence=at))
        assert code(sent(tester, "/v1/tickets", given, wrong)) == (400, "tester-not-a-message"), wrong
    assert not tester.tickets.rows()


def test_bodies_are_bounded_and_cut_ones_leave_nothing(tester: Serving) -> None:
    link = link_to(tester)
    ticket = subject.take(link).ticket
    target = f"/v1/tickets/{ticket}/result"
    large = made(target, b"", length=2 << 20)
    assert code(sent(tester, target, {**headers(large), "Content-Length": str(2 << 20)}, b"")) == (
        413,
        "tester-too-large",
    )
    long = made("/v1/tickets", b"", length=2 << 20, sequence=2)
    assert sent(tester, "/v1/tickets", headers(long), b"")[0] == 413
    # The first half, and then the connection ends.
    half = made(target, b"x" * 1000, sequence=3)
    with socket.create_connection((urlsplit(tester.url).hostname, urlsplit(tester.url).port)) as raw:
        lines = [f"POST {target} HTTP/1.1", "Content-Length: 1000", *(f"{k}: {v}" for k, v in headers(half).items())]
        raw.sendall("\r\n".join([*lines, "", ""]).encode() + b"x" * 500)
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(100) == b""
    assert [path.name for path in (tester.tickets.folder / "tickets" / ticket).iterdir()] == ["ticket.json"]
    # What is no bundle is taken, and judged to be none.
    assert link.upload(target, _file(tester, b"no bundle"))["received"]
    deadline = time.monotonic() + 60
    while link.ask(f"/v1/tickets/{ticket}/verdict", {})["verdict"] is None:
        assert time.monotonic() < deadline
    assert link.ask(f"/v1/tickets/{ticket}/verdict", {})["verdict"]["accepted"] is False
    with pytest.raises(UserError, match="another result was received"):
        link.upload(target, _file(tester, b"another"))


def _file(tester: Serving, content: bytes) -> Path:
    path = tester.tickets.folder / "upload"
    path.write_bytes(content)
    return path


def test_tickets_of_others_are_not_there(tester: Serving) -> None:
    for target in (f"/v1/tickets/{'0' * 32}/verdict", "/v1/tickets/x/verdict", "/v1/other"):
        with pytest.raises(UserError, match=r"no such ticket|not a message"):
            link_to(tester).ask(target, {})


class _Fake(BaseHTTPRequestHandler):
    """Somebody at the tester's address who has no key of its: repeats an answer that was heard before."""

    answer: tuple[int, dict[str, str], bytes] = (200, {}, b"{}")

    def do_POST(self) -> None:
        status, given, body = self.answer
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        for name, value in {**given, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@contextlib.contextmanager
def _listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_an_answer_of_another_or_of_an_earlier_question_is_not_believed(tester: Serving) -> None:
    first = headers(made("/v1/definition", b"{}"))
    connection = http.client.HTTPConnection(str(urlsplit(tester.url).hostname), urlsplit(tester.url).port)
    connection.request("POST", "/v1/definition", body=b"{}", headers=first)
    heard = connection.getresponse()
    body = heard.read()
    connection.close()
    own = {name: value for name, value in heard.headers.items() if name.startswith("X-Trainmark")}
    assert heard.status == 200 and own
    with _listening(_Fake) as url:
        for answer in ((200, {}, b"{}"), (200, own, body)):
            _Fake.answer = answer
            with pytest.raises(Away, match="is not the tester"):
                link_to(url).ask("/v1/definition", {})


class _Proxy(BaseHTTPRequestHandler):
    """Hands messages on; names of headers come out in small letters, as of many real ones."""

    to: Serving

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        address = urlsplit(self.to.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
        connection.request("POST", self.path, body=body, headers=dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name.lower(), value)
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


def test_an_answer_may_come_through_a_proxy(tester: Serving) -> None:
    _Proxy.to = tester
    with _listening(_Proxy) as url:
        assert subject.definition(link_to(url)).test == "t1"


def test_a_tester_of_another_version_is_named_before_its_definition_is_read(
    tester: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"trainmark": "99.0", "definition": {"test": "t1", "something": "new"}}
    monkeypatch.setattr(tester, "answer", lambda request, body: told)
    with pytest.raises(UserError, match=r"the tester has trainmark 99\.0"):
        subject.definition(link_to(tester))


def test_tls_where_asked(serve: Callable[..., Serving], tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=tester"]
    argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    tester = serve(tls=(certificate, key))
    assert tester.url.startswith("https://")
    assert subject.definition(link_to(tester, ca=str(certificate))).test == "t1"
    with pytest.raises(Away, match="certificate"):
        subject.definition(link_to(tester))
    # Neither plain HTTP nor a client that says nothing keeps others from being heard.
    with socket.create_connection((urlsplit(tester.url).hostname, urlsplit(tester.url).port)):
        with pytest.raises(Away):
            link_to(tester.url.replace("https", "http")).ask("/v1/definition", {})
        assert subject.definition(link_to(tester, ca=str(certificate))).test == "t1"
    with pytest.raises(UserError, match="cannot be used with"):
        serve(tls=(key, certificate), folder=tmp_path / "other")
    with pytest.raises(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(key, certificate)


def test_two_testers_do_not_share_a_folder(tester: Serving, serve: Callable[..., Serving]) -> None:
    with pytest.raises(UserError, match="another tester works there"):
        serve(folder=tester.tickets.folder)
