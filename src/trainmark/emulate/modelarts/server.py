"""Both services on one port: paths of the API gateway begin with /v2 or /v3, and no bucket has a name that short."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from trainmark import extras
from trainmark.agent import private
from trainmark.emulate.modelarts import store_service
from trainmark.emulate.modelarts.answers import Answer, ApiError, of_json
from trainmark.emulate.modelarts.faults import Dice, Faults
from trainmark.emulate.modelarts.jobs import Jobs
from trainmark.emulate.modelarts.objects import Objects, StoreError
from trainmark.emulate.modelarts.signatures import Refused, Signed, of_gateway, of_store
from trainmark.emulate.modelarts.store_service import StoreService
from trainmark.emulate.modelarts.training_service import TrainingService
from trainmark.errors import UserError
from trainmark.store.files import decode, write_json

CREDENTIALS = "credentials.json"
_MOST_BODY = 5 << 30
_CHUNK = 1 << 20


class Keys(msgspec.Struct, frozen=True):
    """What a client signs with."""

    access_key: str
    secret_key: str


class Options(msgspec.Struct, frozen=True):
    nodes: int = 4
    upload_seconds: float = 5.0
    quota: int = 0
    faults: Faults = Faults()


class Emulator:
    """`with Emulator(folder) as emulator`: serves until it is left; then no process and no thread of it is there."""

    def __init__(self, folder: Path, port: int = 0, options: Options | None = None) -> None:
        extras.need("modelarts", "`trainmark emulate modelarts`", "huaweicloudsdkmodelarts")
        options = options or Options()
        folder = folder.absolute()
        try:
            private.keep_folder(str(folder))  # programs are run from there
        except OSError as error:
            raise UserError(f"--dir {folder}: cannot be used: {error.strerror}") from None
        self.folder, self.keys = folder, _keys(folder / CREDENTIALS)
        self.objects = Objects(folder / "objects")
        self.jobs = Jobs(
            self.objects, folder / "jobs", options.nodes, options.faults, options.upload_seconds, options.quota
        )
        self.dice = Dice(options.faults)
        self._store = StoreService(self.objects)
        self._training = TrainingService(self.jobs, self.objects)
        self._server = _Server(port, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Emulator:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.jobs.close()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Signed) -> Answer | None:
        """None: the connection breaks without one."""
        api = request.path.startswith(("/v2/", "/v3/"))
        if self.dice.faults.slow:
            time.sleep(self.dice.faults.slow)
        broken = self.dice.break_connection()
        if broken == "before":
            return None
        status = self.dice.status()
        if status is not None:
            return _failed(status, api)
        answer = self._of_api(request) if api else self._of_store(request)
        created = api and request.method == "POST" and request.path.rstrip("/").endswith("/training-jobs")
        lost = created and answer.status == 201 and self.dice.lose_create()
        return None if lost or broken else answer

    def _of_api(self, request: Signed) -> Answer:
        try:
            of_gateway(request, self._known, datetime.now(UTC))
            return self._training.answer(request)
        except Refused as error:
            return ApiError(401, "APIG.0301", f"Incorrect IAM authentication information: {error}").answer
        except ApiError as error:
            return error.answer

    def _of_store(self, request: Signed) -> Answer:
        # A client asks so, without a signature, which kind of signature it shall use.
        if request.method == "HEAD" and request.query == "apiversion":
            return Answer(200)
        try:
            of_store(request, self._known, datetime.now(UTC))
            return self._store.answer(request)
        except Refused as error:
            return store_service.of_error(StoreError(403, error.code, str(error)))
        except StoreError as error:
            return store_service.of_error(error)

    @property
    def _known(self) -> dict[str, str]:
        return {self.keys.access_key: self.keys.secret_key}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, emulator: Emulator) -> None:
        self.emulator = emulator
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "trainmark-emulator", ""
    # Headers and body leave in two writes; without this the second waits for the first to be acknowledged.
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MOST_BODY:
            self._send(of_json(413, {"error_code": "EntityTooLarge", "error_msg": "too large"}))
            return
        body = self.rfile.read(length)
        address = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.emulator.answer(Signed(self.command, address.path, address.query, headers, body))
        if answer is None:
            self.close_connection = True
            return
        self._send(answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 - names of http.server

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        length = answer.size if answer.file is not None else len(answer.body)
        if answer.status != 204:
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(length))
        identifier = uuid.uuid4().hex
        for name, value in {"X-Request-Id": identifier, "x-obs-request-id": identifier, **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("x-obs-api", "3.0")
        self.send_header("X-Emulated", "true")
        self.end_headers()
        if self.command == "HEAD":
            return
        if answer.file is None:
            self.wfile.write(answer.body)
            return
        with answer.file.open("rb") as file:
            file.seek(answer.at)
            left = length
            while left > 0 and (data := file.read(min(left, _CHUNK))):
                self.wfile.write(data)
                left -= len(data)


def _failed(status: int, api: bool) -> Answer:
    if api:
        return ApiError(status, "APIG.0308" if status == 429 else "APIG.0201", "failed on purpose").answer
    return store_service.of_error(
        StoreError(status, "SlowDown" if status == 503 else "InternalError", "failed on purpose")
    )


def _keys(path: Path) -> Keys:
    """Those of earlier times, or new ones. Only this account can read the file."""
    with contextlib.suppress(FileNotFoundError):
        return decode(path, Keys)
    made = Keys("EMU" + secrets.token_hex(8).upper(), secrets.token_urlsafe(30))
    write_json(path, made, mode=private.FILE)
    return made
