"""Sign-in at a real provider of identities: npm's `oidc-provider`, run by node."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.web.conftest import Person
from trainmark.web.server import Server
from trainmark.web.service.rules import Provider, Rules

pytestmark = pytest.mark.web
ADDRESS = "http://testserver.local"
CALLBACK = "/api/v1/session/oidc/callback"
# Kept between runs: installing takes a while.
MODULES = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "trainmark-tests" / "oidc-provider-9"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("needs node and npm")
    if not (MODULES / "node_modules" / "oidc-provider").is_dir():
        MODULES.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", "oidc-provider@9"], cwd=MODULES, check=True
        )
    # Node looks for packages beside the file.
    script = MODULES / "provider.mjs"
    script.write_text((Path(__file__).parent / "oidc_provider.mjs").read_text())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["node", str(script), str(port), ADDRESS + CALLBACK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as provider:
        assert provider.stdout is not None
        for line in provider.stdout:
            if "ready" in line:
                break
        yield f"http://127.0.0.1:{port}"
        provider.terminate()


@pytest.fixture
def offered(server: Server, issuer: str, tmp_path: Path) -> Callable[..., None]:
    secret = tmp_path / "secret"
    secret.write_text("the-secret-of-the-client\n")

    def offer(**more: Any) -> None:
        server.rules = Rules(oidc=Provider(issuer, "trainmark", str(secret), ADDRESS, **more))

    return offer


def at_provider(url: str, name: str) -> dict[str, str]:
    """What a person does there: signs in, agrees, and is sent back. What the provider sends them back with."""
    with httpx.Client(follow_redirects=False) as browser:
        answer = browser.get(url)
        while True:
            while answer.is_redirect:
                to = answer.headers["location"]
                if to.startswith(ADDRESS):
                    return {key: values[0] for key, values in parse_qs(urlsplit(to).query).items()}
                answer = browser.get(httpx.URL(url).join(to))
            action = re.search(r'<form[^>]*action="([^"]+)"', answer.text)
            prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
            assert action and prompt, answer.text
            data = {"prompt": prompt[1], "login": name, "password": "any"}
            answer = browser.post(httpx.URL(url).join(action[1]), data=data)


def begin(who: Person) -> str:
    answer = who.ask("GET", "/session/oidc", follow_redirects=False, status=302)
    assert "HttpOnly" in answer.headers["set-cookie"] and "SameSite=lax" in answer.headers["set-cookie"]
    return str(answer.headers["location"])


def come_back(who: Person, told: dict[str, str], status: int = 200) -> Any:
    answer = who.client.get(CALLBACK, params=told)
    assert answer.status_code == status, answer.text
    return answer


def test_whom_the_provider_names_is_signed_in(
    admin: Person, visit: Callable[[str], Person], offered: Callable[..., None]
) -> None:
    ann = visit("ann")
    ann.ask("GET", "/session/oidc", status=404)
    offered(make_users=True, role="viewer")
    assert ann.ask("GET", "/session/ways", status=200).json()["oidc"] == "OpenID Connect"
    page = come_back(ann, at_provider(begin(ann), "Ann"))
    assert 'http-equiv="refresh"' in page.text
    assert ann.ask("GET", "/session", status=200).json()["name"] == "ann"
    assert ann.ask("GET", "/session").json()["role"] == "viewer"
    # The next time she is the same user; another subject with her name is refused, and does not become her.
    again = visit("ann")
    come_back(again, at_provider(begin(again), "Ann"))
    other = visit("ann")
    come_back(other, at_provider(begin(other), "ANN"), 409)
    other.ask("GET", "/session", status=401)
    assert [one["name"] for one in admin.ask("GET", "/users").json()] == ["admin", "ann"]
    admin.ask("PATCH", "/users/2", json={"disabled": True}, status=200)
    come_back(again, at_provider(begin(again), "Ann"), 403)


def test_a_user_ties_an_identity_to_themselves(
    admin: Person, person: Callable[..., Person], visit: Callable[[str], Person], offered: Callable[..., None]
) -> None:
    offered()
    stranger = visit("x")
    come_back(stranger, at_provider(begin(stranger), "Bob"), 403)
    bob = person("bob")
    come_back(bob, at_provider(begin(bob), "Bob"))
    fresh = visit("bob")
    come_back(fresh, at_provider(begin(fresh), "Bob"))
    assert fresh.ask("GET", "/session", status=200).json()["name"] == "bob"
    # What is bob's is not tied to another user as well.
    come_back(admin, at_provider(begin(admin), "Bob"), 409)


def test_answers_that_were_not_asked_for(
    admin: Person, visit: Callable[[str], Person], offered: Callable[..., None], server: Server
) -> None:
    offered(make_users=True)
    eve, victim = visit("eve"), visit("victim")
    told = at_provider(begin(eve), "Eve")
    # A link with eve's code does not sign the victim in as eve.
    come_back(victim, told, 401)
    begin(victim)
    come_back(victim, told, 401)
    come_back(eve, {**told, "state": "guessed"}, 401)
    come_back(eve, {**told, "code": "guessed"}, 401)
    come_back(eve, {"error": "access_denied"}, 401)
    used = at_provider(begin(eve), "Eve")
    come_back(eve, used)
    come_back(eve, used, 401)
    server.rules = Rules(oidc=Provider("http://192.0.2.1", "trainmark", "/etc/hostname", ADDRESS))
    visit("x").ask("GET", "/session/oidc", status=503)
