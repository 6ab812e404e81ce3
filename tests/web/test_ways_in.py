"""One test for each way in."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar, get
from litestar.testing import TestClient
from sqlalchemy import delete, text, update
from sqlalchemy.exc import DatabaseError

from tests.web.conftest import PASSWORD, Person
from trainmark.web.api.access import Access, access_of, guard
from trainmark.web.api.app import make_app
from trainmark.web.server import Server, Settings, open_server
from trainmark.web.service import credentials, database, files, job_plans
from trainmark.web.service.records import JobSpec
from trainmark.web.service.rules import Mount, Rules, SiteRules
from trainmark.web.service.tables import audit, sessions, tokens

PUBLIC = {
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/openapi.json"),
    ("POST", "/api/v1/session"),
    ("POST", "/api/v1/session/link"),
    ("GET", "/api/v1/session/ways"),
    ("GET", "/api/v1/session/oidc"),
    ("GET", "/api/v1/session/oidc/callback"),
    ("GET", "/api/v1/shared/x"),
    ("GET", "/api/v1/shared/x/report"),
    ("GET", "/api/v1/shared/x/curves"),
    *(("GET", path) for path in ("/sign-in", "/link", "/language/x", "/theme/x", "/shared/x", "/assets/x/web.css")),
}
SLEEP = {"name": "nap", "command": "sleep 1"}
FILLED = {
    **{
        "{run:str}": "x",
        "{share:int}": "1",
        "{link:str}": "x",
        "{user:int}": "1",
        "{token:int}": "1",
        "{identity:str}": "0" * 32,
    },
    **{"/assets/{version:str}/{path:path}": "/assets/x/web.css"},
    **{"{job:str}": "abcd", "{name:str}": "x", "{path:path}": "x"},
}


def _routes(app: Litestar) -> list[tuple[str, str, Any]]:
    found = []
    for route in app.routes:
        for handler in getattr(route, "route_handlers", []):
            found += [(method, route.path, handler) for method in handler.http_methods if method != "OPTIONS"]
    return found


def test_nobody_is_let_in_without_a_name_but_where_it_is_said(app: Any, visit: Callable[[str], Person]) -> None:
    stranger = visit("nobody")
    seen = set()
    for method, path, handler in _routes(app[1]):
        for name, value in FILLED.items():
            path = path.replace(name, value)
        seen.add((method, path))
        answer = stranger.client.request(method, path, json={})
        if (method, path) in PUBLIC:
            assert access_of(handler) is Access.PUBLIC
            # The server of these tests has no provider of identities, and no such link.
            expected = 404 if "/oidc" in path else 401 if path.endswith("callback") else answer.status_code
            assert answer.status_code != 403 and answer.status_code in (expected, 401), (method, path, answer.text)
        else:
            assert access_of(handler) is not Access.PUBLIC
            assert answer.status_code in (401, 403), (method, path, answer.status_code)
    assert seen >= PUBLIC
    assert len(seen) > 35


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/groups/team%0A"),
        ("PUT", "/secrets/hub%0A"),
        ("GET", "/jobs/last%0A"),
        ("GET", "/runs/last%0A"),
        ("GET", f"/shared/{'A' * 43}%0A"),
        ("POST", "/jobs/stop"),
    ],
)
def test_no_name_ends_with_another_line(admin: Person, method: str, path: str) -> None:
    body = {"/jobs/stop": {"jobs": ["last\n"]}, "/groups/team%0A": {"members": []}}.get(path, {"value": "x"})
    admin.ask(method, path, json=body if method != "GET" else None, status=400)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("c/round1/attempt1/node/home/config.json", True),
        ("c/round1/attempt1/node/home/env.log", True),
        ("c/round1/attempt1/node/rank0/config.json", False),
        ("c/round1/attempt1/node/rank12/env.log", False),
        ("c/round1/attempt1/node/rank0/out/config.json", True),
        ("c/round1/attempt1/node/home", False),
        ("c/round1/attempt1/home/agent.json", False),
        ("c/home", False),
    ],
)
def test_which_files_of_a_run_are_shown(path: str, shown: bool) -> None:
    assert files.shown_of_run(path) is shown


def test_a_route_that_names_nobody_is_refused_to_everybody() -> None:
    @get("/forgotten", sync_to_thread=False)
    def forgotten() -> str:
        return "secret"

    with TestClient(Litestar([forgotten], guards=[guard])) as client:
        assert client.get("/forgotten").status_code == 403


def test_no_state_changes_by_get(app: Any) -> None:
    """What a GET route calls may write nothing but when somebody was last seen."""
    names = {handler.handler_name for method, _, handler in _routes(app[1]) if method == "GET"}
    verbs = ("add", "change", "remove", "put", "make", "end", "stop", "submit", "clone", "sign", "use")
    assert not [name for name in names if name.startswith(verbs)]


def test_another_users_job_is_not_there(person: Callable[..., Person], admin: Person, server: Server) -> None:
    server.rules = Rules(sites={"local": SiteRules(submit="users")})
    bob, eve = person("bob"), person("eve")
    job = bob.ask("POST", "/jobs", json=SLEEP, status=201).json()["job"]["id"]
    for method, path in [
        ("GET", ""),
        ("GET", "/status"),
        ("GET", "/report"),
        ("GET", "/logs"),
        ("GET", "/logs/stream"),
        ("GET", "/files"),
        ("GET", "/files/work/x"),
        ("PATCH", ""),
        ("POST", "/stop"),
        ("POST", "/clone"),
    ]:
        eve.ask(method, f"/jobs/{job}{path}", json={} if method == "PATCH" else None, status=404)
        eve.ask(method, f"/jobs/1{path}", json={} if method == "PATCH" else None, status=404)
    assert eve.ask("GET", "/jobs", status=200).json()["jobs"] == []
    # Shared with all it is seen, and still not changed.
    bob.ask("PATCH", f"/jobs/{job}", json={"visibility": "all"}, status=200)
    assert eve.ask("GET", f"/jobs/{job}", status=200).json()["job"]["owner"] == "bob"
    eve.ask("POST", f"/jobs/{job}/stop", status=403)
    # Shared with one's group: seen by its members.
    bob.ask("PATCH", f"/jobs/{job}", json={"visibility": "group"}, status=200)
    eve.ask("GET", f"/jobs/{job}", status=404)
    admin.ask("PUT", "/groups/team", json={"members": ["bob", "eve"]}, status=200)
    eve.ask("GET", f"/jobs/{job}", status=200)
    admin.ask("POST", f"/jobs/{job}/stop", status=202)


def test_tokens_forged_expired_and_too_small(person: Callable[..., Person], server: Server) -> None:
    bob = person("bob")
    small = bob.token("read")
    bob.client.cookies.clear()

    def ask(token: str, method: str = "GET", path: str = "/jobs") -> int:
        more = {"json": SLEEP} if method == "POST" else {}
        headers = {"authorization": f"Bearer {token}"}
        return int(bob.client.request(method, f"/api/v1{path}", headers=headers, **more).status_code)

    assert ask(small) == 200
    assert ask(small[:-1] + ("A" if small[-1] != "A" else "B")) == 401
    assert ask("tmk_") == ask("") == ask("tmk_' OR 1=1 --") == 401
    assert ask(small, "POST") == 403
    assert ask(small, "GET", "/users") == ask(small, "GET", "/tokens") == ask(small, "GET", "/audit") == 403
    with database.writing(server.engine) as connection:
        connection.execute(update(tokens).values(expires=time.time() - 1))
    assert ask(small) == 401


def test_a_token_gives_no_more_than_its_owner_has(person: Callable[..., Person], admin: Person) -> None:
    bob = person("bob")
    asked = {"name": "t", "scopes": ["admin"]}
    bob.ask("POST", "/tokens", json=asked, status=403)
    mighty = admin.token("admin", "read")
    headers = {"authorization": f"Bearer {mighty}"}
    other = person("kim", "admin")
    assert other.client.get("/api/v1/users", headers=headers).status_code == 200
    other.ask("PATCH", "/users/1", json={"role": "viewer"}, status=200)
    assert other.client.get("/api/v1/users", headers=headers).status_code == 403


def test_forged_requests_of_other_pages(admin: Person) -> None:
    post = admin.client.post
    assert post("/api/v1/users", json={"name": "eve"}).status_code == 403
    assert post("/api/v1/users", json={"name": "eve"}, headers={"x-csrf-token": "guess"}).status_code == 403
    # A form of another page can send text, but no JSON; and no cookie that is `strict`.
    assert post("/api/v1/users", data={"name": "eve"}, headers={"x-csrf-token": admin.csrf}).status_code == 400
    evil = {"origin": "https://evil.example"}
    assert post("/api/v1/session", json={"name": "admin", "password": PASSWORD}, headers=evil).status_code == 403


def test_a_planted_session_means_nothing(admin: Person, visit: Callable[[str], Person]) -> None:
    victim = visit("admin")
    victim.client.cookies.set("trainmark-session", "planted-by-somebody")
    cookie = victim.sign_in().headers["set-cookie"]
    assert "planted" not in cookie
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    stranger = visit("x")
    stranger.client.cookies.set("trainmark-session", "planted-by-somebody")
    stranger.ask("GET", "/session", status=401)


def test_sessions_end(admin: Person, server: Server, visit: Callable[[str], Person]) -> None:
    other = visit("admin")
    other.sign_in()
    other.ask("GET", "/session", status=200)
    changed = {"old": PASSWORD, "new": "another long password"}
    admin.ask("PUT", "/session/password", json={**changed, "old": "wrong"}, status=403)
    admin.ask("PUT", "/session/password", json=changed, status=200)
    other.ask("GET", "/session", status=401)
    admin.ask("GET", "/session", status=200)
    with database.writing(server.engine) as connection:
        connection.execute(update(sessions).values(seen=time.time() - credentials.IDLE_SECONDS - 1))
    admin.ask("GET", "/session", status=401)


def test_signing_out_ends_the_session_at_the_server(admin: Person, visit: Callable[[str], Person]) -> None:
    cookie = admin.client.cookies["trainmark-session"]
    admin.ask("DELETE", "/session", status=204)
    thief = visit("x")
    thief.client.cookies.set("trainmark-session", cookie)
    thief.ask("GET", "/session", status=401)


def test_a_user_who_is_disabled_is_out_at_once(person: Callable[..., Person], admin: Person) -> None:
    bob = person("bob")
    token = bob.token("read")
    admin.ask("PATCH", "/users/2", json={"disabled": True}, status=200)
    bob.ask("GET", "/session", status=401)
    assert bob.client.get("/api/v1/jobs", headers={"authorization": f"Bearer {token}"}).status_code == 401
    assert bob.sign_in().status_code == 401


def test_links_work_once_and_for_a_day(admin: Person, visit: Callable[[str], Person], server: Server) -> None:
    link = admin.ask("POST", "/users", json={"name": "bob"}, status=201).json()["link"]
    assert visit("bob").use_link(link).status_code == 200
    assert visit("bob").use_link(link).status_code == 401
    newer = admin.ask("POST", "/users/2/link", status=201).json()["link"]
    with database.writing(server.engine) as connection:
        connection.execute(text("UPDATE links SET expires = 1"))
    assert visit("bob").use_link(newer).status_code == 401


def test_guessing_is_locked_out(admin: Person, visit: Callable[[str], Person], server: Server) -> None:
    thief = visit("admin")
    codes = [thief.sign_in(f"guess number {number}").status_code for number in range(7)]
    assert codes == [401] * 5 + [429] * 2
    # Also the right one waits now, and an unknown name is treated alike.
    assert thief.sign_in().status_code == 429
    nobody = visit("nobody")
    assert [nobody.sign_in("x" * 12).status_code for _ in range(7)] == codes
    with database.writing(server.engine) as connection:
        connection.execute(text("UPDATE failures SET until = 0, count = 1"))
    assert thief.sign_in().status_code == 200


def test_an_unknown_name_costs_the_same_work(server: Server, admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the clock, which others use, too: the same hash is computed."""
    seen = []
    monkeypatch.setattr(credentials, "_verified", lambda kept, password: bool(seen.append(kept)))
    with database.writing(server.engine) as connection:
        for name in ("admin", "nobody"):
            assert credentials.sign_in(connection, name, "wrong password", "here") is None
    assert len(seen) == 2 and seen[0].split("$")[:4] == seen[1].split("$")[:4]  # the same parameters of argon2


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/users", {"name": "eve", "id": 1}),
        ("PATCH", "/users/1", {"role": "admin", "password": "x"}),
        ("POST", "/jobs", {**SLEEP, "owner": "bob"}),
        ("POST", "/jobs", {**SLEEP, "state": "SUCCEEDED"}),
        ("PATCH", "/jobs/1", {"state": "SUCCEEDED"}),
        ("POST", "/tokens", {"name": "t", "scopes": ["read"], "user_id": 1}),
    ],
)
def test_fields_that_are_not_for_clients(admin: Person, method: str, path: str, body: dict[str, Any]) -> None:
    admin.ask(method, path, json=body, status=400)


