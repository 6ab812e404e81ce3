"""The server on PostgreSQL: Debian's own, started for these tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, text
from sqlalchemy.exc import DatabaseError

from tests.web.conftest import PASSWORD, Person
from trainmark.web import backup
from trainmark.web.api.app import make_app
from trainmark.web.home import Home
from trainmark.web.server import Server, Settings, open_server
from trainmark.web.service import accounts, database, jobs
from trainmark.web.service.records import JobSpec, Principal
from trainmark.web.service.rules import Rules, SiteRules
from trainmark.web.service.tables import audit, metadata

pytestmark = pytest.mark.web
ADMIN = Principal(1, "admin", "admin", frozenset(), frozenset({"read", "submit", "admin"}))


def _program(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its own account, because PostgreSQL does not run as root; a socket, and no port."""
    initdb, postgres = _program("initdb"), _program("postgres")
    if initdb is None or postgres is None or (os.getuid() == 0 and shutil.which("runuser") is None):
        pytest.skip("needs PostgreSQL")
    top = Path("/tmp") / f"trainmark-pg-{os.getpid()}"  # a socket's path is short, and its account enters it
    top.mkdir(0o755)
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if user:
        shutil.chown(top, "postgres")
    command = [*user, initdb, "-D", str(top / "data"), "-U", "trainmark", "-A", "trust", "--no-sync"]
    subprocess.run(command, check=True, capture_output=True)
    options = ["-k", str(top), "-c", "listen_addresses=", "-c", "fsync=off"]
    server = subprocess.Popen([*user, postgres, "-D", str(top / "data"), *options], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        if "ready to accept connections" in line:
            break
    threading.Thread(target=server.stderr.read, daemon=True).start()
    yield f"postgresql://trainmark@/postgres?host={top}"
    server.terminate()
    server.wait(30)
    shutil.rmtree(top)


@pytest.fixture
def server(app: object, address: str, tmp_path: Path, server: Server) -> Iterator[Server]:
    """The same as elsewhere, with its rows there, and none at the beginning."""
    engine = database.connect(address)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    made = open_server(Settings(tmp_path / "home2", address))
    vars(server).update(vars(made))
    yield server


def test_people_jobs_and_links(admin: Person, person: Callable[..., Person], server: Server) -> None:
    server.rules = Rules(sites={"local": SiteRules(submit="users")})
    bob, eve = person("bob"), person("eve")
    admin.ask("POST", "/users", json={"name": "bob"}, status=409)
    job = bob.ask("POST", "/jobs", json={"name": "nap", "command": "true"}, status=201).json()["job"]
    eve.ask("GET", f"/jobs/{job['id']}", status=404)
    admin.ask("PUT", "/groups/team", json={"members": ["bob", "eve"]}, status=200)
    bob.ask("PATCH", f"/jobs/{job['id']}", json={"visibility": "group", "priority": 150}, status=200)
    eve.ask("GET", f"/jobs/{job['number']}", status=200)
    for asked, count in (
        ("text=na", 1),
        ("text=n_p", 0),
        ("text=n%25p", 0),
        ("text=' OR 1=1 --", 0),
        ("owner=bob&active=true", 1),
    ):
        assert len(bob.ask("GET", f"/jobs?{asked}", status=200).json()["jobs"]) == count, asked
    assert bob.ask("GET", "/runs", status=200).json() == {"runs": [], "next": None}
    token = bob.token("read")
    assert bob.client.get("/api/v1/jobs", headers={"authorization": f"Bearer {token}"}).status_code == 200
    bob.ask("PUT", "/templates/mine", json={"spec": {"name": "t", "command": "true"}, "shared": True}, status=200)
    assert any(one["name"] == "mine" for one in eve.ask("GET", "/templates", status=200).json())
    bob.ask("PUT", "/secrets/hub", json={"value": "x"}, status=200)
    admin.ask("POST", f"/jobs/{job['id']}/stop", status=202)
    assert bob.sign_in("a wrong password").status_code == 401
    assert bob.sign_in(PASSWORD).status_code == 200
    assert admin.ask("GET", "/audit", status=200).json()[0]["action"] == "session.begin"


def test_the_audit_log_only_grows(admin: Person, server: Server) -> None:
    with pytest.raises(DatabaseError, match="append-only"), database.writing(server.engine) as connection:
        connection.execute(delete(audit))


def test_many_write_at_once(admin: Person, server: Server) -> None:
    def submit() -> None:
        for _ in range(5):
            jobs.submit(server, ADMIN, JobSpec("n", command="true"), "")

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with database.reading(server.engine) as connection:
        assert len(jobs.listed(connection, ADMIN, limit=100)) == 20


def test_the_schema_is_the_one_of_the_tables(address: str, server: Server) -> None:
    """What the migrations made has all tables and columns that the code names."""
    from sqlalchemy import inspect

    found = inspect(server.engine)
    for table in metadata.sorted_tables:
        assert {one["name"] for one in found.get_columns(table.name)} == {one.name for one in table.columns}


def test_a_second_start_finds_everything(admin: Person, server: Server, address: str, tmp_path: Path) -> None:
    again = open_server(Settings(tmp_path / "home2", address))
    with database.writing(again.engine) as connection:
        assert accounts.first_start(connection) is None
    assert make_app(again)
    again.engine.dispose()


def test_a_database_without_an_encoding(address: str, tmp_path: Path) -> None:
    """As `initdb` makes it where no locale is set."""
    with database.connect(address).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(
            text("CREATE DATABASE plain ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        )
    made = open_server(Settings(tmp_path / "home", address.replace("/postgres?", "/plain?")))
    with database.writing(made.engine) as connection:
        assert accounts.first_start(connection) is not None
    job = jobs.submit(made, ADMIN, JobSpec("n", command="echo 训练"), "").job.id
    assert jobs.detail(made, ADMIN, job).spec.command == "echo 训练"
    made.engine.dispose()


def test_saved_and_restored(admin: Person, server: Server, address: str, tmp_path: Path) -> None:
    """By PostgreSQL's own programs: what was there at one moment is there again, in an empty database."""
    job = admin.ask("POST", "/jobs", json={"name": "kept", "command": "true"}, status=201).json()["job"]["id"]
    archive = tmp_path / "server.tar.gz"
    backup.backup(server.home, address, archive)
    with server.engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    server.engine.dispose()
    backup.restore(archive, Home(tmp_path / "again"), address)
    found = open_server(Settings(tmp_path / "again", address))
    assert jobs.detail(found, ADMIN, job).spec.command == "true"
    assert found.key == server.key
    with pytest.raises(DatabaseError), database.writing(found.engine) as connection:
        connection.execute(delete(audit))  # its triggers are there, too
    found.engine.dispose()
