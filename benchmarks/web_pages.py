"""How soon pages of the server are there, in Chromium, with 10,000 jobs and 200 open pages beside; and how much script
there is."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from figures import at_most, show, spread
from harness import OURS, Workspace, workspace
from sqlalchemy import insert, select

from trainmark.testing import synthetic
from trainmark.web.pages import assets
from trainmark.web.server import Settings, open_server
from trainmark.web.service import accounts, credentials, database, jobs
from trainmark.web.service.records import JobSpec
from trainmark.web.service.tables import jobs as table

JOBS, RUNS, BESIDE, REPEATS = 10_000, 200, 200, 3
CASE = "mnist:pytorch:cpu:1:2:3"
# As the pages' own script does.
EVERY_SECONDS = 5.0
HOW = (
    f"a server with {JOBS:,} jobs that ended, {RUNS} of them with a run that has figures; beside it {BESIDE} readers, "
    "each following the server's events and asking for its part of the first page or of the list of jobs every 5 s, as "
    f"open pages do; first contentful paint of every page in Chromium, median of {REPEATS} after the first; the "
    "slowest page counts. Script: all that there is, as it is sent"
)
PASSWORD = "correct horse battery"


def fill(home: Path) -> tuple[str, list[str]]:
    """The server's folder with its jobs; the session of its admin, and the jobs that have runs, newest first."""
    server = open_server(Settings(home))
    with database.writing(server.engine) as connection:
        link = accounts.first_start(connection)
        assert link is not None
        user = credentials.use_link(connection, link, PASSWORD, "")
        made, _ = credentials.begin_session(connection, user)
    with database.reading(server.engine) as connection:
        asker, _ = credentials.of_session(connection, made)
    assert asker is not None
    first = jobs.submit(server, asker, JobSpec(name="nightly", suite=CASE, preset="smoke"), "").job
    shapes = [synthetic.Shape(seconds=0.1, steps=60, noise=0.01)] * 3
    model = synthetic.write_run(server.home.runs(asker.id), CASE, shapes, load=synthetic.Load())
    with database.writing(server.engine) as connection:
        row = dict(connection.execute(select(table).where(table.c.id == first.id)).mappings().one())
        del row["number"]
        now, rows, known = time.time(), [], []
        for number in range(JOBS):
            job, run = secrets.token_hex(8), None
            (server.home.job(job) / "work").mkdir(parents=True)
            at = now - 60.0 * (JOBS - number)
            if number >= JOBS - RUNS:
                run = f"{model.id}-{number}"
                shutil.copytree(model.path, model.path.with_name(run))
                manifest = model.path.with_name(run) / "manifest.json"
                manifest.write_text(manifest.read_text().replace(f'"{model.id}"', f'"{run}"'))
                known.append(job)
            state = "SUCCEEDED" if run or number % 3 else "FAILED"
            ended = {"state": state, "created": at, "queued": at, "started": at + 5, "ended": at + 50, "reason": ""}
            rows.append({**row, **ended, "id": job, "name": f"nightly-{number % 40}", "run": run, "wanted": "go"})
        connection.execute(insert(table), rows)
        connection.execute(table.delete().where(table.c.id == first.id))
    server.engine.dispose()
    return made, known[::-1]


