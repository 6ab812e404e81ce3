"""Pages as a browser gets them: who sees what, in which language, and that nothing of a job becomes markup."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.web.conftest import Person
from tests.web.test_jobs import ended, submit
from trainmark import api
from trainmark.i18n.catalogues import LABELS
from trainmark.run import control
from trainmark.run.progress import Progress
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.web.pages import assets
from trainmark.web.pages.way_in import local
from trainmark.web.server import Server
from trainmark.web.service.rules import Rules, SiteRules

PAGE = {"accept": "text/html,application/xhtml+xml"}
PAGES = Path(assets.__file__).parent


def look(person: Person, path: str, status: int = 200, **headers: str) -> Any:
    answer = person.client.get(path, headers={**PAGE, **headers}, follow_redirects=False)
    assert answer.status_code == status, (path, answer.status_code, answer.text[:500])
    return answer


def test_strangers_are_asked_who_they_are_and_come_back(visit: Callable[[str], Person]) -> None:
    stranger = visit("nobody")
    for path in ("/", "/jobs?mine=true", "/submit", "/people", "/results/last"):
        assert look(stranger, path, 303).headers["location"].startswith("/sign-in?next=/")
    # A script that asks for a part of a page is told, and nothing else.
    assert stranger.client.get("/parts/jobs", headers={"accept": "text/plain"}).status_code == 401
    assert 'data-after="/jobs?mine=true"' in look(stranger, "/sign-in?next=/jobs%3Fmine=true").text


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/a\nb"])
def test_a_page_leads_back_to_this_server_only(path: str) -> None:
    assert local(path) == "/"


def test_policy_and_assets(admin: Person) -> None:
    page = look(admin, "/")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy and "default-src 'none'" in policy
    named = re.findall(r'(?:src|href)="([^"#]*/assets/[^"]+)"', page.text)
    assert len(named) >= 4
    for address in named:
        answer = admin.client.get(address)
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
    # No script and no style in the page itself, and no address of another server.
    assert not re.search(r"<script(?![^>]*(?:src=|type=\"application/json\"))", page.text)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page.text)
    assert "://" not in page.text
    for path in ("../view.py", "..%2fview.py", "js/../../view.py", "vendor.json"):
        assert admin.client.get(f"/assets/x/{path}").status_code == 404


def test_all_scripts_together_are_small_and_those_of_others_are_what_was_fetched() -> None:
    scripts = [one.content for name, one in assets.all_of_them().items() if name.endswith(".js")]
    assert sum(map(len, scripts)) <= 300_000
    listed = json.loads((PAGES / "static" / "vendor" / "vendor.json").read_text())
    for about in listed.values():
        assert about["licence"] == "MIT"
        for name, expected in about["sha256"].items():
            content = (PAGES / "static" / "vendor" / name).read_bytes()
            assert hashlib.sha256(content).hexdigest() == expected, name


def test_every_word_of_pages_is_in_the_catalogue_and_used() -> None:
    """Keys in templates and scripts, and those that are made of a name of a state, a role …"""
    text = "".join(file.read_text() for file in (PAGES / "templates").glob("*.html"))
    script = "".join(file.read_text() for file in (PAGES / "static" / "js").glob("*.js"))
    asked = {f"web.{key}" for key in re.findall(r"""\bt\(["']([a-z_.0-9]+)["'][,)]""", text)}
    asked |= {f"web.js.{key}" for key in re.findall(r"""\bsay\(\s*["']([a-z_0-9]+)["']""", script)}
    there = {key for key in LABELS if key.startswith("web.")}
    assert asked <= there, asked - there
    made = tuple(f"web.{group}" for group in re.findall(r"""\bt\(["']([a-z_.]+\.)["'] ~""", text))
    made += tuple(f"web.js.{group}" for group in re.findall(r"\bsay\(`([a-z_]+)\$", script))
    assert {key for key in there - asked if not key.startswith(made)} == set()


def test_both_languages_and_the_theme_are_remembered(admin: Person) -> None:
    assert "Measure this machine" in look(admin, "/").text
    assert "测量本机" in look(admin, "/", **{"accept-language": "zh-CN,zh;q=0.9"}).text
    assert look(admin, "/language/zh?next=/jobs", 303).headers["location"] == "/jobs"
    assert 'lang="zh"' in look(admin, "/jobs").text and "新建作业" in look(admin, "/jobs").text
    look(admin, "/theme/dark?next=//evil.example", 303)
    assert 'data-theme="dark"' in look(admin, "/").text


def test_pages_are_refused_as_the_api_is(person: Callable[..., Person], admin: Person, server: Server) -> None:
    server.rules = Rules(sites={"local": SiteRules(submit="users")})
    bob, eve, viewer = person("bob"), person("eve"), person("vic", "viewer")
    job = submit(bob, name="nap-of-bob", command="sleep 1")
    for tab in ("", "/console", "/metrics", "/files", "/plan", "/events"):
        assert "nap-of-bob" in look(bob, f"/jobs/{job}{tab}").text
        assert "nap-of-bob" not in look(eve, f"/jobs/{job}{tab}", 404).text
    assert job not in look(eve, "/jobs").text and job not in look(eve, "/").text
    assert job in look(admin, "/jobs").text
    look(eve, "/people", 403)
    look(viewer, "/submit", 403)
    assert 'href="/submit"' not in look(viewer, "/").text
    assert "data-do=" + '"measure"' not in look(viewer, "/").text


def test_what_a_job_says_is_never_markup(admin: Person, kept: Server) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    job = submit(admin, command=f"echo '{evil}'; echo '{evil}' > '<b>x.txt'; exit 3", env={"X": evil})
    ended(admin, job)
    for path in (f"/jobs/{job}", f"/jobs/{job}/files", f"/jobs/{job}/plan", f"/jobs/{job}/events", "/jobs", "/"):
        text = look(admin, path).text
        assert "<script>alert" not in text and "<img src=x" not in text and "<b>x" not in text
    assert "&lt;script&gt;alert" in look(admin, f"/jobs/{job}/plan").text
    # What a page puts into a script element for its own script ends no element.
    assert "</script><img" not in look(admin, f"/submit?from={job}").text
    # Searching repeats what was typed.
    assert "<script>x" not in look(admin, "/jobs?text=%3Cscript%3Ex").text
    assert "<script>x" not in look(admin, "/history?case=%3Cscript%3Ex").text


def test_results_compare_history_and_a_link_for_strangers(
    admin: Person,
    kept: Server,
    visit: Callable[[str], Person],
    person: Callable[..., Person],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (submit(admin, suite="noop:none:cpu:1:1:2", preset="smoke") for _ in range(2))
    for job in (first, second):
        assert ended(admin, job)["state"] == "SUCCEEDED"
    folder_of_first = next(kept.home.path.glob(f"**/{admin.ask('GET', f'/jobs/{first}').json()['job']['run']}"))
    first_run = folder_of_first.name
    assert first in look(admin, "/results").text
    report = look(admin, f"/results/{first}").text
    assert "noop:" in report and "<svg" in report and 'id="texts"' in report
    assert "结果" in look(admin, f"/results/{first}", **{"accept-language": "zh"}).text
    asked: list[Any] = []
    whole = api.compare
    monkeypatch.setattr(api, "compare", lambda *sides, **more: asked.append(more["runs"]) or whole(*sides, **more))
    compared = look(admin, f"/compare?run={first}&run={second}").text
    admin.ask("GET", f"/compare?a={first}&b={second}", status=200)
    # Occasions are those of one's own runs, not of whatever folder the server was started in.
    assert len(asked) == 2 and {folder / first_run for folder in asked} == {folder_of_first}
    assert "data-share" not in compared and "noop" in compared and compared.count('name="run" value=') >= 2
    assert "noop:none:cpu:1:1:2" in look(admin, "/history").text
    look(admin, "/history?case=noop:none:cpu:1:1:2")
    link = admin.ask("POST", f"/runs/{first}/shares", json={"days": 1}, status=201).json()["link"]
    seen = look(visit("stranger"), f"/shared/{link}").text
    assert "noop:" in seen and 'href="/jobs"' not in seen and "csrf" not in seen
    look(visit("stranger"), f"/shared/{link[:-1]}x", 404)
    eve = person("eve")
    look(eve, f"/results/{first}", 404)
    look(eve, f"/compare?run={first}&run={second}", 404)


def test_paths_below_a_root_path(server: Server, app: Any, admin: Person) -> None:
    """As uvicorn hands them over: with the root path before the path that came in."""
    server.settings = dataclasses.replace(server.settings, root_path="/bench")
    stranger = Person(server, TestClient(app[1], root_path="/bench"), "nobody")
    assert look(stranger, "/bench/jobs?mine=true", 303).headers["location"] == "/bench/sign-in?next=/jobs%3Fmine%3Dtrue"
    page = look(stranger, "/bench/sign-in?next=/jobs%3Fmine=true").text
    # The script puts the root path before.
    assert 'data-after="/jobs?mine=true"' in page and 'data-base="/bench"' in page
    assert 'href="/bench/language/zh?next=%2Fsign-in%3Fnext%3D%2Fjobs%253Fmine%3Dtrue"' in page
    answer = look(stranger, "/bench/language/zh?next=/jobs", 303)
    assert answer.headers["location"] == "/bench/jobs" and "Path=/bench;" in answer.headers["set-cookie"]
    missing = look(stranger, "/bench/nowhere", 404).text
    assert "next=%2Fnowhere" in missing and "/bench/bench" not in missing


def test_home_counts_all_jobs(admin: Person, server: Server) -> None:
    for _ in range(23):
        submit(admin, name="nap", command="sleep 1")
    text = look(admin, "/").text
    assert "<dt>Waiting</dt><dd>23</dd>" in text and text.count('class="jobname"') == 20


def test_rounds_that_matter_come_first_and_a_torn_journal_is_told(
    admin: Person, kept: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(admin, command="exit 3")
    ended(admin, job)
    run = next(kept.home.path.glob(f"**/{admin.ask('GET', f'/jobs/{job}').json()['job']['run']}"))
    assert "cannot be read" not in look(admin, f"/jobs/{job}").text
    states = [JobState.SUCCEEDED] * 300 + [JobState.FAILED, JobState.RUNNING]
    seen = Progress("RUNNING", 1.0, 7, None, None, "training")
    rounds = [
        control.RoundStatus("noop", "samples", number, 1, state, None, seen if state is JobState.RUNNING else None)
        for number, state in enumerate(states)
    ]
    with monkeypatch.context() as many:
        many.setattr(control, "status", lambda run: control.RunStatus(run.id, JobState.RUNNING, None, rounds))
        text = look(admin, f"/parts/jobs/{job}/overview").text
        badges = re.findall(r'<span class="badge (\w+)"', text)
        assert badges[:3] == ["run", "bad", "good"] and len(badges) == 200
        told = look(admin, f"/parts/jobs/{job}/overview", **{"accept-language": "zh"}).text
        assert seen.text("samples", "zh") in told and seen.text("samples") not in told
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"k": "at\n')
    assert "journal that cannot be read: 1" in look(admin, f"/jobs/{job}").text
    (run / "manifest.json").write_text("{")
    assert 'class="lead warn"' in look(admin, f"/parts/jobs/{job}/overview").text
    (run / "manifest.json").unlink()
    assert 'class="lead warn"' not in look(admin, f"/parts/jobs/{job}/overview").text


def test_jobs_and_results_are_chosen_by_site(admin: Person, server: Server) -> None:
    submit(admin, name="here", command="true")
    assert 'name="site"' not in look(admin, "/jobs").text  # there is one site only
    (server.home.sites / "lab.yaml").write_text("launcher: ssh\nhosts: [n1]\n")
    assert "here" in look(admin, "/jobs?site=local").text
    assert (
        ">here<" not in look(admin, "/jobs?site=lab").text
        and 'value="lab" selected' in look(admin, "/results?site=lab").text
    )


def test_a_broken_site_closes_no_page(admin: Person, server: Server) -> None:
    (server.home.sites / "broken.yaml").write_text("launcher: [")
    assert 'value="local"' in look(admin, "/submit").text
    assert "broken" in look(admin, "/cluster").text


def test_events_and_actions_have_words() -> None:
    sources = "".join(file.read_text() for file in PAGES.parent.rglob("*.py"))
    actions = set(re.findall(r'audit\.note\((?:[^"()]|\([^()]*\))*"([a-z]+\.[a-z]+)"', sources))
    assert len(actions) > 15
    kinds = {getattr(journal, name) for name in ("OWNER", "ATTEMPT", "SUBMITTED", "WAITING", "BEGAN", "ENDED")}
    kinds |= {journal.ENOUGH, journal.SKIPPED, journal.STOP, journal.FINISHED, "queued"}
    wanted = {f"web.action.{one}" for one in actions} | {f"web.event.{one}" for one in kinds}
    assert wanted <= set(LABELS)


def test_cluster_shows_who_uses_what(admin: Person, server: Server) -> None:
    text = look(admin, "/cluster").text
    assert "local" in text and 'class="slot' in text
