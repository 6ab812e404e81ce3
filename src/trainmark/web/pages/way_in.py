"""Signing in, the link by which a password is set, and the choice of language and theme."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from litestar import Request, Response, get
from litestar.datastructures import Cookie
from litestar.exceptions import HTTPException, NotAuthorizedException
from litestar.params import Parameter
from litestar.response import Redirect

from trainmark.errors import UserError
from trainmark.i18n import words
from trainmark.i18n.speaker import LANGUAGES
from trainmark.web.api import errors
from trainmark.web.api.access import Access, rules
from trainmark.web.pages import view
from trainmark.web.server import Server

Asked = Request[Any, Any, Any]
Next = Annotated[str, Parameter(query="next", max_length=2000)]
_YEAR = 365 * 86400


def local(path: str) -> str:
    """A path of this server; anything else is its first page. `//host` and `/\\host` are other servers."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if plain else "/"


@get("/sign-in", **rules(Access.PUBLIC))
def page_of_sign_in(request: Asked, server: Server, after: Next = "/") -> Response[Any]:
    """Name and password."""
    return view.render(request, server, "sign_in.html", after=local(after))


@get("/link", **rules(Access.PUBLIC))
def link_page(request: Asked, server: Server) -> Response[Any]:
    """Where a link leads by which somebody sets a password. The secret is behind `#`, which no browser sends."""
    return view.render(request, server, "link.html")


def _remember(server: Server, name: str, value: str, after: str) -> Response[Any]:
    base = view.base_of(server)
    kept = Cookie(
        key=name,
        value=value,
        path=base or "/",
        max_age=_YEAR,
        samesite="lax",
        httponly=True,
        secure=server.settings.secure,
    )
    return Redirect(base + local(after), status_code=303, cookies=[kept])


@get("/language/{name:str}", **rules(Access.PUBLIC))
def choose_language(server: Server, name: str, after: Next = "/") -> Response[Any]:
    """Remembered by the browser; the server keeps nothing."""
    return _remember(server, view.LANGUAGE_COOKIE, name if name in LANGUAGES else "en", after)


@get("/theme/{name:str}", **rules(Access.PUBLIC))
def choose_theme(server: Server, name: str, after: Next = "/") -> Response[Any]:
    """Remembered by the browser; the server keeps nothing."""
    return _remember(server, view.THEME_COOKIE, name if name in view.THEMES else "auto", after)


ROUTES = [page_of_sign_in, link_page, choose_language, choose_theme]


# What goes wrong with a page.


def _is_page(request: Asked) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _server(request: Asked) -> Server:
    found: Server = request.app.state.server
    return found


def signed_out(request: Asked, error: NotAuthorizedException) -> Response[Any]:
    """Whoever reads is asked who they are, and comes back to the page that they wanted."""
    if not _is_page(request):
        return errors.of_http(request, error)
    server = _server(request)
    wanted = quote(view.asked_for(request, server), safe="/")
    return Redirect(f"{view.base_of(server)}/sign-in?next={wanted}", status_code=303)


def of_user(request: Asked, error: UserError) -> Response[Any]:
    return _shown(request, errors.of_user(request, error))


def of_http(request: Asked, error: HTTPException) -> Response[Any]:
    return _shown(request, errors.of_http(request, error))


def of_anything(request: Asked, error: Exception) -> Response[Any]:
    return _shown(request, errors.of_anything(request, error))


def _shown(request: Asked, problem: Response[Any]) -> Response[Any]:
    if not _is_page(request):
        return problem
    told = words.error(problem.content.detail, view.language_of(request))
    code = problem.content.status
    return view.render(request, _server(request), "problem.html", code, code=code, told=told)


HANDLERS: dict[Any, Any] = {
    NotAuthorizedException: signed_out,
    UserError: of_user,
    HTTPException: of_http,
    Exception: of_anything,
}
