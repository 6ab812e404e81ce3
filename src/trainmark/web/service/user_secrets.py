"""Secrets of users: encrypted in the database, never shown again, handed to jobs as files that only they read.

The owner and the name are bound to it: a row that was copied to another user or name is of no use.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, delete, func, insert, select, update

from trainmark.agent import private
from trainmark.store.files import write_whole
from trainmark.web.server import Server
from trainmark.web.service import audit, database, sealing
from trainmark.web.service.errors import Conflict, NotFound
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import secrets

SecretValue = Annotated[str, Meta(min_length=1, max_length=65_536)]
MOST_SECRETS = 100


class SecretInfo(msgspec.Struct, frozen=True):
    """A secret without what it holds."""

    name: str
    created: float


def listed(connection: Connection, asker: Principal) -> list[SecretInfo]:
    asked = select(secrets.c.name, secrets.c.created).where(secrets.c.owner_id == asker.id).order_by(secrets.c.name)
    return [SecretInfo(row.name, row.created) for row in connection.execute(asked)]


def put(server: Server, asker: Principal, name: str, value: str, address: str) -> SecretInfo:
    """The asker's secret of this name, made or replaced."""
    values = {"value": sealing.seal(server.key, _purpose(asker.id, name), value.encode()), "created": time.time()}
    own = (secrets.c.owner_id == asker.id, secrets.c.name == name)
    with database.writing(server.engine) as connection:
        if connection.execute(update(secrets).where(*own).values(**values)).rowcount == 0:
            count = select(func.count()).select_from(secrets).where(secrets.c.owner_id == asker.id)
            if (connection.execute(count).scalar() or 0) >= MOST_SECRETS:
                raise Conflict(f"you may keep {MOST_SECRETS} secrets; remove some")
            connection.execute(insert(secrets).values(owner_id=asker.id, name=name, **values))
        audit.note(connection, asker.name, "secret.put", name, address)
    return SecretInfo(name, float(values["created"]))  # type: ignore[arg-type]


def remove(server: Server, asker: Principal, name: str, address: str) -> None:
    own = (secrets.c.owner_id == asker.id, secrets.c.name == name)
    with database.writing(server.engine) as connection:
        if connection.execute(delete(secrets).where(*own)).rowcount != 1:
            raise NotFound(f"no secret `{name}` of yours")
        audit.note(connection, asker.name, "secret.remove", name, address)


def check(server: Server, owner: int, names: Sequence[str]) -> None:
    """Conflict for the first that the user does not have."""
    with database.reading(server.engine) as connection:
        asked = select(secrets.c.name).where(secrets.c.owner_id == owner, secrets.c.name.in_(names))
        known = {row.name for row in connection.execute(asked)}
    for name in names:
        if name not in known:
            raise Conflict(f"secrets: you have none of the name `{name}`")


def hand(server: Server, owner: int, job: str, names: Sequence[str]) -> None:
    """Writes them where the job's controller, or the job itself, finds them; `take_back` removes them."""
    check(server, owner, names)
    folder = server.home.handed(job)
    private.keep_folder(str(folder))
    with database.reading(server.engine) as connection:
        asked = select(secrets).where(secrets.c.owner_id == owner, secrets.c.name.in_(names))
        rows = connection.execute(asked).all()
    for row in rows:
        value = sealing.unseal(server.key, _purpose(owner, row.name), bytes(row.value))
        if value is None:
            raise Conflict(f"secrets: `{row.name}` was kept with another key of the server; put it again")
        write_whole(folder / row.name, value, mode=private.FILE)


def take_back(server: Server, job: str) -> None:
    shutil.rmtree(server.home.handed(job), ignore_errors=True)


def _purpose(owner: int, name: str) -> str:
    return f"secret {owner} {name}"
