"""The pages in a real browser, from the first start to a report that a stranger reads. `make test-web`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("litestar")
pytestmark = pytest.mark.web

PASSWORD = "correct horse battery"
AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text(encoding="utf-8")
RULES = "schema: 1\nsites:\n  local: {submit: users, slots: 4}\n"
# It trains nothing, for as long as somebody looks; what it says is hostile.
EVIL = "<script>document.title='broken'</script>"
TALK = rf"""import os, sys, time
print("<b>rank</b>", os.environ.get("RANK", "?"), "{EVIL}")
print("\x1b[32mgreen\x1b[0m \x1b]0;title\x07\x1b[2J\x1b[999;999Hhome", flush=True)
print("x" * 10_000_000, flush=True)
print("".join(f"bar {{number}}\r" for number in range(3000)) + "bar done 木", flush=True)
open("<img src=x onerror=document.title='broken'>.txt", "w").write("{EVIL}")
for number in range(2000):
    print("tick", number, flush=True)
    time.sleep(0.2)
"""


class Seen:
    """A browser's page that keeps everything it complained of."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.address = address
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))

    def go(self, path: str) -> Any:
        self.page.goto(self.address + path)
        return self.page

    def check(self) -> None:
        """No complaint, nothing wider than the window, nothing that keeps people out."""
        assert self.complaints == []
        assert self.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, self.page.url
        with_axe = self.page.evaluate(f"() => {{ const module = undefined; {AXE}; return axe.run(document); }}")
        assert [(one["id"], one["nodes"][0]["html"]) for one in with_axe["violations"]] == [], self.page.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("TRAINMARK_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.fail("no Chromium on this machine: run tools/get-chromium as root")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program)
        yield started
        started.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A server as a process: its address, and the link of the first admin."""
    home = tmp_path / "home"
    home.mkdir(0o700)
    (home / "server.yaml").write_text(RULES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = tmp_path / "said"
    command = [sys.executable, "-m", "trainmark", "serve", "--home", str(home), "--port", str(port)]
    env = {**os.environ, "TRAINMARK_CACHE": str(tmp_path / "cache")}
    with said.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"(http://\S+)(/link#\S+)", said.read_text())):
            assert process.poll() is None and time.monotonic() < deadline, said.read_text()
            time.sleep(0.1)
        yield found[1], found[2]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def set_password(seen: Seen, link: str) -> None:
    page = seen.go(link)
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=again]", PASSWORD)
    page.click("[type=submit]")
    page.wait_for_url(seen.address + "/")


def state_is(page: Any, state: str, seconds: float = 60) -> None:
    page.wait_for_selector(f"h1 .badge[data-state={state}]", timeout=seconds * 1000)


def submit_command(page: Any, address: str, name: str, command: str, processes: int = 1) -> str:
    page.goto(address + "/submit")
    page.click("[data-kind=command]")
    page.fill("[name=name]", name)
    page.fill("[name=command]", command)
    page.fill("[name=processes]", str(processes))
    page.fill("[name=devices]", str(processes))
    page.click("form [type=submit]")
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f]{16}$"))
    return str(page.url.rpartition("/")[2])


# Pixels of charts that are no shade of grey.
COLOURED = """() => [...document.querySelectorAll(".chart:not([hidden]) canvas")].reduce((sum, canvas) => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  for (let at = 0; at < data.length; at += 4) {
    const [low, high] = [Math.min(...data.slice(at, at + 3)), Math.max(...data.slice(at, at + 3))];
    if (data[at + 3] > 200 && high - low > 70) sum++;
  }
  return sum;
}, 0)"""


def as_of_two_nodes(page: Any) -> None:
    """The samples of the only node once more, as if another had taken them."""
    known: dict[str, str] = {}

    def listing(route: Any) -> None:
        answer = route.fetch()
        found = answer.json()
        for one in [one for one in found["run"] if one["path"].endswith("/samples.jsonl")]:
            attempt, known["name"], file = one["path"].rsplit("/", 2)
            found["run"].append({**one, "path": f"{attempt}/other_noderank1/{file}"})
        route.fulfill(response=answer, json=found)

    def samples(route: Any) -> None:
        route.fulfill(response=route.fetch(url=route.request.url.replace("other_noderank1", known["name"])))

    page.route("**/api/v1/jobs/*/files", listing)
    page.route("**/other_noderank1/samples.jsonl", samples)


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), (390, "zh")])
def test_from_the_first_start_to_a_report_for_strangers(
    browser: Any, served: tuple[str, str], tmp_path: Path, width: int, language: str
) -> None:
    address, link = served
    window = {"width": width, "height": 900}
    admin, bob, eve, stranger = (Seen(browser, address, viewport=window, locale=language) for _ in range(4))

    # The first admin, and a user of each kind.
    set_password(admin, link)
    admin.check()
    links = {}
    for name in ("bob", "eve"):
        page = admin.go("/people")
        page.fill("[data-form=new-user] [name=name]", name)
        page.click("[data-form=new-user] [type=submit]")
        links[name] = page.inner_text("dialog .secret code").removeprefix(address)
        admin.check()
    set_password(bob, links["bob"])
    set_password(eve, links["eve"])

    # A command by the form; errors stand at their field.
    talk = tmp_path / "talk.py"
    talk.write_text(TALK)
    page = bob.go("/submit")
    page.click("[data-kind=command]")
    page.fill("[name=name]", "bad name!")
    page.click("form [type=submit]")
    page.wait_for_selector("[data-error=name]:not([hidden])")
    assert page.get_attribute("[name=name]", "aria-invalid") == "true"
    assert bob.complaints.pop().startswith("Failed to load resource: the server responded with a status of 400")
    # YAML changes the form, and the form the YAML.
    page.fill("[data-yaml]", "name: by-yaml\ncommand: echo hi\nprocesses: 2\n")
    assert page.input_value("[name=name]") == "by-yaml" and page.input_value("[name=processes]") == "2"
    page.click("form details > summary")
    page.fill("[name=priority]", "150")
    assert "priority: 150" in page.input_value("[data-yaml]")
    # What the form has no field or no choice for stays.
    case = "noop:none_9:other:1:2:auto@batch_size=4"
    page.fill("[data-yaml]", f"name: by-yaml\nsuite: {case}\n")
    page.fill("[name=priority]", "140")
    assert f"suite: {case}" in page.input_value("[data-yaml]")
    # What is sent is what the YAML says, also what makes no sense: the server says so.
    page.fill("[data-yaml]", "name: by-yaml\nsuite: noop:none:cpu:1:1:1\nenv: {A: b}\n")
    page.click("[data-dry]")
    page.wait_for_selector("[data-error-all]:not([hidden])")
    assert "distributed" in page.inner_text("[data-error-all]")
    assert bob.complaints.pop().startswith("Failed to load resource: the server responded with a status of 400")
    page.fill("[data-yaml]", "name: [")
    assert page.is_visible("[data-error=yaml]")
    bob.check()
    job = submit_command(page, address, "talk-of-bob", f"{sys.executable} {talk}")
    state_is(page, "RUNNING")
    bob.check()

    # The console, live: hostile text as text.
    page = bob.go(f"/jobs/{job}/console")
    page.wait_for_selector(".screen .row:has-text('tick')")
    before = page.inner_text(".screen [data-lines]")
    page.wait_for_function("before => document.querySelector('.screen [data-lines]').innerText !== before", arg=before)
    page.select_option("[data-rank]", "0")
    page.fill("[data-search]", "green")
    page.press("[data-search]", "Enter")
    page.wait_for_selector(".screen mark:text-is('green')")
    assert page.locator(".screen .row:has(mark)").inner_text() == "green home"
    page.fill("[data-search]", "bar")
    page.press("[data-search]", "Enter")
    page.wait_for_selector(".screen mark:text-is('bar')")
    assert page.locator(".screen .row:has(mark)").inner_text() == "bar done 木"
    page.fill("[data-search]", "<script>")
    page.press("[data-search]", "Enter")
    page.wait_for_selector(".screen mark")
    assert "document.title=" in page.locator(".screen .row:has(mark)").inner_text()
    assert page.locator(".screen script, .screen b").count() == 0 and "broken" not in page.title()
    longest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.screen .row')].map(row => row.innerText.length))"
    )
    assert longest < 5000
    bob.check()

    # Curves move.
    page = bob.go(f"/jobs/{job}/metrics")
    page.wait_for_selector(".chart:not([hidden]) canvas")
    count = "() => Number(document.querySelector('[data-charts]').dataset.samples)"
    first = page.evaluate(count)
    page.wait_for_function(f"first => ({count})() > first", arg=first)
    bob.check()
    # Of several nodes, too: their samples take turns, and lines are drawn all the same.
    as_of_two_nodes(page)
    page.reload()
    page.wait_for_function(f"() => ({count})() > 8")
    page.wait_for_selector(".chart:not([hidden]) canvas")
    assert "other" in page.inner_text(".chart:not([hidden]) .legend >> nth=0")
    assert page.evaluate(COLOURED) > 50
    bob.check()
    page = bob.go("/account")
    page.unroute_all(behavior="wait")

    # What it is named and what it holds are text, in files too.
    page = bob.go(f"/jobs/{job}/files")
    page.click("[data-preview*='onerror']")
    page.wait_for_selector("dialog pre")
    assert EVIL in page.inner_text("dialog pre")
    assert "broken" not in page.title() and page.locator("main img[onerror], main script[src='x']").count() == 0
    bob.check()

    # Others see nothing of it.
    for path in ("/jobs", "/", "/results", "/cluster"):
        assert job not in eve.go(path).content() and "talk-of-bob" not in eve.page.content()
    nothing = {"en": "There is nothing here", "zh": "这里没有内容"}[language]
    assert eve.go(f"/jobs/{job}").inner_text("h1") == nothing
    eve.complaints.clear()

    # Stop, and the same again.
    page = bob.go(f"/jobs/{job}")
    page.click("[data-do=stop]")
    page.click("dialog .danger")
    state_is(page, "CANCELLED")
    page.click("[data-do=clone]")
    page.wait_for_url(lambda url: job not in url)
    page.wait_for_selector("[data-do=stop]")
    page.click("[data-do=stop]")
    page.click("dialog .danger")
    state_is(page, "CANCELLED")
    bob.check()

    # Two runs of two ranks, compared; one shown to a stranger.
    jobs = []
    for number in (1, 2):
        page = bob.go("/submit")
        page.fill("[name=name]", f"bench-{number}")
        page.select_option("[name=suite]", ":case")
        for name, value in (("workload", "noop"), ("case_device", "cpu"), ("preset", "smoke")):
            page.select_option(f"[name={name}]", value)
        page.fill("[name=case_processes]", "2")
        assert "suite: noop:none:cpu:1:2:3" in page.input_value("[data-yaml]")
        page.click("[data-dry]")
        page.wait_for_selector("[data-plan] details")
        page.click("form [type=submit]")
        page.wait_for_url(re.compile(r"/jobs/[0-9a-f]{16}$"))
        jobs.append(page.url.rpartition("/")[2])
        state_is(page, "SUCCEEDED", 120)
    page = bob.go(f"/jobs/{jobs[0]}/console")
    page.wait_for_selector("[data-rank] option[value='1']", state="attached")
    page = bob.go("/results")
    for one in jobs:
        page.check(f"input[value='{one}']")
    page.click("[data-bulk-compare]")
    page.wait_for_selector(".report h1")
    assert "noop" in page.inner_text(".report")
    bob.check()
    page = bob.go(f"/results/{jobs[0]}")
    bob.check()
    # The second is held against the first, which is made the baseline.
    page.click("[data-baseline]")
    page.wait_for_selector("[data-baseline][disabled]")
    bob.go("/").wait_for_selector(f"[data-verdict='{jobs[1]}']", state="attached")
    bob.check()
    page = bob.go(f"/results/{jobs[0]}")
    page.click("[data-share]")
    page.click("dialog .primary")
    shared = page.inner_text("dialog .secret code").removeprefix(address)
    assert "noop" in stranger.go(shared).inner_text(".report")
    stranger.check()
    assert stranger.go("/jobs").url.startswith(address + "/sign-in")
    stranger.check()


HOST = os.uname().nodename
PAGES = (
    *("/", "/jobs", "/submit", "/results", "/compare", "/history", "/leaderboard", "/cluster", f"/cluster/{HOST}"),
    *("/people", "/account"),
)


@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_in_both_languages_and_themes(browser: Any, served: tuple[str, str], width: int) -> None:
    address, link = served
    seen = Seen(browser, address, viewport={"width": width, "height": 900})
    set_password(seen, link)
    job = submit_command(seen.page, address, "short", "echo hello; echo 'a,b' > t.csv; echo '1,2' >> t.csv")
    state_is(seen.page, "SUCCEEDED")
    tabs = [f"/jobs/{job}{tab}" for tab in ("", "/console", "/metrics", "/files", "/plan", "/events")]
    for language, theme, word in (("en", "light", "Jobs"), ("zh", "dark", "作业")):
        seen.go(f"/language/{language}")
        seen.go(f"/theme/{theme}")
        for path in (*PAGES, *tabs, f"/results/{job}"):
            page = seen.go(path)
            assert word in page.inner_text(".main-nav"), path
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            seen.check()
    page = seen.go(f"/jobs/{job}/files")
    page.click("[data-preview$='t.csv']")
    page.wait_for_selector("dialog td")
    assert page.locator("dialog td").all_inner_texts() == ["1", "2"]
    seen.check()
    # A host is kept from jobs, and given back.
    page = seen.go(f"/cluster/{HOST}")
    page.fill("[data-form=host-state] [name=why]", "<b>new fan</b>")
    page.click("[data-form=host-state] [type=submit]")
    page.wait_for_selector("[data-do=host-free]")
    assert "<b>new fan</b>" in page.inner_text(".host-card") and page.locator(".host-card .badge.bad").count() == 1
    seen.check()
    page.click("[data-do=host-free]")
    page.wait_for_selector("[data-do=host-free]", state="detached")
    # By the keyboard: the first stop leads past the bar, and a menu closes by Escape.
    page = seen.go("/jobs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.click(".bar .menu summary")
    page.keyboard.press("Escape")
    assert not page.is_visible(".menu-in")