def test_a_user_cannot_make_themselves_an_admin(person: Callable[..., Person]) -> None:
    bob = person("bob")
    bob.ask("PATCH", "/users/2", json={"role": "admin"}, status=403)
    bob.ask("POST", "/users", json={"name": "eve", "role": "admin"}, status=403)
    bob.ask("PUT", "/groups/x", json={"members": ["bob"]}, status=403)


def test_paths_out_of_a_folder(admin: Person, server: Server) -> None:
    top = server.home.files(1)
    top.mkdir(parents=True)
    (top / "good").write_text("good")
    (top / "link").symlink_to("/etc/passwd")
    (top / "folder").symlink_to("/etc")
    os.mkfifo(top / "pipe")
    assert admin.ask("GET", "/files/good", status=200).text == "good"
    for path in (
        "..%2f..%2fserver.key",
        "../../server.key",
        "%2e%2e/%2e%2e/server.key",
        "link",
        "folder/passwd",
        "pipe",
        ".",
        "",
        "good/x",
        "a%00b",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "x" * 300,
        "/".join("a" * 40),
    ):
        assert (
            admin.ask("GET", f"/files/{path}").status_code in (200, 404)
            and "root:" not in admin.ask("GET", f"/files/{path}").text
        ), path
        if path:
            admin.ask("PUT", f"/uploads/{path}x/../../evil", content=b"x")
    assert {one.parent.parent for one in server.home.path.glob("**/evil")} <= {top.parent}
    assert {one["path"] for one in admin.ask("GET", "/files").json()} == {"good", "evil"}
    admin.ask("PUT", "/uploads/folder/evil", content=b"x", status=404)
    admin.ask("PUT", "/uploads/link", content=b"mine", status=200)
    assert Path("/etc/passwd").read_text().startswith("root")


