"""The server as an operator meets it: started by the command line, with https, behind a proxy, saved and restored."""

from __future__ import annotations

import datetime
import json
import logging
import os
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sqlalchemy import update

from tests.web.conftest import PASSWORD, Person
from tests.web.test_user_secrets import opened
from trainmark.cli.main import main, parser
from trainmark.errors import UserError
from trainmark.web import backup, server_log
from trainmark.web.home import Home
from trainmark.web.server import Server, Settings, open_server
from trainmark.web.service import database, retention
from trainmark.web.service.retention import Kept
from trainmark.web.service.rules import Retention, Rules, load_rules
from trainmark.web.service.tables import jobs as table


@contextmanager
def started(home: Path, *more: str) -> Iterator[tuple[str, str | None]]:
    """A server in a process of its own: its address, and the link of a first start."""
    command = [sys.executable, "-m", "trainmark", "serve", "--home", str(home), "--port", "0", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[2].rstrip(",")
        line = process.stdout.readline() if not (home / "seen").exists() else ""
        link = process.stdout.readline().strip().rpartition("#")[2] if "first start" in line else None
        (home / "seen").touch()
        yield address, link
    finally:
        process.terminate()
        process.wait(30)


def certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, file = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, file


@pytest.mark.web
def test_https_and_the_first_link(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(cert))
    with started(tmp_path / "home", "--tls-cert", str(cert), "--tls-key", str(key)) as (address, link):
        url = address.replace("127.0.0.1", "localhost")
        with httpx.Client(verify=trust, base_url=url) as client:
            assert client.get("/health").json()["status"] == "ok"
            answer = client.post("/api/v1/session/link", json={"link": link, "password": PASSWORD})
            assert answer.status_code == 200 and answer.headers["set-cookie"].startswith("__Host-")
            assert "max-age" in answer.headers["strict-transport-security"]
            assert client.get("/ready").status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https", "http") + "/health")


@pytest.mark.web
@pytest.mark.parametrize(("named", "believed"), [("127.0.0.1", True), ("10.9.9.9", False)])
def test_a_proxy_is_believed_if_it_was_named(tmp_path: Path, named: str, believed: bool) -> None:
    """What a proxy that cuts the path off sends: `X-Forwarded-For` is one client's word about another."""
    with started(tmp_path / "home", "--proxy", named, "--root-path", "/bench") as (address, link):
        headers = {"x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https", "host": "bench.example"}
        with httpx.Client(base_url=address, headers=headers) as client:
            body = {"link": link, "password": PASSWORD}
            evil = client.post("/api/v1/session/link", json=body, headers={"origin": "https://evil.example"})
            assert evil.status_code == 403
            answer = client.post("/api/v1/session/link", json=body, headers={"origin": "https://bench.example"})
            assert answer.status_code == 200
            cookie = answer.headers["set-cookie"].partition(";")[0]
            seen = client.get("/api/v1/audit", headers={"cookie": cookie}).json()
    used = next(one for one in seen if one["action"] == "link.use")
    assert used["address"] == ("203.0.113.7" if believed else "127.0.0.1")


@pytest.mark.web
def test_slow_and_endless_requests_are_ended(tmp_path: Path) -> None:
    """In this process, with a short time: a body that does not come, and one that comes without an end."""
    from tests.web.fuzz_api import served

    with served(tmp_path / "home", body_seconds=1.0) as (_, _, url):
        place = url.removeprefix("http://").split(":")
        with socket.create_connection((place[0], int(place[1])), timeout=20) as slow:
            slow.sendall(
                b"POST /api/v1/session HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                b"content-length: 100\r\n\r\n{"
            )
            assert b" 408 " in slow.recv(1000).partition(b"\r\n")[0]
        with socket.create_connection((place[0], int(place[1])), timeout=20) as endless:
            endless.sendall(
                b"POST /api/v1/session HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                b"transfer-encoding: chunked\r\n\r\n"
            )
            piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            told = b""
            try:
                for _ in range(64):
                    endless.sendall(piece)
                told = endless.recv(1000)
            except OSError:
                pass  # it was cut off while we sent
            assert b" 413 " in told.partition(b"\r\n")[0] or told == b""
        assert httpx.get(url + "/health").status_code == 200


@pytest.mark.web
def test_a_demo_is_in_a_new_server(tmp_path: Path) -> None:
    with started(tmp_path / "home", "--demo") as (address, link), httpx.Client(base_url=address) as client:
        client.post("/api/v1/session/link", json={"link": link, "password": PASSWORD})
        found = client.get("/api/v1/jobs").json()["jobs"]
        assert [(one["name"], one["visibility"]) for one in found] == [("demo", "all")]


def test_saved_and_restored(admin: Person, server: Server, tmp_path: Path) -> None:
    admin.ask("PUT", "/secrets/hub", json={"value": "the secret"}, status=200)
    admin.ask("PUT", "/uploads/data.txt", content=b"mine", status=200)
    job = admin.ask("POST", "/jobs", json={"name": "kept", "command": "true"}, status=201).json()["job"]["id"]
    (server.home.job(job) / "work" / "link").symlink_to("/etc/passwd")
    archive = tmp_path / "server.tar.gz"
    assert main(["serve", "backup", str(archive), "--home", str(server.home.path)]) == 0
    assert archive.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match="exists already"):
        backup.backup(server.home, None, archive)
    with pytest.raises(UserError, match="not empty"):
        backup.restore(archive, server.home, None)
    target = tmp_path / "restored"
    assert main(["serve", "restore", str(archive), "--home", str(target)]) == 0
    again = open_server(Settings(target))
    with database.reading(again.engine) as connection:
        assert connection.execute(table.select()).mappings().one()["id"] == job
    assert opened(again, 1, "hub") == "the secret"
    assert (again.home.files(1) / "data.txt").read_text() == "mine"
    assert (again.home.job(job) / "command.sh").read_text() == "true"
    assert all((target / name).stat().st_mode & 0o077 == 0 for name in ("", "server.db", "server.key"))
    again.engine.dispose()


def test_a_backup_of_files_that_others_change(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = server.home.job("j1") / "work"
    work.mkdir(parents=True)
    for name in ("first", "gone", "shrunk"):
        (work / name).write_text(name * 100)
    (work / "second").hardlink_to(work / "first")
    os.mkfifo(work / "pipe")
    real, found = os.stat, tarfile.TarFile.gettarinfo

    def stat(path: Any, **more: Any) -> os.stat_result:
        answer = real(path, **more)
        if path == "gone" and (work / "gone").exists():
            (work / "gone").unlink()
        return answer

    def gettarinfo(made: tarfile.TarFile, *args: Any, **more: Any) -> Any:
        if str(more.get("arcname", "")).endswith("shrunk"):
            (work / "shrunk").write_text("s")
        return found(made, *args, **more)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", gettarinfo)
    archive = tmp_path / "a.tar.gz"
    assert backup.backup(server.home, None, archive).skipped == 1
    monkeypatch.undo()
    backup.restore(archive, Home(tmp_path / "new"), None)
    again = Home(tmp_path / "new").job("j1") / "work"
    assert sorted(os.listdir(again)) == ["first", "second", "shrunk"]
    assert (again / "second").read_text() == "first" * 100 and (again / "second").samefile(again / "first")
    assert (again / "shrunk").read_text() == "s"


def test_two_backups_of_one_name(server: Server, tmp_path: Path) -> None:
    other = tmp_path / ".a.tar.gz.part"
    other.write_text("of the first one")
    with pytest.raises(UserError, match="another backup"):
        backup.backup(server.home, None, tmp_path / "a.tar.gz")
    assert other.read_text() == "of the first one"
    with pytest.raises(UserError, match="Not a directory"):
        backup.backup(server.home, None, other / "a.tar.gz")


def test_a_backup_links_to_nothing_outside(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar.gz"
    link = tarfile.TarInfo("jobs/shadow")
    link.type, link.linkname = tarfile.LNKTYPE, "/etc/hostname"
    with tarfile.open(archive, "w:gz") as made:
        made.addfile(tarfile.TarInfo("server.db"))
        made.addfile(link)
    with pytest.raises(UserError, match="links to files that are not in it"):
        backup.restore(archive, Home(tmp_path / "new"), None)
    assert not (tmp_path / "new").exists()


def test_half_a_backup_is_told_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    whole, half = tmp_path / "whole.tar.gz", tmp_path / "half.tar.gz"
    backup.backup(server.home, None, whole)
    content = whole.read_bytes()
    for damaged in (content[: len(content) // 2], content[:40] + bytes(64) + content[104:]):
        half.write_bytes(damaged)
        with pytest.raises(UserError, match="cannot be read"):
            backup.restore(half, Home(tmp_path / "new"), None)
        assert not (tmp_path / "new").exists()
    backup.restore(whole, Home(tmp_path / "new"), None)


def test_what_is_no_backup(tmp_path: Path) -> None:
    import io

    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(b"no archive")
    with pytest.raises(UserError, match="cannot be read"):
        backup.restore(archive, Home(tmp_path / "new"), None)
    with tarfile.open(archive, "w:gz") as made:
        for name in ("server.db", "runs/../../evil"):
            made.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(UserError, match="cannot be read"):
        backup.restore(archive, Home(tmp_path / "new"), None)
    assert not (tmp_path / "evil").exists()
    assert main(["serve", "backup"]) == 2
    assert main(["serve", "--database", "postgresql://me:secret@db/name"]) == 2


def test_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    """A database as the first release made it, with rows in it."""
    home = Home(tmp_path / "home")
    home.prepare()
    with sqlite3.connect(home.database) as old:
        old.executescript((Path(__file__).parent / "schema_0001.sql").read_text())
    made = open_server(Settings(home.path))
    with database.reading(made.engine) as connection:
        found = connection.execute(table.select()).mappings().one()
        assert (found["name"], found["state"], found["pinned"]) == ("old", "SUCCEEDED", False)
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "0004"
        assert connection.exec_driver_sql("SELECT count(*) FROM shares").scalar() == 0
    # Also the second start, and one of a later version.
    open_server(Settings(home.path)).engine.dispose()
    with database.writing(made.engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UserError, match="another version of trainmark"):
        open_server(Settings(home.path))
    made.engine.dispose()


DAY = 86400.0


@pytest.mark.parametrize(
    ("rules", "going"),
    [
        (Retention(), []),
        (Retention(days=5), ["a", "b"]),
        (Retention(days=100), []),
        (Retention(gigabytes=4), ["a"]),
        (Retention(gigabytes=0.5), ["a", "b", "d"]),
        (Retention(days=9.5, gigabytes=3), ["a", "b"]),
    ],
)
def test_which_runs_are_removed(rules: Retention, going: list[str]) -> None:
    now = 100 * DAY
    ages: list[tuple[str, float, bool]] = [("d", 1, False), ("a", 10, False), ("pinned", 50, True), ("b", 6, False)]
    found = [
        Kept(name, now - age * DAY, 10**9 + 5 * 10**8 * (name == "pinned"), pinned, ()) for name, age, pinned in ages
    ]
    assert [one.job for one in retention.too_much(found, rules, now)] == going


def test_old_runs_go_and_their_jobs_stay_in_the_list(admin: Person, server: Server) -> None:
    ids = [
        admin.ask("POST", "/jobs", json={"name": name, "command": "true"}).json()["job"]["id"]
        for name in ("old", "pinned", "young", "runs")
    ]
    now = time.time()
    for job, ended, pinned in zip(ids, (10, 10, 1, None), (False, True, False, False), strict=True):
        run = server.home.runs(1) / f"run-{job}"
        run.mkdir(parents=True)
        (run / "x").write_text("x")
        values: dict[str, Any] = {"run": run.name, "pinned": pinned}
        if ended is not None:
            values |= {"state": "SUCCEEDED", "ended": now - ended * DAY}
        with database.writing(server.engine) as connection:
            connection.execute(update(table).where(table.c.id == job).values(**values))
    assert retention.apply(server) == []
    server.rules = Rules(retention=Retention(days=5))
    assert retention.apply(server) == [ids[0]]
    assert retention.apply(server) == []
    assert sorted(os.listdir(server.home.runs(1))) == sorted(f"run-{job}" for job in ids[1:])
    admin.ask("GET", f"/runs/{ids[0]}", status=404)
    assert next(one for one in admin.ask("GET", "/runs").json()["runs"] if one["job"] == ids[0])["kept"] is False
    assert admin.ask("GET", "/audit").json()[0]["action"] == "run.expire"


def test_a_run_is_looked_at_again_before_it_goes(
    admin: Person, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measuring all folders takes a while: one is pinned meanwhile, another cannot be removed."""
    ids = [
        admin.ask("POST", "/jobs", json={"name": name, "command": "true"}).json()["job"]["id"]
        for name in ("pinned", "stuck")
    ]
    with database.writing(server.engine) as connection:
        connection.execute(update(table).values(state="SUCCEEDED", ended=time.time() - 10 * DAY))
    server.rules = Rules(retention=Retention(days=5))
    real = retention._size

    def size(folder: Path) -> int:
        with database.writing(server.engine) as connection:
            connection.execute(update(table).where(table.c.id == ids[0]).values(pinned=True))
        return real(folder)

    monkeypatch.setattr(retention, "_size", size)
    monkeypatch.setattr(retention.shutil, "rmtree", lambda folder, ignore_errors: None)
    assert retention.apply(server) == []
    monkeypatch.undo()
    assert all(server.home.job(one).is_dir() for one in ids)
    assert "run.expire" not in admin.ask("GET", "/audit").text
    assert retention.apply(server) == [ids[1]]


def test_rules_are_read_from_server_yaml(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("schema: 1\nretention: {days: 90, gigabytes: 500}\n")
    assert load_rules(file).retention == Retention(90, 500)
    file.write_text("schema: 1\nretention: {days: -1}\n")
    with pytest.raises(UserError, match="retention"):
        load_rules(file)


def test_a_systemd_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """systemd itself says whether it is one; what it starts is this program, with the options that were given."""
    home = tmp_path / "a home"
    assert main(["serve", "unit", "--home", str(home), "--account", "train", "--port", "9000", "--json-log"]) == 0
    text = capsys.readouterr().out
    assert f"serve --host 127.0.0.1 --port 9000 --json-log --home '{home}'" in text
    assert "User=train\n" in text and "NoNewPrivileges=yes" in text and "KillMode=process" in text
    assert main(["serve", "unit"]) == 0
    assert "User=" not in capsys.readouterr().out
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    file = tmp_path / "trainmark.service"
    file.write_text(text.replace("User=train", "User=root"))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compose_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "compose"]) == 0
    made = yaml.safe_load(capsys.readouterr().out)
    assert set(made["services"]) == {"database", "server"}
    # What the server is started with is understood by it, and holds no password.
    verb, *words = made["services"]["server"]["command"]
    args = parser(verb).parse_args(
        [word.replace("${PROXY:?address of the proxy that does https}", "::1") for word in words]
    )
    assert (args.host, args.proxy, args.database.count(":")) == ("0.0.0.0", ["::1"], 1)


def test_the_log_as_json(capfd: pytest.CaptureFixture[str], admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is an object, whatever was sent; of requests it has the route and the user, not what was in them."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.WARNING)
    server_log.begin(as_json=True)
    try:
        admin.ask("GET", "/jobs?text=secret%0Awords", status=200)
        logging.getLogger("trainmark.web").warning("two\nlines %s", "\x1b[31m")
    finally:
        logging.getLogger("trainmark.web.requests").setLevel(logging.INFO)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    (request,) = [line for line in lines if line["message"] == "request"]
    assert (request["method"], request["route"], request["status"], request["user"]) == (
        "GET",
        "/api/v1/jobs",
        200,
        "admin",
    )
    assert "secret" not in json.dumps(request)
    assert [line["message"] for line in lines if line["level"] == "warning"] == ["two\nlines \x1b[31m"]


def test_the_log_for_people_is_one_line_each(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    server_log.begin(as_json=False)
    logging.getLogger("trainmark.web").warning("two\nlines %s", "\x1b[31m")
    assert capfd.readouterr().err.rstrip().endswith("WARNING two?lines ?[31m")
