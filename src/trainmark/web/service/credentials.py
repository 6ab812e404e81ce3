"""Passwords, one-time links, sessions and tokens. Of what a client keeps, only hashes are in the database."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from sqlalchemy import Connection, Row, delete, insert, select, update

from trainmark.web.service import audit, lockout
from trainmark.web.service.errors import NotFound, Refused, SignInFailed
from trainmark.web.service.records import SCOPES, Principal, Token
from trainmark.web.service.tables import identities, links, members, sessions, tokens, users

LINK_SECONDS = 86400.0
# A session ends so long after its last use, and so long after its start in any case.
IDLE_SECONDS, SESSION_SECONDS = 8 * 3600.0, 7 * 86400.0
TOKEN_DAYS_MOST = 365
_SEEN_SECONDS = 60.0
_TOKEN_PREFIX = "tmk_"  # noqa: S105  it tells scanners for leaked secrets what this is
# What an asker may do whose role is this, however they came in.
_OF_ROLE: dict[str, frozenset[str]] = {
    "viewer": frozenset({"read"}),
    "user": frozenset({"read", "submit"}),
    "admin": frozenset(SCOPES),
}

_hasher = PasswordHasher()
# Looked at when there is no such user, so that the answer takes as long.
_NOBODY = _hasher.hash(secrets.token_urlsafe(16))


def new_secret() -> tuple[str, str]:
    """Something nobody can guess, and the hash by which it is found again. It has 256 bits: no salt is needed."""
    made = secrets.token_urlsafe(32)
    return made, hash_of(made)


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


# Links.


def make_link(connection: Connection, user: int) -> str:
    """What lets somebody set the password of this user, once, within a day. Older links of theirs end."""
    made, hashed = new_secret()
    connection.execute(delete(links).where(links.c.user_id == user))
    connection.execute(insert(links).values(hash=hashed, user_id=user, expires=time.time() + LINK_SECONDS))
    return made


def use_link(connection: Connection, link: str, password: str, address: str) -> int:
    """Sets the password; whoever was signed in as this user no longer is, and no identity is tied to it any more.
    Returns the user's number."""
    found = connection.execute(select(links).where(links.c.hash == hash_of(link))).first()
    if found is None or found.expires < time.time():
        raise SignInFailed("this link is not valid, was used, or is older than a day; ask an admin for another")
    used = connection.execute(delete(links).where(links.c.hash == found.hash))
    if used.rowcount != 1:
        raise SignInFailed("this link was used at this moment")
    set_password(connection, found.user_id, password)
    # Whoever had the user before may have tied an identity of their own to it.
    connection.execute(delete(identities).where(identities.c.user_id == found.user_id))
    audit.note(connection, _name(connection, found.user_id), "link.use", address=address)
    return int(found.user_id)


def set_password(connection: Connection, user: int, password: str, keep: str | None = None) -> None:
    """`keep`: the hash of a session that goes on; all others end, and so do tokens."""
    connection.execute(update(users).where(users.c.id == user).values(password=_hasher.hash(password)))
    connection.execute(delete(sessions).where(sessions.c.user_id == user, sessions.c.hash != (keep or "")))
    connection.execute(delete(tokens).where(tokens.c.user_id == user))


# Signing in.


def sign_in(connection: Connection, name: str, password: str, address: str) -> int | None:
    """The user's number; None for a wrong name or password, which is then counted. TooMany while locked.

    An unknown name takes as long as a wrong password. The caller commits in both cases.
    """
    lockout.check(connection, name, address)
    found = connection.execute(select(users).where(users.c.name == name)).first()
    kept = found.password if found is not None and found.password else _NOBODY
    good = _verified(kept, password) and found is not None and kept is not _NOBODY and not found.disabled
    if not good or found is None:
        lockout.failed(connection, name, address)
        audit.note(connection, name, "session.refused", address=address, outcome="refused")
        return None
    lockout.succeeded(connection, name, address)
    if _hasher.check_needs_rehash(kept):
        connection.execute(update(users).where(users.c.id == found.id).values(password=_hasher.hash(password)))
    audit.note(connection, name, "session.begin", address=address)
    return int(found.id)


def _verified(kept: str, password: str) -> bool:
    try:
        return _hasher.verify(kept, password)
    except (Argon2Error, InvalidHashError):
        return False


# Sessions.


def begin_session(connection: Connection, user: int) -> tuple[str, str]:
    """What the cookie holds, and what requests that change something must repeat in a header. Always a new one: an
    identifier that somebody planted before the sign-in means nothing."""
    made, hashed = new_secret()
    csrf = secrets.token_urlsafe(24)
    now = time.time()
    connection.execute(delete(sessions).where(sessions.c.expires < now))
    values = {"user_id": user, "csrf": csrf, "created": now, "seen": now, "expires": now + SESSION_SECONDS}
    connection.execute(insert(sessions).values(hash=hashed, **values))
    return made, csrf


