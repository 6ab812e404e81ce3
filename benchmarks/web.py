"""The server under load: 200 people follow logs while others list 1,000 of 10,000 jobs; beside a bare Litestar "hello".

Also a log of a gigabyte read at its end, the server's memory, and what a job waits before its first rank starts beyond
what the same command takes by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from figures import at_most, beside, more, show, spread
from harness import OURS, Workspace, workspace
from sqlalchemy import insert, select
from web_clients import Address, follow, steadily

from trainmark.web.server import Settings, open_server
from trainmark.web.service import credentials, database, tables
from trainmark.web.service.records import SCOPES, Principal

FOLLOWERS, WRITERS, INDEX, LISTED = 200, 4, 10_000, 1_000
SECONDS, PER_SECOND = 30.0, 20.0
LOG_BYTES = 1 << 30
STARTS = 7
HOW = (
    f"one `trainmark serve` with SQLite, {INDEX:,} jobs in its index, {WRITERS} jobs that write a line five times a "
    f"second and {FOLLOWERS} followers of them for {SECONDS:g} s; beside them {PER_SECOND:g} requests a second in "
    f"turn: {LISTED:,} jobs, 50 jobs, one job, the last page. All on one machine with its clients. The peer is a route "
    "of Litestar that answers a word, under the same uvicorn, with as many requests and no followers. Lines hold the "
    "time of their writing. Starts: from the request, or from the start of `trainmark exec`, to what `date` says in "
    "the command; medians"
)
WRITER = "exec python3 -u -c 'import time\nwhile True:\n    print(time.time())\n    time.sleep(0.2)'"
HELLO = """
import sys, uvicorn
from litestar import Litestar, get

@get("/")
async def hello() -> str:
    return "hello"

uvicorn.run(Litestar([hello], openapi_config=None), port=int(sys.argv[1]), log_level="warning", http="h11")
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def serving(argv: list[str], port: int, place: Workspace, name: str) -> Iterator[int]:
    """A process that answers at the port; its id."""
    log = place.fresh() / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=place.env, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60.0
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{name} did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def prepare(home: Path) -> str:
    """A server's folder with an admin, a token, and jobs that have ended."""
    home.mkdir(0o700)
    slots = WRITERS + 1
    (home / "server.yaml").write_text(f"schema: 1\nsites: {{local: {{slots: {slots}}}}}\n")
    server = open_server(Settings(home))
    now = time.time()
    old = {
        "owner_id": 1,
        "kind": "command",
        "site": "local",
        "visibility": "private",
        "spec": '{"name":"old","command":"true"}',
        "needs": "{}",
        "priority": 100,
        "preemptible": False,
        "limit": 60.0,
        "state": "SUCCEEDED",
        "reason": "",
        "wanted": "go",
        "created": now,
        "queued": now,
        "started": now,
        "ended": now,
        "restarts": 0,
        "slots": "",
    }
    with database.writing(server.engine) as connection:
        person = {"id": 1, "name": "admin", "role": "admin", "disabled": False, "created": now}
        connection.execute(insert(tables.users).values(person))
        rows = [{**old, "id": f"{number:016x}", "name": f"old{number}"} for number in range(INDEX)]
        connection.execute(insert(tables.jobs), rows)
        admin = Principal(1, "admin", "admin", frozenset(), frozenset(SCOPES))
        token, _ = credentials.make_token(connection, admin, "load", ["read", "submit"], 1.0)
    server.engine.dispose()
    return token


def submit(address: Address, name: str, command: str) -> str:
    body = json.dumps({"name": name, "command": command}).encode()
    return str(json.loads(asyncio.run(address.ask("/api/v1/jobs", "POST", body)))["job"]["id"])


def logs(address: Address, job: str) -> str:
    """What a job has written; nothing before it has begun."""
    with contextlib.suppress(SystemExit):
        return asyncio.run(address.ask(f"/api/v1/jobs/{job}/logs?most=65536")).decode()
    return ""


def until_written(address: Address, job: str) -> str:
    deadline = time.monotonic() + 60.0
    while not (said := logs(address, job)):
        if time.monotonic() > deadline:
            raise SystemExit(f"job {job} wrote nothing")
        time.sleep(0.2)
    return said


async def load(address: Address, writers: list[str], some_job: str) -> tuple[dict[str, list[float]], list[float]]:
    """How long requests took, by kind, and how late followers saw lines."""
    until, delays = time.time() + SECONDS, list[float]()
    following = [
        asyncio.create_task(follow(address, writers[number % WRITERS], until, delays)) for number in range(FOLLOWERS)
    ]
    kinds = {
        f"{LISTED:,} jobs": f"/api/v1/jobs?limit={LISTED}",
        "50 jobs": "/api/v1/jobs",
        "one job": f"/api/v1/jobs/{some_job}",
        "the last page": "/api/v1/jobs?before=100&limit=50",
    }
    await asyncio.sleep(3.0)  # all of them follow
    rate = PER_SECOND / len(kinds)
    took = await asyncio.gather(*(steadily([partial(address.ask, path)], rate, until) for path in kinds.values()))
    await asyncio.gather(*following)
    return dict(zip(kinds, took, strict=True)), delays


