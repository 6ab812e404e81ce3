"""Secrets of users: encrypted, never shown again, handed to jobs as files."""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, update

from tests.web.conftest import Person
from tests.web.test_jobs import ended, submit
from trainmark.errors import UserError
from trainmark.web.home import Home
from trainmark.web.queue.keeper import Keeper
from trainmark.web.server import Server
from trainmark.web.service import database, sealing, user_secrets
from trainmark.web.service.tables import secrets

VALUE = "hf_a-secret-that-nobody-else-reads"


def test_it_is_kept_encrypted_and_never_shown(admin: Person, server: Server) -> None:
    answer = admin.ask("PUT", "/secrets/hub", json={"value": VALUE}, status=200)
    told = answer.text + admin.ask("GET", "/secrets", status=200).text + admin.ask("GET", "/audit").text
    assert VALUE not in told and '"hub"' in told
    server.engine.dispose()
    assert all(VALUE.encode() not in file.read_bytes() for file in server.home.path.rglob("*") if file.is_file())
    admin.ask("GET", "/secrets/hub", status=405)


def opened(server: Server, owner: int, name: str) -> str | None:
    """What is kept, with the server's key."""
    with database.reading(server.engine) as connection:
        row = connection.execute(select(secrets).where(secrets.c.owner_id == owner, secrets.c.name == name)).one()
    found = sealing.unseal(server.key, user_secrets._purpose(owner, name), bytes(row.value))
    return found.decode() if found is not None else None


def test_it_is_replaced_and_removed(admin: Person, server: Server) -> None:
    for value in ("old", VALUE):
        admin.ask("PUT", "/secrets/hub", json={"value": value}, status=200)
    assert opened(server, 1, "hub") == VALUE
    admin.ask("DELETE", "/secrets/hub", status=204)
    admin.ask("DELETE", "/secrets/hub", status=404)


def test_it_is_its_owners_alone(admin: Person, person: Callable[..., Person], server: Server) -> None:
    admin.ask("PUT", "/secrets/hub", json={"value": VALUE}, status=200)
    eve = person("eve")
    assert eve.ask("GET", "/secrets", status=200).json() == []
    eve.ask("DELETE", "/secrets/hub", status=404)
    # Nor does it help to copy the row: it is bound to its owner.
    with database.writing(server.engine) as connection:
        connection.execute(update(secrets).values(owner_id=2))
    assert opened(server, 2, "hub") is None
    person("vic", "viewer").ask("PUT", "/secrets/x", json={"value": "x"}, status=403)


def test_the_key_may_lie_elsewhere_if_nobody_else_reads_it(tmp_path: Path) -> None:
    home, file = Home(tmp_path / "home"), tmp_path / "key"
    home.prepare()
    with pytest.raises(UserError, match="No such file"):
        home.key(file)
    file.write_bytes(b"k" * 32)
    file.chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        home.key(file)
    file.chmod(0o600)
    assert home.key(file) == b"k" * 32
    assert not (home.path / "server.key").exists()
    file.write_bytes(b"short")
    with pytest.raises(UserError, match="found 5 bytes"):
        home.key(file)
    assert len(home.key()) == 32 and (home.path / "server.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_job_finds_it_as_a_file_and_nothing_else_has_it(admin: Person, kept: Server) -> None:
    admin.ask("PUT", "/secrets/hub", json={"value": VALUE}, status=200)
    command = 'cd $TRAINMARK_SECRETS; stat -c "%a %U %n" hub; sha256sum hub'
    spec = {"command": command, "secrets": ["hub"]}
    planned = admin.ask("POST", "/jobs/plan", json={"name": "job", **spec}, status=200).text
    job = submit(admin, **spec)
    assert ended(admin, job)["state"] == "SUCCEEDED"
    said = admin.ask("GET", f"/jobs/{job}/logs", status=200).text
    account = pwd.getpwuid(os.getuid()).pw_name
    assert said == f"600 {account} hub\n{hashlib.sha256(VALUE.encode()).hexdigest()}  hub\n"
    kept.engine.dispose()
    everything = [file for file in kept.home.path.rglob("*") if file.is_file()]
    assert [file for file in everything if VALUE.encode() in file.read_bytes()] == []
    assert VALUE not in planned and not kept.home.handed(job).exists()


def test_only_ones_own_are_handed_over(admin: Person, person: Callable[..., Person], server: Server) -> None:
    person("eve").ask("PUT", "/secrets/hub", json={"value": VALUE}, status=200)
    spec = {"name": "job", "command": "true", "secrets": ["hub"]}
    for path in ("/jobs", "/jobs/plan"):
        assert "none of the name" in admin.ask("POST", path, json=spec, status=409).json()["detail"]
    suite = {"name": "job", "suite": "noop:none:cpu:1:1:1", "preset": "smoke", "secrets": ["hub"]}
    admin.ask("POST", "/jobs/plan", json=suite, status=400)
    # One that was removed while the job waited.
    admin.ask("PUT", "/secrets/hub", json={"value": VALUE}, status=200)
    job = submit(admin, command="true", secrets=["hub"])
    admin.ask("DELETE", "/secrets/hub", status=204)
    Keeper(server).look()
    found = admin.ask("GET", f"/jobs/{job}", status=200).json()["job"]
    assert found["state"] == "FAILED" and "hub" in found["reason"]
