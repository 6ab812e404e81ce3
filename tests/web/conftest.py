"""A server in this process, and people who use it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("litestar")

from argon2 import PasswordHasher
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import update

from trainmark.store.rundir import RunDir
from trainmark.testing import synthetic
from trainmark.web.api.app import make_app
from trainmark.web.queue.keeper import Keeper
from trainmark.web.server import Server, Settings, open_server
from trainmark.web.service import accounts, credentials, database
from trainmark.web.service.tables import jobs as table

# What the server imports late is imported here: pytest reads modules in a way that two threads cannot do at once.
for _room in (
    "spec",
    "plan",
    "frameworks",
    "store",
    "run",
    "launch.local",
    "launch.slurm",
    "launch.ssh",
    "web.service",
):
    _package = importlib.import_module(f"trainmark.{_room}")
    for _found in pkgutil.iter_modules(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_found.name)

PASSWORD = "correct horse battery"
# What `measured` runs.
CASE = "mnist:pytorch:cpu:1:1:3"


class Person:
    """A browser: it keeps the cookie, and repeats the token against forged requests."""

    def __init__(self, server: Server, client: TestClient[Any], name: str) -> None:
        self.server, self.client, self.name, self.csrf = server, client, name, ""

    def sign_in(self, password: str = PASSWORD) -> Any:
        answer = self.client.post("/api/v1/session", json={"name": self.name, "password": password})
        if answer.status_code == 200:
            self.csrf = answer.json()["csrf"]
        return answer

    def use_link(self, link: str, password: str = PASSWORD) -> Any:
        answer = self.client.post("/api/v1/session/link", json={"link": link, "password": password})
        if answer.status_code == 200:
            self.csrf = answer.json()["csrf"]
        return answer

    def ask(self, method: str, path: str, *, status: int | None = None, **more: Any) -> Any:
        headers = {"x-csrf-token": self.csrf, **more.pop("headers", {})}
        answer = self.client.request(method, f"/api/v1{path}", headers=headers, **more)
        if status is not None:
            assert answer.status_code == status, (answer.status_code, answer.text)
        return answer

    def token(self, *scopes: str, days: float = 1.0) -> str:
        made = self.ask("POST", "/tokens", json={"name": "t", "scopes": list(scopes), "days": days}, status=201)
        return str(made.json()["secret"])


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> tuple[Server, Litestar]:
    """Made once, because that takes a second; each test has a folder and a database of its own in it."""
    made = open_server(Settings(tmp_path_factory.mktemp("first") / "home", burst=100_000, per_second=100_000))
    return made, make_app(made)


@pytest.fixture
def server(app: tuple[Server, Litestar], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Nobody looks after its queue."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(credentials, "_hasher", cheap)
    monkeypatch.setattr(credentials, "_NOBODY", cheap.hash("nobody's"))
    made = app[0]
    vars(made).update(vars(open_server(Settings(tmp_path / "home"))))
    yield made
    made.engine.dispose()


@pytest.fixture
def visit(server: Server, app: tuple[Server, Litestar]) -> Callable[[str], Person]:
    """`visit("bob")`: somebody with a browser of their own."""
    return lambda name: Person(server, TestClient(app[1]), name)


@pytest.fixture
def admin(server: Server, visit: Callable[[str], Person]) -> Person:
    made = visit("admin")
    with database.writing(server.engine) as connection:
        link = accounts.first_start(connection)
    assert link is not None
    assert made.use_link(link).status_code == 200
    return made


@pytest.fixture
def person(admin: Person, visit: Callable[[str], Person]) -> Callable[..., Person]:
    """`person("bob")`: a user who is signed in."""

    def make(name: str, role: str = "user") -> Person:
        link = admin.ask("POST", "/users", json={"name": name, "role": role}, status=201).json()["link"]
        made = visit(name)
        assert made.use_link(link).status_code == 200
        return made

    return make


@pytest.fixture
def kept(server: Server) -> Iterator[Server]:
    """The same server, with somebody who looks after its queue."""
    server.keeper = Keeper(server)
    server.keeper.start()
    yield server
    server.keeper.close()


@pytest.fixture
def measured(server: Server) -> Callable[..., tuple[str, RunDir]]:
    """`measured(admin, "name", seconds)`: a job that ended, with a run that has figures; its id and its run."""

    def make(who: Person, name: str, seconds: float = 0.1) -> tuple[str, RunDir]:
        job = who.ask("POST", "/jobs", json={"name": name, "suite": CASE}, status=201).json()["job"]
        user = 1 if who.name == "admin" else 2
        shapes = [synthetic.Shape(seconds=seconds, steps=60, noise=0.01)] * 3
        run = synthetic.write_run(server.home.runs(user), CASE, shapes, load=synthetic.Load())
        with database.writing(server.engine) as connection:
            values = {"run": run.id, "state": "SUCCEEDED", "started": 1.0, "ended": 2.0, "reason": ""}
            connection.execute(update(table).where(table.c.id == job["id"]).values(**values))
        return job["id"], run

    return make