def test_uploads_go_on_where_they_broke_off(admin: Person) -> None:
    admin.ask("PUT", "/uploads/data/set.bin?start=0&total=10", content=b"01234", status=200)
    admin.ask("GET", "/files/data/set.bin", status=404)
    assert admin.ask("GET", "/uploads/data/set.bin").json()["bytes"] == 5
    admin.ask("PUT", "/uploads/data/set.bin?start=7&total=10", content=b"789", status=409)
    admin.ask("PUT", "/uploads/data/set.bin?start=5&total=10", content=b"56789", status=200)
    assert admin.ask("GET", "/files/data/set.bin", status=200).text == "0123456789"
    part = admin.ask("GET", "/files/data/set.bin", headers={"range": "bytes=2-4"}, status=206)
    assert (part.text, part.headers["content-range"]) == ("234", "bytes 2-4/10")
    assert admin.ask("GET", "/files/data/set.bin", headers={"range": "bytes=-3"}, status=206).text == "789"
    admin.ask("GET", "/files/data/set.bin", headers={"range": "bytes=10-"}, status=416)
    assert part.headers["content-disposition"].startswith("attachment")
    admin.ask("DELETE", "/files/data/set.bin", status=204)
    admin.ask("GET", "/files/data/set.bin", status=404)


def test_large_bodies_are_refused(admin: Person) -> None:
    admin.ask("POST", "/jobs", json={"name": "x", "command": "x" * (2 << 20)}, status=413)
    admin.ask("PUT", "/uploads/x", content=b"x" * (17 << 20), status=413)


