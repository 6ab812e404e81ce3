"""What people open beside a job: who may, by which way in, and what passes; in a browser with real programs (`web`)."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("litestar")

from tests.web.conftest import Person
from tests.web.test_browser import Seen, browser, served, set_password, state_is, submit_command  # noqa: F401
from tests.web.test_jobs import submit, until
from trainmark.errors import UserError
from trainmark.i18n import words
from trainmark.web.proxy import front, headers, http
from trainmark.web.server import Server
from trainmark.web.service import endpoints, gates, ssh_keys

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Jc0gVYxNQGJNZyQDGiWm5Ri0TgrzQ9ZVnUcUyCwXb"


# Names of hosts, and headers.


@pytest.mark.parametrize(
    ("host", "label"),
    [
        ("127.0.0.1:8470", None),
        ("localhost", None),
        ("jobs.localhost.evil.example", None),
        ("evil-jobs.localhost", None),
        ("0a1b.jobs.localhost:8470", "0a1b"),
        ("0A1B.JOBS.LOCALHOST.", "0a1b"),
        # Nobody's, and never the server's own pages.
        ("jobs.localhost:1", ""),
        ("a.b.jobs.localhost", ""),
    ],
)
def test_a_host_is_the_servers_or_an_endpoints(host: str, label: str | None) -> None:
    assert front.label_of(host, "jobs.localhost") == label


@pytest.mark.parametrize(
    ("method", "sent", "good"),
    [
        ("GET", {}, True),
        ("GET", {"sec-fetch-site": "same-origin"}, True),
        ("POST", {"origin": "http://a.jobs.localhost"}, True),
        ("POST", {"sec-fetch-site": "same-origin"}, True),
        # A link that somebody follows, from the job's page or anywhere.
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, True),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, False),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, False),
        ("POST", {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, False),
        ("POST", {"origin": "http://b.jobs.localhost"}, False),
        ("GET", {"origin": "http://b.jobs.localhost", "sec-fetch-site": "same-site"}, False),
        ("POST", {}, False),
    ],
)
def test_requests_that_another_page_caused_are_refused(method: str, sent: dict[str, str], good: bool) -> None:
    scope = {"method": method, "headers": [(name.encode(), value.encode()) for name, value in sent.items()]}
    assert front.came_from_here(scope, "http://a.jobs.localhost") is good


def test_our_cookie_stays_here_and_others_stay_on_their_host() -> None:
    sent = [(b"cookie", b"a=1; trainmark-endpoint=secret; b=2"), (b"x-forwarded-for", b"1.2.3.4"), (b"host", b"h")]
    told = headers.to_job(sent, "trainmark-endpoint", {"authorization": "token t"})
    assert told == [(b"cookie", b"a=1; b=2"), (b"host", b"h"), (b"authorization", b"token t")]
    answers = [b"x=1; Path=/", b"x=1; Domain=jobs.localhost", b"trainmark-endpoint=mine; Path=/"]
    answered = [(b"Set-Cookie", one) for one in answers] + [(b"Clear-Site-Data", b'"cookies"')]
    kept = headers.to_browser(answered, "trainmark-endpoint")
    assert [value for name, value in kept if name == b"set-cookie"] == [answers[0]]
    assert (b"cross-origin-resource-policy", b"same-origin") in kept
    assert b"clear-site-data" not in dict(kept)


def test_a_program_that_is_slow_to_answer_takes_no_thread_from_the_rest(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Semaphore(0), threading.Event()

    def connect(*_: Any) -> Any:
        begun.release()
        over.wait(10.0)
        raise UserError("it never came")

    monkeypatch.setattr(endpoints, "connect", connect)

    pools = http.Pools(server)

    async def many() -> None:
        threads = anyio.to_thread.current_default_thread_limiter()
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(one)
            assert await anyio.to_thread.run_sync(begun.acquire, True, 5.0)
            assert threads.borrowed_tokens == 0
            over.set()

    async def one() -> None:
        with pytest.raises(http.NotReached, match="never came"):
            await pools.dial(endpoints.Passed("label", "jupyter", "job"))

    anyio.run(many)


@pytest.mark.parametrize(
    "text",
    [
        'command="/bin/sh" ' + KEY,
        KEY + "\n" + KEY,
        "ssh-dss AAAAB3NzaC1kc3M=",
        "ssh-ed25519 AAAAB3NzaC1yc2E=",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_only_one_plain_public_key_is_taken(text: str) -> None:
    with pytest.raises(UserError, match="key: "):
        ssh_keys.checked(text)
    assert ssh_keys.checked(KEY + " anna@laptop\n") == KEY


def test_a_package_that_is_missing_is_named() -> None:
    said = gates.refusal("jupyter", "missing /usr/bin/python3 /opt/python")
    assert said.startswith(
        "jupyter: jupyterlab is not installed in the job's environment (/usr/bin/python3 /opt/python)"
    )
    assert "`pip install jupyterlab`" in said and "没有安装 jupyterlab" in words.error(said, "zh")


# Who may.


def test_others_have_no_way_in(admin: Person, person: Callable[..., Person], server: Server) -> None:
    job = submit(admin, command="sleep 60", endpoints=["jupyter"])
    stranger = person("bob")
    for name in ("jupyter", "tensorboard"):
        stranger.ask("POST", f"/jobs/{job}/endpoints/{name}/enter", status=404)
    stranger.ask("GET", f"/jobs/{job}/endpoints", status=404)
    admin.ask("PATCH", f"/jobs/{job}", json={"visibility": "all"}, status=200)
    # Shown to all: they look, and run nothing.
    stranger.ask("POST", f"/jobs/{job}/endpoints/tensorboard/enter", status=201)
    assert "only the job's owner" in stranger.ask("POST", f"/jobs/{job}/endpoints/jupyter/enter", status=403).text
    stranger.ask("PUT", f"/jobs/{job}/endpoints/tensorboard", status=403)
    stranger.ask("DELETE", f"/jobs/{job}/endpoints/tensorboard", status=403)
    admin.ask("POST", f"/jobs/{job}/endpoints/port-8080/enter", status=404)
    benchmark = submit(admin, suite="mnist:pytorch:cpu:1:1:1", preset="smoke")
    admin.ask("PUT", f"/jobs/{benchmark}/endpoints/tensorboard", status=409)
    told = {one["name"]: one["yours"] for one in stranger.ask("GET", f"/jobs/{job}/endpoints", status=200).json()}
    assert told == {"tensorboard": True, "jupyter": False, "ssh": False}
    assert "endpoint.enter" in admin.ask("GET", "/audit", status=200).text


def ticket_of(somebody: Person, job: str, name: str) -> tuple[str, str]:
    url = somebody.ask("POST", f"/jobs/{job}/endpoints/{name}/enter", status=201).json()["url"]
    found = re.fullmatch(r"http://(\w+)\.jobs\.localhost(?::\d+)?/\.trainmark/enter\?ticket=([\w-]+)", url)
    assert found, url
    return found[1], found[2]


def test_a_ticket_is_used_once_and_only_where_it_was_made_for(admin: Person, server: Server) -> None:
    job = submit(admin, command="sleep 60")
    label, ticket = ticket_of(admin, job, "tensorboard")
    other, _ = ticket_of(admin, job, "jupyter")
    assert endpoints.use_ticket(server, other, ticket) is None
    made = endpoints.use_ticket(server, label, ticket)
    assert made is not None
    assert endpoints.use_ticket(server, label, ticket) is None
    assert endpoints.passed(server, label, made[0]) is not None
    # A ticket is no cookie, a cookie no ticket, and neither is good elsewhere.
    _, unused = ticket_of(admin, job, "tensorboard")
    assert endpoints.passed(server, label, unused) is None
    assert endpoints.use_ticket(server, label, made[0]) is None
    assert endpoints.passed(server, other, made[0]) is None
    # It ends with the sign-in that it came from.
    admin.ask("DELETE", "/session", status=204)
    assert endpoints.passed(server, label, made[0]) is None


def test_what_a_token_opened_ends_with_the_token(admin: Person, server: Server) -> None:
    job, token = submit(admin, command="sleep 60"), admin.token("read", "submit")
    asked = {"authorization": f"Bearer {token}"}
    answer = admin.client.post(f"/api/v1/jobs/{job}/endpoints/jupyter/enter", headers=asked)
    label, ticket = re.findall(r"//(\w+)\.|ticket=([\w-]+)", answer.json()["url"])
    made = endpoints.use_ticket(server, label[0], ticket[1])
    assert made is not None and endpoints.passed(server, label[0], made[0]) is not None
    (own,) = admin.ask("GET", "/tokens", status=200).json()
    admin.ask("DELETE", f"/tokens/{own['id']}", status=204)
    assert endpoints.passed(server, label[0], made[0]) is None


def test_a_right_that_is_taken_back_ends_what_was_opened(
    admin: Person, person: Callable[..., Person], server: Server
) -> None:
    job = submit(admin, command="sleep 60", visibility="all")
    label, ticket = ticket_of(person("bob"), job, "tensorboard")
    made = endpoints.use_ticket(server, label, ticket)
    assert made is not None and endpoints.passed(server, label, made[0]) is not None
    admin.ask("PATCH", f"/jobs/{job}", json={"visibility": "private"}, status=200)
    assert endpoints.passed(server, label, made[0]) is None


# On this machine.


@pytest.mark.web
def test_ssh_lands_in_the_job(admin: Person, kept: Server, tmp_path: Path) -> None:
    """By the user's own key, with the job's host key checked; nobody else's key, and not once it is closed."""
    for name in ("mine", "other"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(made, check=True)
    job = submit(admin, command="sleep 600")
    until(lambda: any(kept.home.path.glob("runs/*/*/*/*/*/*/endpoints.jsonl")), 60.0)
    assert "no public key" in admin.ask("POST", f"/jobs/{job}/endpoints/ssh/enter", status=409).text
    admin.ask("PUT", "/ssh-keys/laptop", json={"key": (tmp_path / "mine.pub").read_text()}, status=200)
    entry = admin.ask("POST", f"/jobs/{job}/endpoints/ssh/enter", headers={"host": "127.0.0.1:8470"}, status=201)
    line = shlex.split(entry.json()["command"])
    told = ["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=/dev/null"]

    def enter(key: str, words: list[str] = line) -> subprocess.CompletedProcess[str]:
        asked = [words[0], *told, "-i", str(tmp_path / key), *words[1:], "echo in $DLWS_JOB_ID at $PWD"]
        return subprocess.run(asked, capture_output=True, text=True, check=False)

    assert enter("mine").stdout.startswith(f"in {job} at ")
    assert "Permission denied" in enter("other").stderr
    forged = [re.sub(r"(ssh-ed25519 AAAA\S{28})..", r"\1xx", word) for word in line]
    assert enter("mine", forged).returncode == 255
    admin.ask("DELETE", f"/jobs/{job}/endpoints/ssh", status=200)
    assert enter("mine").returncode == 255
    admin.ask("POST", f"/jobs/{job}/stop", status=202)
    until(lambda: admin.ask("GET", f"/jobs/{job}").json()["job"]["state"] == "CANCELLED", 60.0)


# In a browser.

LOGS = f"""{shlex.quote(sys.executable)} - <<'END'
import os
from tensorboardX import SummaryWriter
with SummaryWriter(os.path.expanduser("~/tensorboard/" + os.environ["DLWS_JOB_ID"] + "/logs")) as writer:
    for step in range(20):
        writer.add_scalar("falling/loss", 1 / (step + 1), step)
END
echo written
sleep 600
"""


def open_tab(page: Any, name: str) -> Any:
    with page.context.expect_page() as opened:
        page.click(f"[data-endpoint=enter][data-name={name}]")
    tab = opened.value
    tab.wait_for_url(re.compile(r"^http://\w+\.jobs\.localhost:\d+/(?!\.trainmark)"), timeout=90_000)
    return tab


@pytest.mark.web
def test_in_a_browser(browser: Any, served: tuple[str, str]) -> None:  # noqa: F811
    address, link = served
    seen = Seen(browser, address)
    set_password(seen, link)
    page = seen.page
    job = submit_command(page, address, "beside", LOGS)
    state_is(page, "RUNNING")
    seen.go(f"/jobs/{job}/endpoints")
    page.wait_for_selector("[data-endpoint=enter][data-name=jupyter]")
    seen.check()

    # TensorBoard's page asks for nothing new by itself: it is opened when there is something to see.
    until(lambda: "written" in page.request.get(f"{address}/api/v1/jobs/{job}/logs").text(), 120.0)
    board = open_tab(page, "tensorboard")
    board.wait_for_selector("text=falling", timeout=90_000)
    assert "ticket" not in board.url
    assert board.evaluate("window.opener") is None
    assert "trainmark-session" not in str(page.context.cookies(board.url))

    lab = open_tab(page, "jupyter")
    lab.wait_for_selector("text=Python 3 (ipykernel)", timeout=120_000)
    lab.click(".jp-LauncherCard[data-category=Notebook]")
    lab.wait_for_selector(".jp-Notebook .cm-content", timeout=60_000)
    # JupyterLab may take another kernel just after it showed the first as idle, and forgets what was typed for
    # that one: a person types it again.
    lab.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", timeout=120_000)
    for _ in range(6):
        lab.click(".jp-Notebook .jp-Cell:last-child .cm-content")
        lab.keyboard.type("import os; print(6 * 7, os.environ['DLWS_JOB_ID'])")
        lab.keyboard.press("Shift+Enter")
        lab.wait_for_timeout(10_000)
        if lab.query_selector(f".jp-OutputArea-output:has-text('42 {job[:8]}')"):
            break
    lab.wait_for_selector(f".jp-OutputArea-output:has-text('42 {job[:8]}')", timeout=60_000)

    # A page of the job cannot ask the server as its reader, and another page cannot ask the job.
    assert (
        lab.evaluate(f"fetch('{address}/api/v1/session', {{credentials: 'include'}}).then(() => 'read', () => 'no')")
        == "no"
    )
    origin = re.match(r"http://[^/]+", lab.url)[0]  # type: ignore[index]
    refused = "credentials: 'include', mode: 'no-cors', method: 'POST'"
    board.evaluate(f"fetch('{origin}/api/kernels', {{{refused}}}).catch(() => null)")
    kernels = lab.evaluate("fetch('/api/kernels').then((answer) => answer.json())")
    assert len(kernels) == 1
    stranger = Seen(browser, address)
    assert stranger.page.goto(lab.url).status == 401
    assert stranger.page.goto(address.replace("127.0.0.1", "nobody.jobs.localhost") + "/").status == 401

    page.click("[data-endpoint=close][data-name=jupyter]")
    page.wait_for_selector("[data-endpoint=enter][data-name=jupyter][data-state=closed]")
    page.evaluate("document.querySelector('[data-do=stop]').click()")
    page.click("dialog .danger")
    state_is(page, "CANCELLED")
    page.wait_for_selector("[data-endpoint=enter][data-state=stored]", timeout=30_000)
    again = open_tab(page, "tensorboard")
    again.wait_for_selector("text=falling", timeout=90_000)
    seen.check()
