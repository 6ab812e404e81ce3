"""A server of trainmark, used as the library is: `tm.connect(URL)` gives runs, reports and logs of jobs there.

server = tm.connect("https://bench.example.org")     # after `trainmark login URL`
job = server.start("resnet50:pytorch:cpu:1:2:3")
job.wait().state, print(job.report("text"))
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainmark.agent import private
from trainmark.errors import SiteError, UserError
from trainmark.spec.states import JobState
from trainmark.store.files import read_json, write_json

_TIMEOUT = 60.0
_LOOK_SECONDS = 1.0
TOKEN = "TRAINMARK_SERVER_TOKEN"  # noqa: S105  the name of a variable


def connect(url: str, token: str | None = None) -> Remote:
    """A server by its address. `token`: default $TRAINMARK_SERVER_TOKEN, else the one that `trainmark login` keeps."""
    return Remote(url, token or os.environ.get(TOKEN) or kept_token(url))


class RemoteError(SiteError):
    """What a server answered instead of what was asked for."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        if status in (400, 404, 409):
            self.exit_code = UserError.exit_code


class Remote:
    """One server, as one user sees it."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = address(url)
        self._token = token

    def start(
        self, suite: str | Mapping[str, Any] | None = None, *, command: str | None = None, **fields: Any
    ) -> RemoteJob:
        """Submits a benchmark (a suite, a case, or what a suite's file holds) or a command; other fields as the API
        names them, e.g. `site`, `devices`, `priority`, `time_limit`, `preset`, `set`."""
        name = fields.pop("name", None) or _name(suite, command)
        spec = {"name": name, "suite": suite, "command": command, **fields}
        asked = {key: value for key, value in spec.items() if value is not None}
        return RemoteJob(self, self.call("POST", "/jobs", asked)["job"]["id"])

    def run(self, suite: str | Mapping[str, Any] | None = None, **fields: Any) -> RemoteJob:
        """`start`, and wait for the end."""
        return self.start(suite, **fields).wait()

    def open(self, job: str = "last") -> RemoteJob:
        """A job by its id, the unique start of it, its number, or `last`: the newest of one's own."""
        return RemoteJob(self, self.call("GET", f"/jobs/{urllib.parse.quote(job, safe='')}")["job"]["id"])

    def jobs(self, **filters: Any) -> list[dict[str, Any]]:
        """The newest first."""
        found: list[dict[str, Any]] = self.call("GET", "/jobs?" + urllib.parse.urlencode(filters))["jobs"]
        return found

    def call(self, method: str, path: str, data: Any = None) -> Any:
        """One request of the API, and its answer's JSON."""
        with self.stream(method, path, data) as answer:
            body = answer.read()
        return json.loads(body) if body and "json" in answer.headers.get("content-type", "") else body.decode()

    def stream(
        self, method: str, path: str, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """The same, to be read as it comes."""
        sent = {"accept": "*/*", **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        body = None
        if data is not None:
            body, sent["content-type"] = json.dumps(data).encode(), "application/json"
        request = urllib.request.Request(f"{self.url}/api/v1{path}", body, sent, method=method)  # noqa: S310  checked
        try:
            answer: http.client.HTTPResponse = _opener().open(request, timeout=_TIMEOUT)
            return answer
        except urllib.error.HTTPError as error:
            raise RemoteError(error.code, f"{self.url}: {_detail(error)}{self._cure(error.code)}") from None
        except (OSError, http.client.HTTPException) as error:
            raise SiteError(f"{self.url}: {getattr(error, 'reason', None) or error}") from None

    def _cure(self, status: int) -> str:
        return f"; `trainmark login {self.url}`" if status == 401 else ""

    def __repr__(self) -> str:
        return f"<Remote {self.url}>"


class RemoteJob:
    """A job on a server: the same things as a run's handle gives."""

    def __init__(self, server: Remote, id: str) -> None:
        self.server, self.id = server, id

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.server.call("GET", f"/jobs/{self.id}")["job"]
        return found

    @property
    def state(self) -> JobState:
        return JobState(self.record["state"])

    def status(self) -> dict[str, Any]:
        """Its record, and each round of its run."""
        found: dict[str, Any] = self.server.call("GET", f"/jobs/{self.id}/status")
        return found

    def report(self, format: str = "text", language: str = "en") -> str:
        """As `text`, `html`, `md`, `json` or `csv`."""
        found = self.server.call("GET", f"/jobs/{self.id}/report?format={format}&language={language}")
        return found if isinstance(found, str) else json.dumps(found)

    def logs(self, rank: int | None = 0) -> str:
        """The output of a rank, or (None) of all."""
        asked = "" if rank is None else f"?rank={rank}"
        return str(self.server.call("GET", f"/jobs/{self.id}/logs{asked}"))

    def follow(self, rank: int | None = None) -> Iterator[str]:
        """Lines as they are written, to the end of the job. A connection that breaks is made again where it ended."""
        last = ""
        while True:
            asked = "" if rank is None else f"?rank={rank}"
            headers = {"last-event-id": last} if last else {}
            with self.server.stream("GET", f"/jobs/{self.id}/logs/stream{asked}", headers=headers) as answer:
                for kind, number, data in _events(answer):
                    last = number or last
                    if kind == "end":
                        return
                    if kind == "log":
                        found = json.loads(data)
                        yield from found["text"].splitlines()
            time.sleep(_LOOK_SECONDS)

    def wait(self, timeout: float | None = None) -> RemoteJob:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.state.ended:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s")
            time.sleep(_LOOK_SECONDS)
        return self

    def stop(self) -> dict[str, Any]:
        found: dict[str, Any] = self.server.call("POST", f"/jobs/{self.id}/stop")["job"]
        return found

    def __repr__(self) -> str:
        return f"<RemoteJob {self.id} at {self.server.url}>"


def _events(answer: Any) -> Iterator[tuple[str, str, str]]:
    """Server-sent events: kind, id, data."""
    kind, number = "message", ""
    data: list[str] = []
    try:
        for raw in answer:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield kind, number, "\n".join(data)
                kind, data = "message", []
            elif field == "event":
                kind = value
            elif field == "id":
                number = value
            elif field == "data":
                data.append(value)
    except (OSError, http.client.HTTPException):
        return  # the caller connects again


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is sent to the server that it was made by, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(65536))["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"status {error.code}"


def _name(suite: Any, command: str | None) -> str:
    text = suite if isinstance(suite, str) else "command" if command else "suite"
    return "".join(char if char.isalnum() or char in "._-" else "-" for char in text.partition(":")[0])[:64]


def address(url: str) -> str:
    """The address as it is kept and compared; UserError for what is none, or for a password in it."""
    found = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
    if found.scheme not in ("http", "https") or not found.hostname or found.username or found.query or found.fragment:
        raise UserError(f"--server {url}: allowed is http://HOST[:PORT][/PATH] or https://…")
    if found.scheme == "http" and found.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise UserError(f"--server {url}: a token is not sent unencrypted to another machine; use https")
    return f"{found.scheme}://{found.netloc}{found.path.rstrip('/')}"


# Tokens that `trainmark login` keeps.


def _file() -> Path:
    named = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".config") / "trainmark" / "servers.json"


def kept_token(url: str) -> str | None:
    found = read_json(_file())
    token = found.get(address(url)) if isinstance(found, dict) and private.is_ours(str(_file())) else None
    return token if isinstance(token, str) else None


def keep_token(url: str, token: str | None) -> None:
    """None forgets it. Only this account can read the file."""
    file = _file()
    private.keep_folder(str(file.parent))
    found = read_json(file)
    known = found if isinstance(found, dict) else {}
    known.pop(address(url), None)
    write_json(file, {**known, **({address(url): token} if token else {})}, mode=private.FILE)


def sign_in(url: str, name: str, password: str, *, link: str | None = None, label: str = "cli", days: int = 90) -> str:
    """A token of the user's, made in a session that ends at once. `link`: sets the password first."""
    server = Remote(url, None)
    asked = {"link": link, "password": password} if link else {"name": name, "password": password}
    with server.stream("POST", "/session/link" if link else "/session", asked) as answer:
        who = json.loads(answer.read())
        cookie = answer.headers.get("set-cookie", "").partition(";")[0]
    headers = {"cookie": cookie, "x-csrf-token": who["csrf"]}
    made = {"name": label, "scopes": [one for one in who["scopes"] if one != "metrics"], "days": days}
    with server.stream("POST", "/tokens", made, headers) as answer:
        secret: str = json.loads(answer.read())["secret"]
    with server.stream("DELETE", "/session", None, headers):
        return secret
