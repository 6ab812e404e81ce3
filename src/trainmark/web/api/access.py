"""Who may use a route. Every route says it by `rules(…)`; a route that says nothing is refused to everybody."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import SecurityScheme

from trainmark.i18n.words import LANGUAGES
from trainmark.web.service import credentials
from trainmark.web.service.records import Principal

CSRF_HEADER = "x-csrf-token"
_SAFE = ("GET", "HEAD", "OPTIONS")
_ACCESS = "access"


class Access(StrEnum):
    PUBLIC = "public"
    READ = "read"
    SUBMIT = "submit"
    METRICS = "metrics"
    ADMIN = "admin"
    # Only by a session: passwords and tokens are not changed by a token that was stolen.
    SESSION = "session"


class Problem(msgspec.Struct, frozen=True):
    """What every refusal looks like."""

    status: int
    detail: str


_ERRORS = {
    400: "The request cannot be understood, or what it asks for cannot be done",
    401: "Not signed in",
    403: "Signed in, and not allowed to do this",
    404: "No such thing, or not yours",
    405: "Not by this method",
    408: "The request took too long to arrive",
    409: "It cannot be done in the state that things are in",
    413: "The request is too large",
    415: "Not a type of content that is understood here",
    416: "The range lies outside the file",
    429: "Too many requests",
    503: "The server is not ready",
}
RESPONSES = {
    status: ResponseSpec(data_container=Problem, description=text, generate_examples=False)
    for status, text in _ERRORS.items()
}
SCHEMES = {
    "token": SecurityScheme(type="http", scheme="bearer", description="A token with scopes (`trainmark login`)"),
    "session": SecurityScheme(type="apiKey", name="trainmark-session", security_scheme_in="cookie"),
}


def rules(access: Access, **more: Any) -> dict[str, Any]:
    """What a route's decorator is given: who may use it, and the answers it may give besides its own."""
    secured: list[dict[str, list[str]]] = [] if access is Access.PUBLIC else [{"token": []}, {"session": []}]
    return {"opt": {_ACCESS: access}, "responses": RESPONSES, "security": secured, "sync_to_thread": True, **more}


def language_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """What the client's `Accept-Language` names first, of the languages that there are."""
    named = connection.headers.get("accept-language", "").lower()
    found = [one for one in (part.strip()[:2] for part in named.split(",")) if one in LANGUAGES]
    return found[0] if found else LANGUAGES[0]


def access_of(handler: BaseRouteHandler) -> Access | None:
    found = handler.opt.get(_ACCESS)
    return found if isinstance(found, Access) else None


def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """The one guard of the whole application."""
    access = access_of(handler)
    if access is None:
        raise PermissionDeniedException("this route names nobody who may use it")
    if access is Access.PUBLIC:
        return
    asker = connection.scope.get("user")
    if not isinstance(asker, Principal):
        raise NotAuthorizedException("sign in, or send a token")
    if connection.scope.get("method") not in _SAFE and asker.csrf is not None:
        given = connection.headers.get(CSRF_HEADER, "")
        if not credentials.same(given, asker.csrf):
            raise PermissionDeniedException(f"the header {CSRF_HEADER} must repeat what the sign-in answered")
    if access is Access.SESSION:
        if asker.session is None:
            raise PermissionDeniedException("only in a session, not by a token")
    elif str(access) not in asker.scopes:
        raise PermissionDeniedException(f"needs the scope `{access}`")
