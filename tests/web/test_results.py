"""Runs as results: lists, reports, links for others, hosts, what happened; and several jobs at once."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy import update

from tests.web.conftest import CASE, Person
from trainmark.run import machine
from trainmark.store.rundir import RunDir
from trainmark.web.api import stream_routes
from trainmark.web.server import Server
from trainmark.web.service import database, jobs, runs, samples
from trainmark.web.service.errors import TooMany
from trainmark.web.service.rules import Rules, SiteRules
from trainmark.web.service.tables import jobs as table
from trainmark.web.service.tables import shares


def test_runs_in_pages_and_by_filters(admin: Person, measured: Callable[..., tuple[str, RunDir]]) -> None:
    made = [measured(admin, f"run{number}") for number in range(3)]
    admin.ask("POST", "/jobs", json={"name": "waits", "command": "true"}, status=201)
    first = admin.ask("GET", "/runs?limit=2", status=200).json()
    assert [one["name"] for one in first["runs"]] == ["run2", "run1"]
    assert first["runs"][0]["cases"] == first["runs"][0]["succeeded"] == 1
    second = admin.ask("GET", f"/runs?limit=2&before={first['next']}", status=200).json()
    assert [one["run"] for one in second["runs"]] == [made[0][1].id] and second["next"] is None
    for asked, count in [
        ("text=run1", 1),
        (f"text={made[0][1].id}", 1),
        ("text=r%25n", 0),
        ("owner=admin", 3),
        ("owner=bob", 0),
        ("state=FAILED", 0),
        ("kind=command", 0),
        ("site=local&kind=benchmark&mine=true&state=SUCCEEDED", 3),
        ("pinned=true", 0),
    ]:
        assert len(admin.ask("GET", f"/runs?{asked}", status=200).json()["runs"]) == count, asked
    admin.ask("PUT", f"/runs/{made[1][0]}/pin", status=200)
    assert [one["name"] for one in admin.ask("GET", "/runs?pinned=true").json()["runs"]] == ["run1"]
    admin.ask("DELETE", f"/runs/{made[1][1].id}/pin", status=204)
    assert admin.ask("GET", "/runs?pinned=true").json()["runs"] == []


def test_one_run_its_report_and_its_curves(admin: Person, measured: Callable[..., tuple[str, RunDir]]) -> None:
    job, run = measured(admin, "one")
    for name in (job, run.id, job[:8], "last"):
        found = admin.ask("GET", f"/runs/{name}", status=200).json()
        assert found["run"]["job"] == job
    result = found["results"][0]
    assert result["case"] == CASE and result["counted"] == 3
    assert result["low"] < result["throughput"] < result["high"]
    assert result["throughput"] == pytest.approx(80.0, rel=0.05)
    assert admin.ask("GET", f"/runs/{run.id}/report", status=200).json()["cases"][0]["case"] == CASE
    page = admin.ask("GET", f"/runs/{run.id}/report?format=html&language=zh", status=200)
    assert page.headers["content-type"].startswith("text/html")
    assert "sandbox" in page.headers["content-security-policy"]
    assert "case" in admin.ask("GET", f"/runs/{run.id}/report?format=csv", status=200).text
    curves = admin.ask("GET", f"/runs/{run.id}/curves", status=200).json()
    assert curves["case"] == CASE and curves["round"] == 3
    assert any(one["name"] == "step time" and len(one["x"]) == len(one["y"]) > 10 for one in curves["curves"])
    assert any(one["name"].endswith("cpu") for one in curves["curves"])


def test_a_job_without_a_run(admin: Person) -> None:
    job = admin.ask("POST", "/jobs", json={"name": "waits", "command": "true"}, status=201).json()["job"]
    assert job["reason"] == "waits for its turn; it is the next"
    for path in (f"/runs/{job['id']}", f"/runs/{job['id']}/report", f"/jobs/{job['id']}/report"):
        admin.ask("GET", path, status=409)
    told = admin.ask("GET", f"/jobs/{job['id']}", headers={"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"}).json()
    assert told["job"]["reason"] == "排队等待；下一个就是它"
    answer = admin.ask("GET", "/jobs/nothing", headers={"accept-language": "zh"}, status=404).json()
    assert answer["detail"] == "没有作业 `nothing`"


def test_comparing_and_history(admin: Person, measured: Callable[..., tuple[str, RunDir]]) -> None:
    slow, fast = measured(admin, "slow", 0.2)[1].id, measured(admin, "fast", 0.1)[0]
    found = admin.ask("GET", f"/compare?a={slow}&b={fast}", status=200).json()
    assert found[0]["cases"][0]["verdict"]["word"] == "faster"
    assert "mnist" in admin.ask("GET", f"/compare?a={slow}&b={fast}&format=text&language=zh", status=200).text
    admin.ask("GET", f"/compare?a={slow}&b={fast}&metric=nonsense", status=400)
    admin.ask("GET", f"/compare?a={slow}&b=nothing", status=404)
    assert len(admin.ask("GET", f"/history?case={CASE}", status=200).json()[0]["entries"]) == 2


def test_links_show_one_run_until_they_end(
    admin: Person,
    visit: Callable[[str], Person],
    person: Callable[..., Person],
    server: Server,
    measured: Callable[..., tuple[str, RunDir]],
) -> None:
    server.rules = Rules(sites={"local": SiteRules(submit="users")})
    bob, eve, stranger = person("bob"), person("eve"), visit("nobody")
    job, run = measured(bob, "shown")
    made = bob.ask("POST", f"/runs/{run.id}/shares", json={"days": 2}, status=201).json()
    link = made["link"]
    assert stranger.ask("GET", f"/shared/{link}", status=200).json()["run"]["run"] == run.id
    assert stranger.ask("GET", f"/shared/{link}/report?format=html", status=200).text.startswith("<!")
    assert stranger.ask("GET", f"/shared/{link}/curves", status=200).json()["curves"]
    # Its results are made only where they are asked for.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runs, "_detail", None)
        assert stranger.ask("GET", f"/shared/{link}/report", status=200).json()["cases"]
        assert stranger.ask("GET", f"/shared/{link}/curves", status=200).json()["curves"]
    # It opens nothing else, changes nothing, and only the owner gives and ends it.
    stranger.ask("GET", f"/runs/{run.id}", status=401)
    stranger.ask("GET", f"/jobs/{job}/files", status=401, headers={"authorization": f"Bearer {link}"})
    stranger.ask("DELETE", f"/shared/{link}", status=405)
    stranger.ask("GET", f"/shared/{'A' * 43}", status=404)
    eve.ask("POST", f"/runs/{run.id}/shares", json={}, status=404)
    bob.ask("PATCH", f"/jobs/{job}", json={"visibility": "all"}, status=200)
    eve.ask("POST", f"/runs/{run.id}/shares", json={}, status=403)
    eve.ask("DELETE", f"/runs/{run.id}/shares/{made['share']['id']}", status=403)
    assert link not in bob.ask("GET", f"/runs/{run.id}/shares", status=200).text
    with database.writing(server.engine) as connection:
        connection.execute(update(shares).values(expires=1.0))
    stranger.ask("GET", f"/shared/{link}", status=404)
    newer = bob.ask("POST", f"/runs/{run.id}/shares", json={}, status=201).json()
    stranger.ask("GET", f"/shared/{newer['link']}", status=200)
    bob.ask("DELETE", f"/runs/{run.id}/shares/{newer['share']['id']}", status=204)
    stranger.ask("GET", f"/shared/{newer['link']}", status=404)
    last = bob.ask("POST", f"/runs/{run.id}/shares", json={}, status=201).json()["link"]
    admin.ask("PATCH", "/users/2", json={"disabled": True}, status=200)
    stranger.ask("GET", f"/shared/{last}", status=404)


def test_hosts_and_devices_tell_who_holds_them(admin: Person, person: Callable[..., Person], server: Server) -> None:
    (server.home.sites / "lab.yaml").write_text(
        "schema: 1\nlauncher: ssh\nhosts: [n1, n2]\naccelerators: {device: nvidia, count: 8}\n"
    )
    server.rules = Rules(sites={"local": SiteRules(slots=4)})
    here = os.uname().nodename
    job = admin.ask("POST", "/jobs", json={"name": "held", "command": "true"}, status=201).json()["job"]["id"]
    with database.writing(server.engine) as connection:
        connection.execute(update(table).where(table.c.id == job).values(run="r1", state="RUNNING"))
    run = server.home.runs(1) / "r1"
    assert machine.try_claim(run, {here: [0, 2]}) == []
    try:
        hosts = admin.ask("GET", "/hosts", status=200).json()
        assert [one["name"] for one in hosts] == [here, "n1", "n2"]
        assert (hosts[0]["slots"], hosts[0]["free"], hosts[0]["sites"]) == (4, 2, ["local"])
        assert hosts[0]["uses"] == [{"slots": [0, 2], "job": job, "name": "held", "owner": "admin"}]
        devices = {one["site"]: one for one in admin.ask("GET", "/devices", status=200).json()}
        assert (devices["lab"]["hosts"], devices["lab"]["count"], devices["lab"]["free"]) == (2, 16, 16)
        assert (devices["local"]["count"], devices["local"]["free"]) == (4, 2)
        # Another user sees that it is held, not by what.
        uses = person("eve").ask("GET", "/hosts", status=200).json()[0]["uses"]
        assert uses == [{"slots": [0, 2], "job": None, "name": None, "owner": None}]
    finally:
        machine.release(run)


def test_what_happened_to_a_job(admin: Person, measured: Callable[..., tuple[str, RunDir]]) -> None:
    job, _ = measured(admin, "told")
    events = admin.ask("GET", f"/jobs/{job}/events", status=200).json()
    kinds = [one["kind"] for one in events]
    assert kinds.count("attempt") == 3 and "queued" in kinds and "finished" in kinds
    assert {one["case"] for one in events if one["kind"] == "attempt"} == {CASE}


def test_several_jobs_are_stopped_each_by_itself(admin: Person, person: Callable[..., Person], server: Server) -> None:
    server.rules = Rules(sites={"local": SiteRules(submit="users")})
    bob = person("bob")
    mine = [bob.ask("POST", "/jobs", json={"name": "n", "command": "true"}).json()["job"]["id"] for _ in range(2)]
    other = admin.ask("POST", "/jobs", json={"name": "n", "command": "true"}).json()["job"]["id"]
    asked = {"jobs": [mine[0], other, mine[1], mine[0], "nothing"]}
    told = bob.ask("POST", "/jobs/stop", json=asked, status=202).json()
    assert [(one["job"], one["state"]) for one in told] == [
        (mine[0], "CANCELLED"),
        (other, None),
        (mine[1], "CANCELLED"),
        ("nothing", None),
    ]
    assert "no job" in told[1]["problem"]
    assert admin.ask("GET", f"/jobs/{other}").json()["job"]["state"] == "PENDING"
    bob.ask("POST", "/jobs/stop", json={"jobs": ["x"] * 1001}, status=400)
    assert len(bob.ask("GET", "/jobs?active=true").json()["jobs"]) == 0


def test_priorities_change_while_a_job_waits(admin: Person, person: Callable[..., Person], server: Server) -> None:
    server.rules = Rules(sites={"local": SiteRules(submit="users")})
    bob = person("bob")
    job = bob.ask("POST", "/jobs", json={"name": "n", "command": "true"}).json()["job"]["id"]
    assert bob.ask("PATCH", f"/jobs/{job}", json={"priority": 150}, status=200).json()["job"]["priority"] == 150
    bob.ask("PATCH", f"/jobs/{job}", json={"priority": 201}, status=403)
    bob.ask("PATCH", f"/jobs/{job}", json={"priority": 1001}, status=400)
    assert admin.ask("PATCH", f"/jobs/{job}", json={"priority": 900}, status=200).json()["job"]["priority"] == 900


def test_whoever_leaves_before_the_first_event_is_not_counted(server: Server) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        for one in ():
            yield one

    answers = [stream_routes._events(server, nothing()) for _ in range(3)]
    assert server.followers == 0 and len(answers) == 3
    server.followers = stream_routes.MOST_FOLLOWERS
    with pytest.raises(TooMany):
        stream_routes._events(server, nothing())


def test_samples_are_streamed_and_go_on_where_they_broke_off(
    admin: Person, server: Server, measured: Callable[..., tuple[str, RunDir]]
) -> None:
    job, run = measured(admin, "sampled")
    with admin.client.stream("GET", f"/api/v1/jobs/{job}/metrics/stream") as stream:
        lines = "".join(stream.iter_text()).splitlines()
    found = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith('data: {"host"')]
    assert len(found) > 3 and found[0]["host"] == "n1" and "cpu" in found[0]["sample"]
    last = [line for line in lines if line.startswith("id: ")][-1].removeprefix("id: ")
    with admin.client.stream("GET", f"/api/v1/jobs/{job}/metrics/stream", headers={"last-event-id": last}) as stream:
        again = "".join(stream.iter_text())
    assert "event: sample" not in again and "event: end" in again
    # What another attempt left off at is not taken for this one's.
    assert samples.following(run, "other/round1/attempt1", {0: 10**9})[1]
    assert jobs.need_run(server, _admin(), job).id == run.id


def _admin() -> jobs.Principal:
    return jobs.Principal(1, "admin", "admin", frozenset(), frozenset({"read", "submit", "admin"}))
