"""Pages as a browser gets them: who sees what, in which language, and that nothing of a job becomes markup."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Person
from tests.web.test_jobs import ended, submit
from trainmark.i18n.catalogues import LABELS
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
    admin: Person, kept: Server, visit: Callable[[str], Person], person: Callable[..., Person]
) -> None:
    first, second = (submit(admin, suite="noop:none:cpu:1:1:2", preset="smoke") for _ in range(2))
    for job in (first, second):
        assert ended(admin, job)["state"] == "SUCCEEDED"
    assert first in look(admin, "/results").text
    report = look(admin, f"/results/{first}").text
    assert "noop:" in report and "<svg" in report and 'id="texts"' in report
    assert "结果" in look(admin, f"/results/{first}", **{"accept-language": "zh"}).text
    compared = look(admin, f"/compare?run={first}&run={second}").text
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


def test_cluster_shows_who_uses_what(admin: Person, server: Server) -> None:
    text = look(admin, "/cluster").text
    assert "local" in text and 'class="slot' in text