def test_headers_of_every_answer(admin: Person, visit: Callable[[str], Person]) -> None:
    for answer in (admin.ask("GET", "/session"), visit("x").client.get("/nothing"), visit("x").client.get("/health")):
        headers = answer.headers
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_nothing_that_was_sent_becomes_a_header_or_a_line_of_the_log(admin: Person) -> None:
    admin.ask("PUT", "/uploads/a%0d%0aset-cookie:%20x=1", content=b"x", status=404)
    admin.client.post("/api/v1/session", json={"name": "a\nb\x1b[31m", "password": "wrong password"})
    entry = admin.ask("GET", "/audit").json()[0]
    assert entry["user"] == "a?b?[31m" and entry["outcome"] == "refused"


INJECTED = [
    "' OR '1'='1",
    "'; DROP TABLE jobs; --",
    '" OR ""="',
    "%",
    "_",
    "\\",
    "') UNION SELECT password FROM users --",
]


@pytest.mark.parametrize("value", INJECTED)
def test_sql_in_every_filter(person: Callable[..., Person], server: Server, admin: Person, value: str) -> None:
    admin.ask("POST", "/jobs", json=SLEEP, status=201)
    eve = person("eve")
    for name in ("site", "text", "state", "before", "limit", "mine"):
        answer = eve.ask("GET", "/jobs", params={name: value})
        assert answer.status_code in (200, 400) and "argon2" not in answer.text
        assert answer.status_code == 400 or answer.json()["jobs"] == []
    assert eve.ask("GET", f"/jobs/{value.replace('/', '')}").status_code in (400, 404)
    eve.ask("POST", "/session", json={"name": value, "password": value})
    assert admin.ask("GET", "/jobs?text=" + "nap", status=200).json()["jobs"]


