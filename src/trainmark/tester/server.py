"""The tester over HTTP or HTTPS, by the standard library: five kinds of messages, each signed, none without a limit."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from trainmark import __version__
from trainmark.errors import SiteError, UserError
from trainmark.reasons import Reason, reason
from trainmark.store.files import BROKEN
from trainmark.tester import PORT, judging
from trainmark.tester.deadline import TimedReader
from trainmark.tester.definition import Definition
from trainmark.tester.messages import (
    MOST_TEXT,
    Answer,
    Gate,
    Refused,
    Request,
    answer_headers,
    digest_of,
    request_of,
)
from trainmark.tester.tickets import MESSAGES, Heartbeat, Row, Tickets
from trainmark.trust import keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# A connection is one of few: for its headers, and for its body at the least rate (bytes per second), there is a time.
_SILENT_SECONDS = 60.0
_HEADER_SECONDS, _BODY_SECONDS, _LEAST_RATE = 20.0, 60.0, 64 << 10
_MOST_CONNECTIONS = 64
_CHUNK = 1 << 20
# How often a result is judged that makes judging fail: at once, and whenever the tester is started again.
_MOST_TRIES = 3
_OF_TICKET = re.compile(r"/v1/tickets/([0-9a-f]{32})/(heartbeat|result|verdict)")


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question for a ticket; the same one may be asked again when its answer was lost."""

    asked: Annotated[str, Meta(max_length=200)]


class Told(msgspec.Struct, frozen=True):
    """The definition, and the version that results are recomputed with."""

    definition: Definition
    trainmark: str


# Tells the operator what happens.
Tell = Callable[[Reason], object]


