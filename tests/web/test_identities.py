"""Identities of a provider and users here, without the provider: it has said already who somebody is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.web.conftest import Person
from trainmark.errors import SiteError
from trainmark.web.server import Server
from trainmark.web.service import database, oidc
from trainmark.web.service.errors import Conflict, Refused
from trainmark.web.service.rules import Provider, Rules

ISSUER = "http://127.0.0.1:1"


def named(server: Server, subject: str, name: str, tie_to: int | None = None) -> int:
    claims = {"iss": ISSUER, "sub": subject, "preferred_username": name}
    with database.writing(server.engine) as connection:
        return oidc._user(connection, server, claims, tie_to, "")


@pytest.fixture
def offered(server: Server) -> Callable[..., None]:
    def offer(**more: Any) -> None:
        server.rules = Rules(oidc=Provider(ISSUER, "trainmark", "/dev/null", "http://here", make_users=True, **more))

    return offer


def test_no_user_is_made_who_has_an_account_on_a_site(
    admin: Person, person: Callable[..., Person], server: Server, offered: Callable[..., None]
) -> None:
    offered()
    site = server.home.sites / "lab.yaml"
    site.write_text("schema: 1\nlauncher: local\naccounts: {root-of-lab: root}\n")
    with pytest.raises(Refused, match="an admin makes this user"):
        named(server, "1", "Root-of-Lab")
    assert named(server, "2", "ann") == 2
    site.write_text("no site")
    with pytest.raises(Refused, match="an admin makes this user"):
        named(server, "3", "bob")
    bob = person("bob")
    number = next(one["id"] for one in admin.ask("GET", "/users").json() if one["name"] == "bob")
    assert named(server, "3", "bob", tie_to=number) == number == named(server, "3", "bob")
    assert [one["subject"] for one in bob.ask("GET", "/session/identities", status=200).json()] == ["3"]


def test_a_name_is_cut_only_at_the_domain_that_was_named(
    admin: Person, server: Server, offered: Callable[..., None]
) -> None:
    offered()
    with pytest.raises(Refused, match="cannot be a user's name"):
        named(server, "1", "ann@one.example")
    offered(name_domain="one.example")
    assert named(server, "1", "Ann@One.example") == 2
    with pytest.raises(Refused, match="cannot be a user's name"):
        named(server, "2", "ann@two.example")
    with pytest.raises(Conflict):
        named(server, "3", "ann")


def test_ties_are_listed_and_ended(
    admin: Person, person: Callable[..., Person], server: Server, offered: Callable[..., None]
) -> None:
    offered()
    bob, eve = person("bob"), person("eve")
    for subject in ("a", "b", "c"):
        assert named(server, subject, "x", tie_to=2) == 2
    found = admin.ask("GET", "/users/2/identities", status=200).json()
    assert [one["subject"] for one in found] == ["a", "b", "c"]
    assert bob.ask("GET", "/session/identities", status=200).json() == found
    assert eve.ask("GET", "/session/identities", status=200).json() == []
    eve.ask("GET", "/users/2/identities", status=403)
    eve.ask("DELETE", f"/session/identities/{found[0]['id']}", status=404)
    bob.ask("DELETE", f"/session/identities/{found[0]['id']}", status=204)
    bob.ask("GET", "/session", status=200)
    admin.ask("DELETE", f"/users/2/identities/{found[1]['id']}", status=204)
    bob.ask("GET", "/session", status=401)
    assert [one["action"] for one in admin.ask("GET", "/audit").json()[:2]] == ["identity.untie"] * 2
    # Whoever gets the user by a new link shares it with nobody.
    link = admin.ask("POST", "/users/2/link", status=201).json()["link"]
    assert bob.use_link(link).status_code == 200
    assert bob.ask("GET", "/session/identities", status=200).json() == []


def test_nobody_locks_themselves_out(admin: Person, server: Server, offered: Callable[..., None]) -> None:
    from trainmark.web.service import identities
    from trainmark.web.service.records import Principal

    offered()
    number = named(server, "a", "ann")
    ann = Principal(number, "ann", "user", frozenset(), frozenset({"read"}))
    with database.writing(server.engine) as connection:
        only = identities.listed(connection, number)[0].id
        with pytest.raises(Conflict, match="could not sign in"):
            identities.untie(connection, ann, number, only, "")
    admin.ask("DELETE", f"/users/{number}/identities/{only}", status=204)


def test_the_providers_description_is_asked_for_once_in_a_while(
    server: Server, offered: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    offered()
    asked: list[str] = []

    def answer(client: Any, url: str) -> dict[str, str]:
        asked.append(url)
        if len(asked) == 1:
            raise ValueError(url)
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        return {"issuer": ISSUER, **{name: f"{ISSUER}/{name}" for name in names}}

    monkeypatch.setattr(oidc, "_json", answer)
    with pytest.raises(SiteError, match="does not answer"):
        oidc.begin(server, None)
    for _ in range(3):
        assert oidc.begin(server, None)[0].startswith(f"{ISSUER}/authorization_endpoint?")
    assert len(asked) == 2
    monkeypatch.setattr(oidc, "_KNOWN_SECONDS", -1.0)
    server.descriptions.clear()
    oidc.begin(server, None)
    oidc.begin(server, None)
    assert len(asked) == 4
