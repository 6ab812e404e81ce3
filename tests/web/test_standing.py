"""How runs and hosts stand: baselines, verdicts, the leaderboard, phases of a job, one host over time, acceptance."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

import msgspec
import pytest
from sqlalchemy import update

from tests.report import samples
from tests.web.conftest import CASE, Person
from trainmark.reasons import reason
from trainmark.run import machine
from trainmark.store.rundir import RunDir
from trainmark.web.server import Server
from trainmark.web.service import board, database, host_history, timeline
from trainmark.web.service.figures import Figures
from trainmark.web.service.job_plans import WORK
from trainmark.web.service.tables import jobs as table

Measured = Callable[..., tuple[str, RunDir]]


def look(who: Person, path: str) -> str:
    answer = who.client.get(path, headers={"accept": "text/html"}, follow_redirects=False)
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def test_a_run_is_held_against_the_baseline_else_against_the_one_before(admin: Person, measured: Measured) -> None:
    first, slow, fast = (measured(admin, "night", seconds)[0] for seconds in (0.1, 0.2, 0.1))
    assert admin.ask("GET", f"/runs/{first}/verdict", status=200).json()["job"] is None
    found = admin.ask("GET", f"/runs/{fast}/verdict", status=200).json()
    assert (found["job"], found["baseline"], found["word"]) == (slow, False, "faster")
    assert admin.ask("PUT", f"/runs/{first}/baseline", status=200).json()["hosts"] == ["n1"]
    assert [one["suite"] for one in admin.ask("GET", "/baselines", status=200).json()] == ["mnist"]
    found = admin.ask("GET", f"/runs/{slow}/verdict", status=200).json()
    assert (found["job"], found["baseline"], found["word"]) == (first, True, "slower")
    assert found["ratio"] == pytest.approx(0.5, rel=0.05)
    # The baseline itself is held against nothing; the page says what it is.
    assert admin.ask("GET", f"/runs/{first}/verdict", status=200).json()["job"] is None
    assert "disabled>Baseline" in look(admin, f"/results/{first}")
    assert look(admin, "/").count("data-verdict=") == 2


def test_a_baseline_that_one_may_not_see_or_that_was_removed_is_no_error(
    admin: Person, person: Callable[..., Person], measured: Measured
) -> None:
    (first, run), (shown, _) = measured(admin, "night"), measured(admin, "night")
    admin.ask("PUT", f"/runs/{first}/baseline", status=200)
    admin.ask("PATCH", f"/jobs/{shown}", json={"visibility": "all"}, status=200)
    bob = person("bob")
    assert bob.ask("GET", f"/runs/{shown}/verdict", status=200).json()["job"] is None
    assert first not in look(bob, "/")
    shutil.rmtree(run.path)
    found = admin.ask("GET", f"/runs/{shown}/verdict", status=200).json()
    assert (found["job"], found["word"]) == (first, None)


def test_only_the_owner_of_a_run_that_succeeded_makes_it_a_baseline(
    admin: Person, person: Callable[..., Person], measured: Measured, server: Server
) -> None:
    job = measured(admin, "one")[0]
    admin.ask("PATCH", f"/jobs/{job}", json={"visibility": "all"}, status=200)
    person("bob").ask("PUT", f"/runs/{job}/baseline", status=403)
    with database.writing(server.engine) as connection:
        connection.execute(update(table).where(table.c.id == job).values(state="FAILED"))
    assert "only one that succeeded" in admin.ask("PUT", f"/runs/{job}/baseline", status=409).text


def test_the_leaderboard_has_the_best_run_of_each_system_that_one_may_see(
    admin: Person, person: Callable[..., Person], measured: Measured, server: Server
) -> None:
    assert "Nobody is on the board yet" in look(admin, "/leaderboard")
    slow, fast = measured(admin, "slow", 0.2)[0], measured(admin, "fast", 0.1)[0]
    found = admin.ask("GET", "/leaderboard", status=200).json()
    assert [(one["job"], one["place"], one["owner"]) for one in found["standings"]] == [(fast, 1, "admin")]
    assert found["unread"] == 0 and f"/results/{fast}" in look(admin, "/leaderboard")
    bob = person("bob")
    assert bob.ask("GET", "/leaderboard", status=200).json()["standings"] == []
    admin.ask("PATCH", f"/jobs/{slow}", json={"visibility": "all"}, status=200)
    assert [one["job"] for one in bob.ask("GET", "/leaderboard").json()["standings"]] == [slow]
    # Figures are kept: another server finds them, and a line that was cut short is made again.
    again = Figures(server.home.path / "figures.jsonl")
    assert len(again.known()) == 2
    with (server.home.path / "figures.jsonl").open("ab") as file:
        file.write(b'{"run": "x"')
    assert len(Figures(server.home.path / "figures.jsonl").known()) == 2


def test_runs_are_read_for_the_leaderboard_little_by_little(
    admin: Person, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(admin, "one")
    monkeypatch.setattr(board, "READ_SECONDS", -1.0)
    assert admin.ask("GET", "/leaderboard", status=200).json() == {"standings": [], "unread": 1}
    assert "still being read" in look(admin, "/leaderboard")


def test_phases_of_a_job(admin: Person, measured: Measured) -> None:
    job, run = measured(admin, "one")
    found = msgspec.convert(admin.ask("GET", f"/jobs/{job}/timeline", status=200).json(), list[timeline.Span])
    assert found[0].phase == "queued" and found[0].lane == ""
    assert {one.lane for one in found[1:]} == {CASE} and {one.round for one in found[1:]} == {1, 2, 3}
    assert all(one.end is not None and one.end >= one.begin for one in found[1:])
    page = look(admin, f"/jobs/{job}")
    assert page.count('class="phase-lane"') == 2 and "in the queue" in page
    (run.path / "manifest.json").write_text("{")
    assert len(admin.ask("GET", f"/jobs/{job}/timeline", status=200).json()) == 1


def test_one_host_over_time(admin: Person, measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.uname().nodename
    jobs = [measured(admin, f"run{number}", seconds) for number, seconds in enumerate((0.1, 0.1, 0.2))]
    admin.ask("GET", "/leaderboard", status=200)  # reads their figures
    found = msgspec.convert(admin.ask("GET", f"/hosts/{here}", status=200).json(), host_history.HostDetail)
    assert [one.id for one in found.jobs] == [job for job, _ in reversed(jobs)]
    assert [one.relative for one in found.speeds] == pytest.approx([1.0, 1.0, 0.5], rel=0.05)
    assert found.reading is None
    # What holds it tells what it measures.
    monkeypatch.setattr(machine, "claims", lambda: [machine.Claim(str(jobs[0][1].path), {here: None}, {}, 0.0)])
    monkeypatch.setattr(host_history, "_reading", lambda at, sample: host_history.Reading(at, 0.5, 2e9, 123.0, []))
    assert admin.ask("GET", "/readings", status=200).json()
    page = look(admin, f"/cluster/{here}")
    assert "Speed of its runs" in page and "run2" in page and "<svg" in page
    admin.ask("GET", "/hosts/nowhere", status=404)


def test_devices_are_read_from_the_newest_sample() -> None:
    devices = [{"index": 2, "temperature_c": 61, "power_w": 250.5}, "x", {"index": "x", "power_w": "much"}]
    sample = {"t": 1, "cpu": 0.5, "mem_used": 7, "devices": devices}
    found = host_history._reading(9.0, sample)
    assert (found.cpu, found.memory_used, found.power) == (0.5, 7.0, None)
    unknown = host_history.DeviceReading(2, None, None, None, None)
    assert found.devices == [host_history.DeviceReading(2, None, None, 61.0, 250.5), unknown]


def test_acceptance_of_a_site_is_a_job_whose_verdict_is_shown(
    admin: Person, person: Callable[..., Person], server: Server
) -> None:
    assert "needs several hosts" in admin.ask("POST", "/sites/local/accept", status=409).text
    (server.home.sites / "lab.yaml").write_text("launcher: ssh\nhosts: [n1, n2]\n")
    bob = person("bob")
    bob.ask("POST", "/sites/lab/accept", status=403)
    made = admin.ask("POST", "/sites/lab/accept", status=201).json()
    assert made["job"]["name"] == "accept-lab" and made["spec"]["env"]["ACCEPT_PYTHON"] == sys.executable
    assert admin.ask("GET", "/sites/lab/acceptance", status=200).json()["verdict"] is None
    with database.writing(server.engine) as connection:
        connection.execute(update(table).where(table.c.id == made["job"]["id"]).values(state="FAILED", ended=2.0))
    verdict = samples.acceptance()
    nodes = [msgspec.structs.replace(node, reason=[reason("no-speed")]) for node in verdict.nodes]
    verdict = msgspec.structs.replace(verdict, nodes=nodes, links=None, held=[], notes=[], not_tested=[])
    file = server.home.job(made["job"]["id"]) / WORK / "acceptance.json"
    file.write_bytes(msgspec.json.encode(verdict))
    found = bob.ask("GET", "/sites/lab/acceptance", status=200).json()
    assert found["verdict"]["verdict"] == verdict.verdict
    bad = next(node for node in verdict.nodes if node.word == "bad")
    assert bad.node in look(bob, "/cluster")
    # A job of this name that a user runs is no verdict, and neither is a link in place of the file.
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert bob.ask("GET", "/sites/lab/acceptance", status=200).json()["verdict"] is None
