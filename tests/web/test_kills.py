"""The real server, killed with SIGKILL at random moments: jobs go on, none is lost, and none is started twice."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.web.test_jobs import ADMIN
from trainmark.run import machine
from trainmark.web.server import Settings, open_server
from trainmark.web.service import accounts, database, jobs
from trainmark.web.service.records import JobSpec

pytestmark = pytest.mark.web

KILLS, JOBS = 20, 24


def _port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_twenty_kills_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMARK_CACHE", str(tmp_path / "cache"))
    home, marks = tmp_path / "home", tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "home").mkdir(0o700)
    (home / "server.yaml").write_text("schema: 1\nsites: {local: {slots: 3}}\n")
    server = open_server(Settings(home))
    with database.writing(server.engine) as connection:
        accounts.first_start(connection)
    chance = random.Random(int.from_bytes(tmp_path.name.encode(), "big"))
    submitted: list[str] = []

    def submit() -> None:
        seconds = chance.uniform(0.1, 3.0)
        command = f"echo began >> {marks}/$DLWS_JOB_ID; sleep {seconds:.2f}; echo ended >> {marks}/$DLWS_JOB_ID"
        spec = JobSpec(
            f"job{len(submitted)}",
            command=command,
            devices=chance.choice((1, 1, 2, 3)),
            priority=chance.randint(0, 200),
        )
        submitted.append(jobs.submit(server, ADMIN, spec, "").job.id)

    def serve() -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "trainmark", "serve", "--home", str(home), "--port", str(_port())]
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=(tmp_path / "log").open("ab"))

    for kill in range(KILLS):
        process = serve()
        while len(submitted) < JOBS * (kill + 1) / KILLS:
            submit()
        time.sleep(chance.uniform(0.5, 6.0))  # before it is up, while it starts jobs, while it only follows them
        process.kill()
        process.wait()
    process = serve()
    try:
        deadline = time.monotonic() + 240
        while any(_job(server, one).state in ("PENDING", "RUNNING") for one in submitted):
            assert time.monotonic() < deadline, [_job(server, one) for one in submitted]
            time.sleep(0.5)
    finally:
        process.terminate()
        process.wait(30)
    assert [_job(server, one).state for one in submitted] == ["SUCCEEDED"] * len(submitted), (
        tmp_path / "log"
    ).read_text()[-4000:]
    assert {one: (marks / one).read_text() for one in submitted} == dict.fromkeys(submitted, "began\nended\n")
    assert machine.claims() == []


def _job(server: object, job: str) -> jobs.Job:
    return jobs.detail(server, ADMIN, job).job  # type: ignore[arg-type]
