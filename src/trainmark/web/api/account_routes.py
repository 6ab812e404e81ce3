"""Signing in and out, users, groups, tokens, and the audit log."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, patch, post, put
from litestar.datastructures import Cookie
from litestar.exceptions import PermissionDeniedException
from litestar.params import Parameter
from msgspec import Meta

from trainmark.web.api.access import Access, rules
from trainmark.web.api.middleware import COOKIE, SECURE_COOKIE, address_of
from trainmark.web.server import Server
from trainmark.web.service import accounts, audit, credentials, database
from trainmark.web.service.errors import Refused, SignInFailed
from trainmark.web.service.records import (
    AuditEntry,
    Group,
    Name,
    Password,
    Principal,
    Role,
    Scope,
    Token,
    User,
    UserName,
)

Asked = Request[Any, Any, Any]
Text = Annotated[str, Meta(max_length=200)]
GroupName = Annotated[str, Parameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", max_length=64)]
Number = Annotated[int, Parameter(ge=1, le=2**31 - 1)]


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    password: Text


class UseLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    link: Text
    password: Password


class ChangePassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    old: Text
    new: Password


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: UserName
    role: Role = "user"


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Role | None = None
    disabled: bool | None = None


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    scopes: list[Scope]
    days: Annotated[float, Meta(gt=0, le=credentials.TOKEN_DAYS_MOST)] = 30.0


class Members(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    members: list[UserName]


class Who(msgspec.Struct, frozen=True):
    """`csrf`: what the header x-csrf-token must repeat; None for a token, which needs none."""

    name: str
    role: Role
    scopes: list[str]
    csrf: str | None


class Linked(msgspec.Struct, frozen=True):
    """`link` is shown once. It lets its bearer set the password of the user."""

    user: User
    link: str


class MadeToken(msgspec.Struct, frozen=True):
    """`secret` is shown once."""

    token: Token
    secret: str


def asker_of(request: Asked) -> Principal:
    """Who asks; the guard has seen to it that there is somebody."""
    found: Principal = request.scope["user"]
    return found


def _check_origin(request: Asked) -> None:
    """A page of another site must not sign its reader in as somebody else."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("//")[2] != request.headers.get("host", ""):
        raise PermissionDeniedException("signing in is for pages of this server")


def set_session(server: Server, answer: Response[Any], user: int) -> Principal:
    """Begins a session, which the answer's cookie carries."""
    with database.writing(server.engine) as connection:
        secret, _ = credentials.begin_session(connection, user)
        found, _ = credentials.of_session(connection, secret)
    if found is None:
        raise SignInFailed("wrong name or password")
    secure = server.settings.secure
    answer.set_cookie(
        Cookie(
            key=SECURE_COOKIE if secure else COOKIE,
            value=secret,
            httponly=True,
            samesite="strict",
            secure=secure,
            path="/" if secure else server.settings.root_path or "/",
            max_age=int(credentials.SESSION_SECONDS),
        )
    )
    return found


def _begun(server: Server, user: int) -> Response[Who]:
    made: Response[Any] = Response(None)
    made.content = _who(set_session(server, made, user))
    return made


def _who(found: Principal) -> Who:
    return Who(found.name, found.role, sorted(found.scopes), found.csrf)


@post("/session", **rules(Access.PUBLIC), status_code=200)
def sign_in(request: Asked, server: Server, data: SignIn) -> Response[Who]:
    """Sign in by name and password."""
    _check_origin(request)
    with database.writing(server.engine) as connection:
        user = credentials.sign_in(connection, data.name, data.password, address_of(request.scope))
    if user is None:
        raise SignInFailed("wrong name or password")
    return _begun(server, user)


@post("/session/link", **rules(Access.PUBLIC), status_code=200)
def use_link(request: Asked, server: Server, data: UseLink) -> Response[Who]:
    """Set a password by a link that works once, and sign in."""
    _check_origin(request)
    with database.writing(server.engine) as connection:
        user = credentials.use_link(connection, data.link, data.password, address_of(request.scope))
    return _begun(server, user)


@get("/session", **rules(Access.READ))
def who_am_i(request: Asked) -> Who:
    """Who asks, and what they may do."""
    return _who(asker_of(request))


@delete("/session", **rules(Access.SESSION))
def sign_out(request: Asked, server: Server) -> None:
    """End this session."""
    asker = asker_of(request)
    with database.writing(server.engine) as connection:
        credentials.end_session(connection, asker.session or "")
        audit.note(connection, asker.name, "session.end", address=address_of(request.scope))