def of_session(connection: Connection, cookie: str) -> tuple[Principal | None, bool]:
    """Who it is, and whether it is time to note that they were seen (`touch`)."""
    now, hashed = time.time(), hash_of(cookie)
    found = connection.execute(select(sessions).where(sessions.c.hash == hashed)).first()
    if found is None or found.expires < now or now - found.seen > IDLE_SECONDS:
        return None, False
    asker = _principal(connection, found.user_id, frozenset(SCOPES), found.csrf, hashed)
    return asker, now - found.seen > _SEEN_SECONDS


def touch(connection: Connection, secret: str) -> None:
    """A session or a token was used just now."""
    hashed, now = hash_of(secret), time.time()
    connection.execute(update(sessions).where(sessions.c.hash == hashed).values(seen=now))
    connection.execute(update(tokens).where(tokens.c.hash == hashed).values(used=now))


def end_session(connection: Connection, hashed: str) -> None:
    connection.execute(delete(sessions).where(sessions.c.hash == hashed))


def same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


# Tokens.


def make_token(
    connection: Connection, asker: Principal, name: str, scopes: Sequence[str], days: float
) -> tuple[str, Token]:
    """A token of the asker's own, which may do no more than they may themselves."""
    wanted = frozenset(scopes)
    beyond = wanted - _OF_ROLE[asker.role]
    if not wanted or beyond:
        raise Refused(f"scopes: your role cannot give {', '.join(sorted(beyond)) or 'none'}")
    made, _ = new_secret()
    made = _TOKEN_PREFIX + made
    now = time.time()
    values = {"user_id": asker.id, "name": name, "scopes": " ".join(sorted(wanted)), "created": now}
    added = connection.execute(insert(tokens).values(hash=hash_of(made), expires=now + days * 86400.0, **values))
    key = added.inserted_primary_key
    found = connection.execute(select(tokens).where(tokens.c.id == (key[0] if key else 0))).one()
    return made, _token(found)


def of_token(connection: Connection, token: str) -> tuple[Principal | None, bool]:
    """As `of_session`."""
    now = time.time()
    if not token.startswith(_TOKEN_PREFIX):
        return None, False
    found = connection.execute(select(tokens).where(tokens.c.hash == hash_of(token))).first()
    if found is None or found.expires < now:
        return None, False
    asker = _principal(connection, found.user_id, frozenset(found.scopes.split()), token=found.hash)
    return asker, now - (found.used or 0.0) > _SEEN_SECONDS


def list_tokens(connection: Connection, user: int) -> list[Token]:
    return [_token(row) for row in connection.execute(select(tokens).where(tokens.c.user_id == user))]


def end_token(connection: Connection, user: int, token: int) -> None:
    if connection.execute(delete(tokens).where(tokens.c.id == token, tokens.c.user_id == user)).rowcount != 1:
        raise NotFound("no such token of yours")


def _token(row: Row[tuple[object, ...]]) -> Token:
    return Token(row.id, row.name, row.scopes.split(), row.created, row.expires, row.used)


def _principal(
    connection: Connection,
    user: int,
    scopes: frozenset[str],
    csrf: str | None = None,
    session: str | None = None,
    token: str | None = None,
) -> Principal | None:
    """A user who was disabled is nobody, whatever they hold; a role that was taken away takes its scopes along."""
    found = connection.execute(select(users).where(users.c.id == user)).first()
    if found is None or found.disabled:
        return None
    groups = frozenset(connection.execute(select(members.c.group_id).where(members.c.user_id == user)).scalars())
    return Principal(found.id, found.name, found.role, groups, scopes & _OF_ROLE[found.role], csrf, session, token)


def still(connection: Connection, user: int, hashed: str, scopes: frozenset[str]) -> Principal | None:
    """Who was let in somewhere as this user, by the session or the token of this hash; None when that has ended."""
    now = time.time()
    session = connection.execute(select(sessions).where(sessions.c.hash == hashed)).first()
    token = connection.execute(select(tokens.c.expires).where(tokens.c.hash == hashed)).first()
    if session is not None:
        lasts = session.expires >= now and now - session.seen <= IDLE_SECONDS
    else:
        lasts = token is not None and token.expires >= now
    return _principal(connection, user, scopes) if lasts else None


def _name(connection: Connection, user: int) -> str:
    return str(connection.execute(select(users.c.name).where(users.c.id == user)).scalar())
