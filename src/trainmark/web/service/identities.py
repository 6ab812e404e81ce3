"""Identities that are tied to users: whom the provider names, and who that is here."""

from __future__ import annotations

import hashlib

import msgspec
from sqlalchemy import Connection, delete, select

from trainmark.web.service import audit
from trainmark.web.service.errors import Conflict, NotFound
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import identities, sessions, users


class Identity(msgspec.Struct, frozen=True):
    """`id` is made of the issuer and the subject."""

    id: str
    issuer: str
    subject: str
    created: float


def listed(connection: Connection, user: int) -> list[Identity]:
    asked = select(identities).where(identities.c.user_id == user).order_by(identities.c.created)
    return [
        Identity(_id(row.issuer, row.subject), row.issuer, row.subject, row.created)
        for row in connection.execute(asked)
    ]


def untie(connection: Connection, asker: Principal, user: int, identity: str, address: str) -> None:
    """It no longer signs in as this user, and sessions that it may have begun end; the asker's own goes on."""
    found = listed(connection, user)
    one = next((one for one in found if one.id == identity), None)
    if one is None:
        raise NotFound("no such identity of this user")
    has_password = connection.execute(select(users.c.password).where(users.c.id == user)).scalar() is not None
    if user == asker.id and len(found) == 1 and not has_password:
        raise Conflict("you could not sign in any more; ask an admin for a link to set a password first")
    which = (identities.c.issuer == one.issuer, identities.c.subject == one.subject)
    connection.execute(delete(identities).where(*which))
    connection.execute(delete(sessions).where(sessions.c.user_id == user, sessions.c.hash != (asker.session or "")))
    audit.note(connection, asker.name, "identity.untie", f"{one.issuer} {one.subject}", address)


def _id(issuer: str, subject: str) -> str:
    return hashlib.sha256(f"{issuer}\n{subject}".encode()).hexdigest()[:32]
