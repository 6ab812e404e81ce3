"""Requests made of the API's own description, against a real server: `python -m tests.web.fuzz_api 20000`.

Ends with 1 at the first answer that is an error of the server, or that the description does not name (status, type or
content). No job is ever started: nobody looks after the queue.
"""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from trainmark.testing import synthetic
from trainmark.web.api.app import make_app
from trainmark.web.server import Server, Settings, open_server
from trainmark.web.service import accounts, credentials, database
from trainmark.web.service.tables import failures, jobs, users

PASSWORD = "a password for requests"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# The first would end the session that the requests are sent in; the second looks at the whole machine each time.
EXCLUDED = ("sign_out", "check_one_site")
NUMBER = 987_654


class Counted:
    """The application, and how often it gave which status."""

    def __init__(self, app: Any) -> None:
        self.app, self.answers = app, collections.Counter[int]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def noticed(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.answers[message["status"]] += 1
            await send(message)

        await self.app(scope, receive, noticed)


@contextmanager
def served(home: Path, **more: Any) -> Iterator[tuple[Server, Counted, str]]:
    server = open_server(Settings(home, burst=10**9, per_second=1e9, stream_seconds=0.05, **more))
    app = Counted(make_app(server))
    loop = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", access_log=False))
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    while not loop.started:
        time.sleep(0.02)
    try:
        yield server, app, f"http://127.0.0.1:{loop.servers[0].sockets[0].getsockname()[1]}"
    finally:
        loop.should_exit = True
        thread.join(10)
        server.engine.dispose()


def signed_in(server: Server, url: str) -> dict[str, str]:
    """Headers of a session of an admin whose number no request guesses: who is changed is signed out."""
    with database.writing(server.engine) as connection:
        connection.execute(failures.delete())
        if connection.execute(users.select().where(users.c.id == NUMBER)).first() is None:
            accounts.first_start(connection)
            values = {"id": NUMBER, "name": "requests", "role": "admin", "disabled": False, "created": 1.0}
            connection.execute(users.insert().values(**values))
        link = credentials.make_link(connection, NUMBER)
    answer = httpx.post(f"{url}/api/v1/session/link", json={"link": link, "password": PASSWORD})
    cookie = answer.cookies["trainmark-session"]
    return {"cookie": f"trainmark-session={cookie}", "x-csrf-token": answer.json()["csrf"]}


def furnish(server: Server, url: str, headers: dict[str, str]) -> None:
    """A job with figures and a file, so that not every request finds nothing."""
    case = "mnist:pytorch:cpu:1:1:2"
    made = httpx.post(f"{url}/api/v1/jobs", headers=headers, json={"name": "measured", "suite": case}).json()["job"]
    run = synthetic.write_run(server.home.runs(NUMBER), case, [synthetic.Shape(steps=40)] * 2, load=synthetic.Load())
    with database.writing(server.engine) as connection:
        values = {"run": run.id, "state": "SUCCEEDED", "ended": time.time()}
        connection.execute(jobs.update().where(jobs.c.id == made["id"]).values(**values))
    httpx.put(f"{url}/api/v1/uploads/a/file.txt", headers=headers, content=b"0123456789")


def attack(url: str, headers: dict[str, str], examples: int, seed: int, phases: str, folder: Path) -> int:
    """One run of schemathesis; its exit code."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"),
        *("--checks", CHECKS, "--phases", phases, "--max-examples", str(examples), "--seed", str(seed)),
        *("--request-timeout", "60", "--suppress-health-check", "all", "--warnings", "off"),
        *("--continue-on-failure", "--generation-database", "none"),
        # Else most requests come with a made-up token, and are refused before anything is looked at.
        *("--generation-with-security-parameters", "false"),
    ]
    for name in EXCLUDED:
        command += ["--exclude-operation-id", name]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(folder)}
    ).returncode


def main(wanted: int, examples: int = 40, phases: str = "examples,coverage,fuzzing,stateful") -> int:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "home") as (server, app, url):
        headers = signed_in(server, url)
        furnish(server, url, headers)
        seed = 1
        while sum(app.answers.values()) < wanted:
            code = attack(url, headers, examples, seed, phases, Path(folder))
            told = ", ".join(f"{status}: {count}" for status, count in sorted(app.answers.items()))
            sys.stdout.write(f"{sum(app.answers.values())} requests so far; answers {told}\n")
            if code or app.answers[500]:
                return 1
            seed, headers = seed + 1, signed_in(server, url)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