@put("/session/password", **rules(Access.SESSION))
def change_password(request: Asked, server: Server, data: ChangePassword) -> Who:
    """Change one's own password. All other sessions and all tokens end."""
    asker, address = asker_of(request), address_of(request.scope)
    with database.writing(server.engine) as connection:
        good = credentials.sign_in(connection, asker.name, data.old, address) is not None
        if good:
            credentials.set_password(connection, asker.id, data.new, keep=asker.session)
            audit.note(connection, asker.name, "password.change", address=address)
    if not good:
        raise Refused("old: this is not your password")
    return _who(asker)


@get("/users", **rules(Access.ADMIN))
def list_users(server: Server) -> list[User]:
    """All users."""
    with database.reading(server.engine) as connection:
        return accounts.list_users(connection)


@post("/users", **rules(Access.ADMIN))
def add_user(request: Asked, server: Server, data: NewUser) -> Linked:
    """A new user, and the link by which they set a password."""
    with database.writing(server.engine) as connection:
        number = accounts.add_user(connection, data.name, data.role)
        audit.note(
            connection, asker_of(request).name, "user.add", f"{data.name} {data.role}", address_of(request.scope)
        )
        return Linked(accounts.user(connection, number), credentials.make_link(connection, number))


@patch("/users/{user:int}", **rules(Access.ADMIN))
def change_user(request: Asked, server: Server, user: Number, data: UserChange) -> User:
    """Change a role, or disable a user."""
    with database.writing(server.engine) as connection:
        return accounts.change_user(
            connection, asker_of(request), user, data.role, data.disabled, address_of(request.scope)
        )


@post("/users/{user:int}/link", **rules(Access.ADMIN))
def link_user(request: Asked, server: Server, user: Number) -> Linked:
    """A new link for a user who forgot their password."""
    with database.writing(server.engine) as connection:
        found = accounts.user(connection, user)
        audit.note(connection, asker_of(request).name, "user.link", found.name, address_of(request.scope))
        return Linked(found, credentials.make_link(connection, user))


@get("/groups", **rules(Access.ADMIN))
def list_groups(server: Server) -> list[Group]:
    """All groups."""
    with database.reading(server.engine) as connection:
        return accounts.list_groups(connection)


@put("/groups/{name:str}", **rules(Access.ADMIN))
def put_group(
    request: Asked,
    server: Server,
    name: GroupName,
    data: Members,
) -> Group:
    """A group with exactly these members."""
    with database.writing(server.engine) as connection:
        return accounts.put_group(connection, asker_of(request), name, data.members, address_of(request.scope))


@delete("/groups/{name:str}", **rules(Access.ADMIN))
def remove_group(request: Asked, server: Server, name: GroupName) -> None:
    """Remove a group; its members stay."""
    with database.writing(server.engine) as connection:
        accounts.remove_group(connection, asker_of(request), name, address_of(request.scope))


@get("/tokens", **rules(Access.SESSION))
def list_tokens(request: Asked, server: Server) -> list[Token]:
    """One's own tokens, without their secrets."""
    with database.reading(server.engine) as connection:
        return credentials.list_tokens(connection, asker_of(request).id)


@post("/tokens", **rules(Access.SESSION))
def make_token(request: Asked, server: Server, data: NewToken) -> MadeToken:
    """A new token."""
    asker = asker_of(request)
    with database.writing(server.engine) as connection:
        secret, token = credentials.make_token(connection, asker, data.name, data.scopes, data.days)
        what = f"{data.name}: {' '.join(data.scopes)}"
        audit.note(connection, asker.name, "token.make", what, address_of(request.scope))
        return MadeToken(token, secret)


@delete("/tokens/{token:int}", **rules(Access.SESSION))
def end_token(request: Asked, server: Server, token: Number) -> None:
    """End a token."""
    asker = asker_of(request)
    with database.writing(server.engine) as connection:
        credentials.end_token(connection, asker.id, token)
        audit.note(connection, asker.name, "token.end", token, address_of(request.scope))


@get("/audit", **rules(Access.ADMIN))
def audit_log(
    server: Server,
    before: Annotated[int | None, Parameter(ge=1, le=2**31 - 1)] = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
) -> list[AuditEntry]:
    """Who did what, the newest first."""
    with database.reading(server.engine) as connection:
        return audit.entries(connection, before=before, limit=limit)


ROUTES = [
    sign_in,
    use_link,
    who_am_i,
    sign_out,
    change_password,
    list_users,
    add_user,
    change_user,
    link_user,
    list_groups,
    put_group,
    remove_group,
    list_tokens,
    make_token,
    end_token,
    audit_log,
]