@contextmanager
def served(place: Workspace, home: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    argv = [str(OURS / "trainmark"), "serve", "--home", str(home), "--port", str(port)]
    with (home / "said").open("wb") as said:
        process = subprocess.Popen(argv, env=place.env, stdout=said, stderr=said)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                urlopen(f"{address}/health", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit((home / "said").read_text()) from None
                time.sleep(0.1)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


class Readers:
    """Open pages, as far as the server sees them."""

    def __init__(self, address: str, cookie: str) -> None:
        self._host, self._port = "127.0.0.1", int(address.rpartition(":")[2])
        self._cookie, self._ending = cookie, threading.Event()
        self.asked = self.failed = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)

    def __enter__(self) -> Readers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)

    async def _all(self) -> None:
        pages = [asyncio.create_task(self._page(number)) for number in range(BESIDE)]
        while not self._ending.is_set():
            await asyncio.sleep(0.2)
        for one in pages:
            one.cancel()
        await asyncio.gather(*pages, return_exceptions=True)

    async def _page(self, number: int) -> None:
        await asyncio.sleep(EVERY_SECONDS * number / BESIDE)
        events, _ = await self._send("/api/v1/events", "text/event-stream")
        following = asyncio.create_task(events.read())
        part = "/parts/home" if number % 2 else "/parts/jobs"
        try:
            while True:
                asked = time.monotonic()
                reader, writer = await self._send(part, "text/plain", close=True)
                answer = await reader.read()
                writer.close()
                self.asked += 1
                self.failed += not answer.startswith(b"HTTP/1.1 200")
                await asyncio.sleep(max(0.0, EVERY_SECONDS - (time.monotonic() - asked)))
        finally:
            following.cancel()

    async def _send(self, path: str, accept: str, close: bool = False) -> tuple[Any, Any]:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=1 << 24)
        more = "connection: close\r\n" if close else ""
        lines = f"GET {path} HTTP/1.1\r\nhost: {self._host}\r\naccept: {accept}\r\ncookie: {self._cookie}\r\n{more}\r\n"
        writer.write(lines.encode())
        await writer.drain()
        return reader, writer


def pages(known: list[str]) -> list[str]:
    job = known[0]
    tabs = ("", "/console", "/metrics", "/files", "/plan", "/events")
    lists = ("/", "/jobs", "/results", "/leaderboard", "/history", f"/history?case={CASE}", "/submit", "/cluster")
    others = (f"/cluster/{os.uname().nodename}", "/people", "/account", f"/results/{job}")
    return [*lists, *others, f"/compare?run={known[1]}&run={job}", *(f"/jobs/{job}{tab}" for tab in tabs)]


_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def painted(page: Any, address: str) -> float:
    """Seconds from the click to the first text that a reader sees."""
    page.goto(address, wait_until="commit")
    page.wait_for_function(f"() => ({_PAINT})() !== null", timeout=60_000)
    return float(page.evaluate(_PAINT)) / 1000


def measure(address: str, cookie: str, known: list[str]) -> dict[str, list[float]]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    name, value = cookie.split("=", 1)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_cookies([{"name": name, "value": value, "url": address}])
        page = context.new_page()
        found = {path: [painted(page, address + path) for _ in range(REPEATS + 1)] for path in pages(known)}
        browser.close()
    return found


def main() -> None:
    with workspace() as place:
        home = place.fresh() / "home"
        home.mkdir(0o700)
        made, known = fill(home)
        cookie = f"trainmark-session={made}"
        with served(place, home) as address, Readers(address, cookie) as readers:
            until = time.monotonic() + 300
            while _unread(address, cookie) and time.monotonic() < until:
                time.sleep(0.2)
            time.sleep(EVERY_SECONDS)
            found = measure(address, cookie, known)
            beside = {"answers to readers beside": readers.asked, "of these not 200": readers.failed}
    script = sum(len(one.content) for name, one in assets.all_of_them().items() if name.endswith(".js"))
    slowest = max(found, key=lambda path: median(found[path][1:]))
    figures = [
        at_most("first paint of the slowest page, 10,000 jobs, 200 open pages", "s", median(found[slowest][1:]), 1.0),
        at_most("script of all pages", "kB", script / 1000, 300.0),
    ]
    short = {_short(path): {"first": times[0], **spread(times[1:])} for path, times in found.items()}
    show("web_pages", HOW, figures, {"slowest": _short(slowest), "pages": short, **beside})


def _unread(address: str, cookie: str) -> int:
    """Runs whose figures the server has not read yet."""
    asked = Request(f"{address}/api/v1/leaderboard", headers={"cookie": cookie})
    with urlopen(asked, timeout=60) as answer:
        return int(json.load(answer)["unread"])


def _short(path: str) -> str:
    return re.sub(r"[0-9a-f]{16}", "JOB", path)


if __name__ == "__main__":
    sys.exit(main())