class Tester:
    """`with Tester(…) as tester`: serves one test until it is left."""

    def __init__(
        self,
        definition: Definition,
        folder: Path,
        key: Ed25519PrivateKey,
        subjects: dict[str, str],
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        tls: tuple[Path, Path] | None = None,
        tell: Tell = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`subjects`: fingerprint → name of everybody who may take the test. `tls`: certificate and its key."""
        self.definition, self.subjects, self._key, self._tell = definition, subjects, key, tell
        self.tickets = Tickets(folder, clock)
        self._alone = _only_one(folder)
        self._gate = Gate(folder / MESSAGES, subjects, clock)
        self.public = keys.raw(key.public_key())
        self._fingerprint = keys.fingerprint(self.public)
        self._server = _Server(host, port, self, None if tls is None else _context(*tls))
        self._to_judge: queue.Queue[str | None] = queue.Queue()
        self._threads = [threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)]
        self._threads.append(threading.Thread(target=self._judge_all, daemon=True))

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http{'s' if self._server.tls else ''}://{name}:{port}"

    def __enter__(self) -> Tester:
        self.tickets.clear()
        for row in self.tickets.rows():
            if row.received and row.verdict is None:  # this tester was ended before it had judged it
                self._to_judge.put(row.issued.ticket.ticket)
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._to_judge.put(None)
        self._threads[1].join()
        self._alone.close()

    def read(self, target: str, headers: Any) -> Request:
        """A request that may be heard; Refused otherwise. Its body has not been read yet."""
        request = request_of(target, headers, self._fingerprint)
        most = self.definition.limits.bundle_mb << 20 if target.endswith("/result") else MOST_TEXT
        if request.length > most:
            raise Refused(413, reason("tester-too-large", bytes=request.length, most=most))
        self._gate.admit(request)
        return request

    def answer(self, request: Request, body: bytes) -> Any:
        """To a message of a known subject, whose body is the one that was signed."""
        if request.target == "/v1/definition":
            return Told(self.definition, __version__)
        limits, test = self.definition.limits, self.definition.test
        if request.target == "/v1/tickets":
            asked = _decoded(body, Asked).asked
            made = self.tickets.take(request.sender, asked, test, limits)
            self.tell(reason("tester-taken", subject=self._name(request), ticket=made.ticket[:8]))
            return made
        row, what = self.ticket(request)
        if what == "heartbeat":
            self.tickets.beat(row, _decoded(body, Heartbeat))
        return {"received": row.received, "verdict": row.verdict}

    def ticket(self, request: Request) -> tuple[Row, str]:
        found = _OF_TICKET.fullmatch(request.target)
        if found is None:
            raise Refused(404, reason("tester-not-a-message", what="path"))
        return self.tickets.of(request.sender, found[1]), found[2]

    def keep(self, request: Request, row: Row, part: Path) -> Any:
        self.tickets.keep(row, part)
        ticket = row.issued.ticket.ticket
        if row.verdict is None:
            self.tell(reason("tester-received", subject=self._name(request), ticket=ticket[:8], bytes=request.length))
            self._to_judge.put(ticket)
        return {"received": True, "verdict": row.verdict}

    def headers(self, nonce: str, to: str, status: int, body: bytes) -> dict[str, str]:
        """The signature of an answer."""
        answer = Answer(status, self.public.hex(), to, nonce, len(body), digest_of(body))
        return answer_headers(answer, self._key)

    def _name(self, request: Request) -> str:
        return self.subjects[request.sender]

    def _judge_all(self) -> None:
        """One result after the other, in a thread of their own: it may take minutes."""
        while (ticket := self._to_judge.get()) is not None:
            try:
                self._judge(ticket)
            except Exception as error:  # the other results are to be judged all the same
                self.tell(reason("tester-judging-failed", ticket=ticket[:8], why=_short(error)))

    def _judge(self, ticket: str) -> None:
        row = self.tickets.row(ticket)
        if row is None or row.verdict is not None:
            return
        if not self.tickets.begin_judging(ticket, _MOST_TRIES):
            file = str(self.tickets.tries(ticket))
            self.tell(reason("tester-not-judged", ticket=ticket[:8], count=_MOST_TRIES, file=file))
            return
        result = self.tickets.result(ticket)
        found = judging.judge(result, self.definition, row.issued, result.stat().st_mtime)
        self.tickets.conclude(found)
        faults = [one.reason for one in found.findings if one.severity == "fault"]
        code = "tester-accepted" if found.accepted else "tester-rejected"
        self.tell(reason(code, ticket=ticket[:8], **({} if found.accepted else {"why": faults[:3]})))

    def tell(self, why: Reason) -> None:
        """The operator, who may have closed the terminal: the test goes on without."""
        with contextlib.suppress(OSError, ValueError):
            self._tell(why)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _only_one(folder: Path) -> IO[bytes]:
    """Held while a tester works in the folder: two would not know what the other has heard."""
    held = (folder / "lock").open("ab")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        raise UserError(f"--dir {folder}: another tester works there; name another folder") from None
    return held


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except BROKEN:
        raise Refused(400, reason("tester-not-a-message", what="body")) from None


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"--tls-cert {certificate}: cannot be used with {key}: {error}") from None
    return made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, tester: Tester, tls: ssl.SSLContext | None) -> None:
        self.tester, self.tls = tester, tls
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise SiteError(f"--host {host} --port {port}: cannot listen there: {error.strerror or error}") from None

    def get_request(self) -> tuple[Any, Any]:
        """The handshake is done by the thread of the connection: nobody waits for a client that says nothing."""
        connection, address = super().get_request()
        connection.settimeout(_SILENT_SECONDS)
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)  # whoever it is tries again
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or speaks something else, is no news."""


class _GoneError(Exception):
    """The other side left, sent less than it said, or took too long."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "trainmark-tester", ""
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._timed = TimedReader(self.connection, _HEADER_SECONDS, _SILENT_SECONDS)
        self.rfile = io.BufferedReader(self._timed)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def do_POST(self) -> None:
        # One message on each connection: what is left of a body that was not read cannot be taken for the next.
        self.close_connection = True
        try:
            request = self.server.tester.read(self.path, self.headers)
            status, value = 200, self._answered(request)
        except Refused as refused:
            status, value = refused.status, {"refused": refused.why}
        except _GoneError:
            return
        except Exception as error:  # a full disk, a damaged file: the tester's own, and no fault of who asks
            self.server.tester.tell(reason("tester-trouble", why=_short(error)))
            status, value = 503, {"refused": reason("tester-unable")}
        self._send(status, msgspec.json.encode(value))

    def _answered(self, request: Request) -> Any:
        tester = self.server.tester
        if not request.target.endswith("/result"):
            body = b"".join(self._pieces(request))
            return tester.answer(request, body)
        row, _ = tester.ticket(request)
        part = tester.tickets.new_part(row.issued.ticket.ticket)
        try:
            with part.open("xb") as out:
                for piece in self._pieces(request):
                    out.write(piece)
            return tester.keep(request, row, part)
        finally:
            part.unlink(missing_ok=True)

    def _pieces(self, request: Request) -> Any:
        """The body; Refused when it is not the one that was signed."""
        if self.headers.get("Content-Length") != str(request.length) or self.headers.get("Transfer-Encoding"):
            raise Refused(400, reason("tester-not-a-message", what="length"))
        digest, left = hashlib.sha256(), request.length
        self._timed.within(_BODY_SECONDS + request.length / _LEAST_RATE)
        while left:
            try:
                piece = self.rfile.read(min(left, _CHUNK))
            except OSError:
                raise _GoneError from None
            if not piece:
                raise _GoneError
            digest.update(piece)
            left -= len(piece)
            yield piece
        if digest.hexdigest() != request.digest:
            raise Refused(400, reason("tester-body-changed"))

    def _send(self, status: int, body: bytes) -> None:
        nonce, to = self.headers.get("X-Trainmark-Nonce", ""), self.headers.get("X-Trainmark-Key", "")
        with contextlib.suppress(OSError):
            self.connection.settimeout(_SILENT_SECONDS)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            if re.fullmatch("[0-9a-f]{32}", nonce) and re.fullmatch("[0-9a-f]{64}", to):
                for name, value in self.server.tester.headers(nonce, to, status, body).items():
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