def test_names_with_wildcards_are_plain(admin: Person) -> None:
    admin.ask("POST", "/jobs", json=SLEEP, status=201)
    assert admin.ask("GET", "/jobs", params={"text": "n%p"}).json()["jobs"] == []
    assert len(admin.ask("GET", "/jobs", params={"text": "nap"}).json()["jobs"]) == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"suite": "/etc/passwd"},
        {"suite": "../../etc/passwd.yaml"},
        {"suite": {"cases": ["noop:none:cpu:1:1:1"], "workloads": ["/etc"]}},
        {"suite": {"cases": [{"command": ["cat", "/etc/shadow"]}]}},
        {"suite": {"cases": [{"case": "noop:none:cpu:1:1:1", "cwd": "/"}]}},
        {"suite": "mnist:pytorch:cpu:1:1:1", "set": {"data": "/etc"}},
        {"suite": "mnist:pytorch:cpu:1:1:1", "set": {"checkpoint": "../x"}},
        {"suite": {"cases": ["mnist:pytorch:cpu:1:1:1@data=/etc"]}},
        {"suite": "noop:none:cpu:1:1:1", "image": "alpine --privileged -v /:/host"},
        {"suite": "noop:none:cpu:1:1:1", "image": "evil"},
        {"command": "true", "mounts": ["/"]},
        {"command": "true", "mounts": ["data"]},
        {"command": "true", "mounts": ["/:/host:rw"]},
        {"command": "true", "ports": [22]},
        {"command": "true", "ports": [40000]},
        {"command": "true", "secrets": ["../server.key"]},
        {"automl": {"schema": 1, "name": "x", "data": "/etc"}},
        {"automl": "/etc/passwd"},
        {"command": "true", "env": {"LD_PRELOAD": "/tmp/x.so"}},
        {"command": "true", "env": {"BASH_ENV": "/tmp/x"}},
        {"command": "true", "env": {"A B": "x"}},
        {"command": "true", "site": "../x"},
        {"command": "true", "suite": "noop"},
        {},
    ],
)
def test_jobs_that_reach_beyond_what_is_offered(admin: Person, spec: dict[str, Any]) -> None:
    answer = admin.ask("POST", "/jobs", json={"name": "evil", **spec})
    assert answer.status_code in (400, 403, 404), answer.text
    assert "root:" not in answer.text
    assert admin.ask("GET", "/jobs").json()["jobs"] == []


