"""Jobs of two people on one server: each runs as an account of its own, and sees nothing of the other or the server."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from lab import site
from lab.lab import Lab
from tests.lab.test_jobs import log
from tests.web.conftest import Person, admin, app, kept, person, server, visit  # noqa: F401
from tests.web.test_jobs import ended, submit, until
from trainmark.launch.local import accounts
from trainmark.web.server import Server

pytestmark = pytest.mark.lab
SECRET = "hf_a-secret-%TRAINMARK_WORK%-that-nobody-else-reads"
# Tests may run in several processes at the same time.
NAMES = (f"tmk-anna{os.getpid()}", f"tmk-bert{os.getpid()}")


@pytest.fixture(scope="module")
def unix_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Two accounts of this machine, made for these tests."""
    if os.geteuid() != 0:
        pytest.skip("accounts are made by root")
    for name in NAMES:
        # Of the second, as of accounts from a directory, no group has its name.
        group = ["--no-user-group", "--gid", "users"] if name == NAMES[1] else []
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", *group, name], check=True)
    yield NAMES
    for name in NAMES:
        subprocess.run(["userdel", "--remove", name], check=True, stderr=subprocess.DEVNULL)


@pytest.fixture
def two(
    unix_users: tuple[str, ...],
    kept: Server,  # noqa: F811
    person: Callable[..., Person],  # noqa: F811
) -> tuple[Person, Person]:
    mapped = dict(zip(("anna", "bert"), unix_users, strict=True))
    # The machine's own Python: that of these tests may be in a folder of root's.
    content = {"schema": 1, "launcher": "local", "accounts": mapped, "python": "/usr/bin/python3"}
    (kept.home.sites / "local.yaml").write_text(json.dumps(content))
    return person("anna"), person("bert")


def test_jobs_run_as_the_account_of_their_user(two: tuple[Person, Person], kept: Server) -> None:  # noqa: F811
    anna, bert = two
    first = submit(anna, command="id -un; echo mine > kept; pwd; echo going; sleep 600", distributed=True)
    until(lambda: anna.ask("GET", f"/jobs/{first}").json()["job"]["run"] and "going" in log(anna, first))
    there = log(anna, first).splitlines()[1]
    run = next(kept.home.path.glob("runs/user*/*"))
    attempt = f"""
    id -un
    for place in {kept.home.database} {kept.home.path}/server.key {run}/manifest.json {there}/kept; do
        cat $place && echo READ $place
    done
    ls {kept.home.path} {run} {there} && echo LISTED
    for environ in /proc/[0-9]*/environ; do
        grep -qsz DLWS_JOB_ID={first} $environ && echo SEEN $environ
    done
    kill -9 -1
    """
    second = submit(bert, command=attempt)
    found = ended(bert, second)
    said = bert.ask("GET", f"/jobs/{second}/logs", status=200).text
    assert said.splitlines()[0] == NAMES[1], (found["reason"], said)
    assert "READ" not in said and "LISTED" not in said and "SEEN" not in said
    assert said.count("Permission denied") + said.count("No such file") >= 5
    assert anna.ask("GET", f"/jobs/{first}").json()["job"]["state"] == "RUNNING"
    anna.ask("POST", f"/jobs/{first}/stop", status=202)
    assert ended(anna, first)["state"] == "CANCELLED"
    assert log(anna, first).splitlines()[0] == NAMES[0]
    # What the job left came back as its user's own.
    files = [one["path"] for one in anna.ask("GET", f"/jobs/{first}/files").json()["run"]]
    kept_file = next(path for path in files if path.endswith("/kept"))
    assert anna.ask("GET", f"/jobs/{first}/files/run/{kept_file}", status=200).text == "mine\n"
    bert.ask("GET", f"/jobs/{first}/files/run/{kept_file}", status=404)
    for name in NAMES:
        assert not [pid for pid in _processes(name) if pid], name


