"""Sign-in by a provider of identities: to it, and back from it."""

from __future__ import annotations

import html
from typing import Annotated

import msgspec
from litestar import MediaType, Response, delete, get
from litestar.datastructures import Cookie
from litestar.exceptions import NotAuthorizedException
from litestar.params import Parameter
from litestar.response import Redirect

from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, Number, asker_of, set_session
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import accounts, database, identities, oidc
from trainmark.web.service.identities import Identity
from trainmark.web.service.records import Principal

_COOKIE = "trainmark-oidc"
Text = Annotated[str, Parameter(max_length=4096)]
IdentityName = Annotated[str, Parameter(pattern=r"^[0-9a-f]{32}\Z", max_length=32)]
Begun = Annotated[str, Parameter(query="state", max_length=4096)]


class Ways(msgspec.Struct, frozen=True):
    """How one may sign in; `oidc`: what the provider is called, None without one."""

    password: bool
    oidc: str | None


@get("/session/ways", **rules(Access.PUBLIC))
def ways_in(server: Server) -> Ways:
    """How one may sign in."""
    return Ways(True, server.rules.oidc.title if server.rules.oidc else None)


@get("/session/oidc", **rules(Access.PUBLIC), status_code=302)
def go_to_provider(request: Asked, server: Server) -> Redirect:
    """To the provider of identities. Who is signed in already ties their user to who they are there."""
    asker = request.scope.get("user")
    url, kept = oidc.begin(server, asker if isinstance(asker, Principal) else None)
    return Redirect(url, status_code=302, cookies=[_cookie(server, kept, oidc.BEGUN_SECONDS)])


@get("/session/oidc/callback", **rules(Access.PUBLIC), media_type=MediaType.HTML)
def back_from_provider(
    request: Asked, server: Server, begun: Begun = "", code: Text = "", error: Text = ""
) -> Response[str]:
    """From the provider, with a code: signs in, and leads to the first page."""
    if error or not code:
        raise NotAuthorizedException("the provider of identities refused the sign-in")
    kept = request.cookies.get(_COOKIE, "")
    user = oidc.finish(server, kept, begun, code, address_of(request.scope))
    # Not a redirect: the browser came from another site, and would not send the new cookie along.
    to = html.escape(f"{server.settings.root_path}/", quote=True)
    page = f'<!doctype html><meta http-equiv="refresh" content="0;url={to}"><a href="{to}">trainmark</a>'
    made = Response(page, media_type=MediaType.HTML)
    set_session(server, made, user)
    made.set_cookie(_cookie(server, "", 0))
    return made


@get("/session/identities", **rules(Access.SESSION))
def list_own_identities(request: Asked, server: Server) -> list[Identity]:
    """Identities at the provider that sign in as oneself."""
    with database.reading(server.engine) as connection:
        return identities.listed(connection, asker_of(request).id)


@delete("/session/identities/{identity:str}", **rules(Access.SESSION))
def untie_own_identity(request: Asked, server: Server, identity: IdentityName) -> None:
    """An identity no longer signs in as oneself. All other sessions end."""
    asker = asker_of(request)
    with database.writing(server.engine) as connection:
        identities.untie(connection, asker, asker.id, identity, address_of(request.scope))


@get("/users/{user:int}/identities", **rules(Access.ADMIN))
def list_user_identities(server: Server, user: Number) -> list[Identity]:
    """Identities at the provider that sign in as a user."""
    with database.reading(server.engine) as connection:
        return identities.listed(connection, accounts.user(connection, user).id)


@delete("/users/{user:int}/identities/{identity:str}", **rules(Access.ADMIN))
def untie_user_identity(request: Asked, server: Server, user: Number, identity: IdentityName) -> None:
    """An identity no longer signs in as this user. The user's sessions end."""
    with database.writing(server.engine) as connection:
        identities.untie(connection, asker_of(request), user, identity, address_of(request.scope))


def _cookie(server: Server, value: str, seconds: int) -> Cookie:
    """`lax`: it must come along when the provider sends the browser back."""
    path = f"{server.settings.root_path}{oidc.CALLBACK}"
    return Cookie(_COOKIE, path, value, max_age=seconds, httponly=True, samesite="lax", secure=server.settings.secure)


ROUTES = [
    ways_in,
    go_to_provider,
    back_from_provider,
    list_own_identities,
    untie_own_identity,
    list_user_identities,
    untie_user_identity,
]