def test_containers_get_what_the_site_allows_and_nothing_else(admin: Person, server: Server) -> None:
    """Whatever is asked for, the engine is told the same: no privileges, and of the host the folders of the rules."""
    site = {"schema": 1, "launcher": "ssh", "hosts": ["h1"], "container": {"image": "base", "engine": "docker"}}
    (server.home.sites / "box.yaml").write_text(json.dumps(site))
    allowed = {"data": Mount("/srv/data", "/data"), "out": Mount("/srv/out", write=True)}
    server.rules = Rules(sites={"box": SiteRules(images=["good:1"], mounts=allowed)})
    spec = JobSpec("job", command="true", site="box", image="good:1", mounts=["data", "out"])
    plan = job_plans.plan(server.home, server.rules, "admin", "abcd", spec)
    assert plan.site.container is not None and plan.site.container.image == "good:1"
    assert plan.site.container.mounts == ["/srv/data:/data:ro", "/srv/out:/srv/out"]
    assert (plan.site.container.options, plan.site.container.capabilities) == ([], [])
    spec_of_request = {"name": "job", "command": "true", "site": "box"}
    for more in ({"image": "--privileged"}, {"image": "good:1 -v /:/host"}, {"mounts": ["/etc"]}, {"mounts": ["etc"]}):
        answer = admin.ask("POST", "/jobs/plan", json={**spec_of_request, **more})
        assert answer.status_code in (400, 403), (more, answer.text)
    for key in ("container", "options", "privileged", "capabilities", "user", "network"):
        admin.ask("POST", "/jobs/plan", json={**spec_of_request, key: "host"}, status=400)


def test_users_run_nothing_as_the_servers_account_unless_that_was_allowed(
    person: Callable[..., Person], server: Server
) -> None:
    bob, viewer = person("bob"), person("vic", "viewer")
    bob.ask("POST", "/jobs", json=SLEEP, status=403)
    server.rules = Rules(sites={"local": SiteRules(submit="users")})
    bob.ask("POST", "/jobs", json=SLEEP, status=201)
    bob.ask("POST", "/jobs", json={**SLEEP, "priority": 500}, status=403)
    viewer.ask("POST", "/jobs", json=SLEEP, status=403)


def test_a_command_is_kept_byte_for_byte(admin: Person, server: Server) -> None:
    text_of_it = "echo '$(id)' \"`id`\" {batch} ${x}; # 中文\r\n\ttail"
    job = admin.ask("POST", "/jobs", json={"name": "odd", "command": text_of_it}, status=201).json()["job"]["id"]
    file = server.home.job(job) / job_plans.COMMAND
    assert file.read_bytes() == text_of_it.encode()
    assert file.stat().st_mode & 0o777 == 0o600
    planned = admin.ask("POST", "/jobs/plan", json={"name": "odd", "command": text_of_it}, status=200).json()
    assert planned["cases"][0]["nodes"][0]["ranks"][0]["argv"] == ["%AGENT%", "worker", "0"]
    assert "$(id)" not in str(planned["cases"])
    assert planned["workers"]["argv"] == ["bash", "%DIR%/command.sh"]
    assert planned["workers"]["command"] == text_of_it


def test_the_audit_log_only_grows(server: Server, admin: Person) -> None:
    for change in (delete(audit), update(audit).values(user="nobody")):
        with pytest.raises(DatabaseError, match="append-only"), database.writing(server.engine) as connection:
            connection.execute(change)
    assert admin.ask("GET", "/audit").json()


def test_the_servers_folder_is_closed_to_others(server: Server) -> None:
    assert server.home.path.stat().st_mode & 0o077 == 0
    for name in ("server.db", "server.key"):
        assert (server.home.path / name).stat().st_mode & 0o077 == 0


def test_nothing_secret_is_in_the_database(server: Server, admin: Person) -> None:
    token = admin.token("read")
    cookie = admin.client.cookies["trainmark-session"]
    server.engine.dispose()
    kept = b"".join(file.read_bytes() for file in server.home.path.glob("server.db*"))
    for secret in (token, cookie, PASSWORD):
        assert secret.encode() not in kept


def test_too_many_requests_are_refused(tmp_path: Any) -> None:
    slow = open_server(Settings(tmp_path / "other", burst=5, per_second=0.001))
    with TestClient(make_app(slow)) as client:
        codes = [client.get("/health").status_code for _ in range(8)]
    assert codes == [200] * 5 + [429] * 3
    slow.engine.dispose()


def test_secure_cookies_behind_https(tmp_path: Any) -> None:
    from trainmark.web.service import accounts

    made = open_server(Settings(tmp_path / "other", secure=True))
    with database.writing(made.engine) as connection:
        link = accounts.first_start(connection)
    with TestClient(make_app(made), base_url="https://testserver.local") as client:
        answer = client.post("/api/v1/session/link", json={"link": link, "password": PASSWORD})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-") and "Secure" in cookie and "Path=/" in cookie
    assert "strict-transport-security" in answer.headers
    made.engine.dispose()