def _processes(account: str) -> list[str]:
    done = subprocess.run(["pgrep", "-u", account], capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_a_benchmark_runs_as_the_account(two: tuple[Person, Person]) -> None:
    job = submit(two[0], suite="noop:none:cpu:1:1:1", preset="smoke")
    found = ended(two[0], job)
    assert found["state"] == "SUCCEEDED", found["reason"]


def test_who_has_no_account_runs_nothing(
    two: tuple[Person, Person],
    admin: Person,  # noqa: F811
    kept: Server,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = {"name": "job", "command": "true"}
    refused = admin.ask("POST", "/jobs", json=spec, status=403)  # even an admin: the server's own account is nobody's
    assert "no account" in refused.json()["detail"]
    monkeypatch.setattr(accounts.os, "geteuid", lambda: 1000)
    assert "root" in two[0].ask("POST", "/jobs", json=spec, status=403).json()["detail"]
    monkeypatch.undo()
    content = json.loads((kept.home.sites / "local.yaml").read_text())
    for account in ("root", "nobody-at-all"):
        (kept.home.sites / "local.yaml").write_text(json.dumps({**content, "accounts": {"anna": account}}))
        assert account in two[0].ask("POST", "/jobs", json=spec, status=403).json()["detail"]


def test_ssh_logs_in_as_the_account(
    hosts: Lab,
    kept: Server,  # noqa: F811
    admin: Person,  # noqa: F811
    person: Callable[..., Person],  # noqa: F811
) -> None:
    """`bench` is an account that the lab's hosts have."""
    content = {**site.content(hosts.layout), "accounts": {"anna": "bench"}, "hosts": ["node1"], "python": "python3"}
    (kept.home.sites / "cluster.yaml").write_text(json.dumps(content))
    anna = person("anna")
    command = "id -un; cat /home/anna/ib_config; ssh worker-0 'id -un; pwd'; cat /root/.bashrc"
    job = submit(anna, command=command, site="cluster", distributed=True, devices=3)
    ended(anna, job)
    lines = log(anna, job).splitlines()
    assert lines[:3] == ["bench", "node1 slots=3", "bench"], lines
    assert "Permission denied" in lines[-1]
    admin.ask("POST", "/jobs", json={"name": "job", "command": "true", "site": "cluster"}, status=403)


def test_secrets_are_files_of_the_account(two: tuple[Person, Person], kept: Server) -> None:  # noqa: F811
    anna, bert = two
    anna.ask("PUT", "/secrets/hub", json={"value": SECRET}, status=200)
    command = 'cd $TRAINMARK_SECRETS; pwd; stat -c "%a %U" . hub; wc -c < hub; sleep 600'
    job = submit(anna, command=command, secrets=["hub"])
    until(lambda: anna.ask("GET", f"/jobs/{job}").json()["job"]["run"] and str(len(SECRET)) in log(anna, job))
    place, folder, file, _ = log(anna, job).splitlines()
    assert (folder, file) == (f"700 {NAMES[0]}", f"600 {NAMES[0]}")
    other = submit(bert, command=f"cat {place}/hub {kept.home.handed(job)}/hub")
    ended(bert, other)
    assert SECRET not in log(bert, other) and log(bert, other).count("Permission denied") == 2
    anna.ask("POST", f"/jobs/{job}/stop", status=202)
    ended(anna, job)
    assert not os.path.exists(place)
    kept.engine.dispose()
    assert [one for one in kept.home.path.rglob("*") if one.is_file() and SECRET.encode() in one.read_bytes()] == []


def test_secrets_over_ssh(hosts: Lab, kept: Server, admin: Person) -> None:  # noqa: F811
    """On both hosts of a distributed job, for its account alone, and gone with it."""
    (kept.home.sites / "cluster.yaml").write_text(json.dumps({**site.content(hosts.layout), "python": "python3"}))
    admin.ask("PUT", "/secrets/hub", json={"value": SECRET}, status=200)
    command = "cd $TRAINMARK_SECRETS; echo at $PWD; stat -c '%a' hub; sha256sum hub"
    job = submit(admin, command=command, site="cluster", distributed=True, nodes=2, secrets=["hub"])
    found = ended(admin, job)
    said = log(admin, job)
    assert found["state"] == "SUCCEEDED", (found, said)
    assert said.count(hashlib.sha256(SECRET.encode()).hexdigest()) == 2 and said.count("600\n") == 2
    for place in {line.removeprefix("at ") for line in said.splitlines() if line.startswith("at ")}:
        for host in ("node1", "node2"):
            assert hosts.on(host, "ls", place, check=False).returncode == 2
    kept.engine.dispose()
    assert [one for one in kept.home.path.rglob("*") if one.is_file() and SECRET.encode() in one.read_bytes()] == []
