"""Secrets of users: put and removed, listed by name, never shown."""

from __future__ import annotations

import msgspec
from litestar import delete, get, put

from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, GroupName, asker_of
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import database, user_secrets
from trainmark.web.service.user_secrets import SecretInfo, SecretValue


class PutSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: SecretValue

    def __repr__(self) -> str:
        """So that no log has it by accident."""
        return "PutSecret(…)"


@get("/secrets", **rules(Access.READ))
def list_secrets(request: Asked, server: Server) -> list[SecretInfo]:
    """Names of one's own secrets."""
    with database.reading(server.engine) as connection:
        return user_secrets.listed(connection, asker_of(request))


@put("/secrets/{name:str}", **rules(Access.SUBMIT))
def put_secret(request: Asked, server: Server, name: GroupName, data: PutSecret) -> SecretInfo:
    """Keep a secret, or replace it. It is not shown again; jobs get it as a file."""
    return user_secrets.put(server, asker_of(request), name, data.value, address_of(request.scope))


@delete("/secrets/{name:str}", **rules(Access.SUBMIT))
def remove_secret(request: Asked, server: Server, name: GroupName) -> None:
    """Remove one of one's own secrets."""
    user_secrets.remove(server, asker_of(request), name, address_of(request.scope))


ROUTES = [list_secrets, put_secret, remove_secret]