def p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1]


def memory(pid: int, what: str) -> float:
    """`VmHWM` or `VmRSS` of a process, in MiB."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def large_log(address: Address, home: Path, job: str, pid: int) -> tuple[list[float], float]:
    """Seconds for the end of a log of a gigabyte, and MiB that the server grew by."""
    (file,) = (home / "runs").rglob(f"*{run_of(address, job)}*/**/rank0.out.log")
    with file.open("r+b") as out:
        out.truncate(LOG_BYTES)
        out.seek(0, os.SEEK_END)
        out.write(b"\nthe end\n")
    before, took = memory(pid, "VmRSS"), []
    for _ in range(5):
        began = time.perf_counter()
        if not logs(address, job).endswith("the end\n"):
            raise SystemExit("the end of the large log was not there")
        took.append(time.perf_counter() - began)
    return took, memory(pid, "VmRSS") - before


def run_of(address: Address, job: str) -> str:
    return str(json.loads(asyncio.run(address.ask(f"/api/v1/jobs/{job}")))["job"]["run"])


def starts_here(place: Workspace) -> list[float]:
    """Seconds from the start of `trainmark exec` to the start of its command."""
    found = []
    for _ in range(STARTS):
        folder = place.fresh()
        began = time.time()
        # It tells that the command trained nothing, which is so.
        subprocess.run(
            [str(OURS / "trainmark"), "exec", "--", "date", "+%s.%N"],
            cwd=folder,
            env=place.env,
            check=False,
            capture_output=True,
        )
        (log,) = folder.rglob("rank0.out.log")
        found.append(float(log.read_text().split()[0]) - began)
    return found


def starts_there(address: Address) -> list[float]:
    found = []
    for number in range(STARTS):
        began = time.time()
        job = submit(address, f"start{number}", "date +%s.%N")
        found.append(float(until_written(address, job).split()[0]) - began)
        while json.loads(asyncio.run(address.ask(f"/api/v1/jobs/{job}")))["job"]["state"] in ("PENDING", "RUNNING"):
            time.sleep(0.2)
    return found


def main() -> None:
    with workspace() as place:
        own = starts_here(place)
        peer_port = free_port()
        with serving([sys.executable, "-c", HELLO, str(peer_port)], peer_port, place, "hello"):
            hello = asyncio.run(steadily([partial(Address(peer_port).ask, "/")], PER_SECOND, time.time() + 15.0))
        home, port = place.fresh() / "home", free_port()
        token = prepare(home)
        argv = [str(OURS / "trainmark"), "serve", "--home", str(home), "--port", str(port)]
        with serving(argv, port, place, "serve") as pid:
            address = Address(port, token)
            submitted = starts_there(address)
            small = submit(address, "large-log", "echo begun")
            until_written(address, small)
            writers = [submit(address, f"writer{number}", WRITER) for number in range(WRITERS)]
            for job in writers:
                until_written(address, job)
            took, delays = asyncio.run(load(address, writers, small))
            tails, grown = large_log(address, home, small, pid)
            most = memory(pid, "VmHWM")
            for job in writers:
                asyncio.run(address.ask(f"/api/v1/jobs/{job}/stop", "POST"))
            wait_for_end(home)
    worst = max(took, key=lambda kind: p95(took[kind]))
    figures = [
        beside(f"{FOLLOWERS} followers, p95 of {worst}", "ms", 1e3 * p95(took[worst]), "Litestar hello",
               1e3 * p95(hello), 300.0),
        at_most("a line seen after it was written, p95", "s", p95(delays), 1.0),
        at_most("the end of a log of 1 GB", "s", max(tails), 0.5),
        at_most("the same, memory that the server grew by", "MiB", grown, 20.0),
        at_most("memory of the server, its largest", "MiB", most, 400.0),
        more("submit to first rank started", "s", median(submitted), "trainmark exec", median(own), 1.5),
    ]  # fmt: skip
    details = {
        "requests": {kind: {**spread(values), "p95": p95(values)} for kind, values in took.items()},
        "hello": {**spread(hello), "p95": p95(hello)},
        "lines": {**spread(delays), "p95": p95(delays)},
        "starts": {"server": spread(submitted), "by itself": spread(own)},
    }
    show("web", HOW, figures, details)


def wait_for_end(home: Path) -> None:
    server = open_server(Settings(home))
    deadline = time.monotonic() + 60.0
    asked = select(tables.jobs.c.id).where(tables.jobs.c.state.in_(["PENDING", "RUNNING"]))
    while time.monotonic() < deadline:
        with database.reading(server.engine) as connection:
            if not connection.execute(asked).first():
                break
        time.sleep(0.3)
    server.engine.dispose()


if __name__ == "__main__":
    main()
