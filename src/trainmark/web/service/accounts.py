"""Users and groups. An admin makes users; each sets a password by a link that works once."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from trainmark.web.service import audit, credentials
from trainmark.web.service.errors import Conflict, NotFound
from trainmark.web.service.records import Group, Principal, Role, User
from trainmark.web.service.tables import groups, members, sessions, tokens, users

FIRST_ADMIN = "admin"


def first_start(connection: Connection) -> str | None:
    """The link by which the first admin sets a password; None once somebody has. No start makes a password."""
    found = connection.execute(select(users).where(users.c.role == "admin", users.c.disabled.is_(False))).all()
    if any(row.password for row in found):
        return None
    user = found[0].id if found else add_user(connection, FIRST_ADMIN, "admin")
    return credentials.make_link(connection, user)


def add_user(connection: Connection, name: str, role: Role) -> int:
    try:
        added = connection.execute(insert(users).values(name=name, role=role, disabled=False, created=time.time()))
    except IntegrityError:
        raise Conflict(f"there is a user `{name}` already") from None
    key = added.inserted_primary_key
    return int(key[0]) if key else 0


def list_users(connection: Connection) -> list[User]:
    of_user: dict[int, list[str]] = {}
    for row in connection.execute(select(members.c.user_id, groups.c.name).join(groups)):
        of_user.setdefault(row.user_id, []).append(row.name)
    return [
        User(row.id, row.name, row.role, row.disabled, row.created, sorted(of_user.get(row.id, [])), bool(row.password))
        for row in connection.execute(select(users).order_by(users.c.id))
    ]


def user(connection: Connection, number: int) -> User:
    found = next((one for one in list_users(connection) if one.id == number), None)
    if found is None:
        raise NotFound(f"no user number {number}")
    return found


def change_user(
    connection: Connection, asker: Principal, number: int, role: Role | None, disabled: bool | None, address: str
) -> User:
    """Whoever loses a role or is disabled is signed out everywhere at once."""
    before = user(connection, number)
    values: dict[str, object] = {}
    if role is not None:
        values["role"] = role
    if disabled is not None:
        values["disabled"] = disabled
    loses = (role is not None and role != "admin") or bool(disabled)
    if before.role == "admin" and loses and _admins(connection) <= 1:
        raise Conflict("this is the last admin; make another one first")
    if values:
        connection.execute(update(users).where(users.c.id == number).values(**values))
        connection.execute(delete(sessions).where(sessions.c.user_id == number))
        if disabled:
            connection.execute(delete(tokens).where(tokens.c.user_id == number))
        audit.note(connection, asker.name, "user.change", f"{before.name} {values}", address)
    return user(connection, number)


def _admins(connection: Connection) -> int:
    asked = select(func.count()).select_from(users).where(users.c.role == "admin", users.c.disabled.is_(False))
    return int(connection.execute(asked).scalar() or 0)


def list_groups(connection: Connection) -> list[Group]:
    of_group: dict[int, list[str]] = {}
    for row in connection.execute(select(members.c.group_id, users.c.name).join(users)):
        of_group.setdefault(row.group_id, []).append(row.name)
    rows = connection.execute(select(groups).order_by(groups.c.id))
    return [Group(row.id, row.name, sorted(of_group.get(row.id, []))) for row in rows]


def put_group(connection: Connection, asker: Principal, name: str, names: Sequence[str], address: str) -> Group:
    """The group of this name with exactly these members; made if there is none."""
    found = connection.execute(select(groups.c.id).where(groups.c.name == name)).scalar()
    if found is None:
        key = connection.execute(insert(groups).values(name=name)).inserted_primary_key
        found = key[0] if key else 0
    known = {row.name: row.id for row in connection.execute(select(users.c.name, users.c.id))}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise NotFound(f"no user {', '.join(unknown)}")
    connection.execute(delete(members).where(members.c.group_id == found))
    for one in sorted(set(names)):
        connection.execute(insert(members).values(group_id=found, user_id=known[one]))
    audit.note(connection, asker.name, "group.put", f"{name}: {', '.join(sorted(set(names)))}", address)
    return Group(found, name, sorted(set(names)))


def remove_group(connection: Connection, asker: Principal, name: str, address: str) -> None:
    found = connection.execute(select(groups.c.id).where(groups.c.name == name)).scalar()
    if found is None:
        raise NotFound(f"no group `{name}`")
    connection.execute(delete(members).where(members.c.group_id == found))
    connection.execute(delete(groups).where(groups.c.id == found))
    audit.note(connection, asker.name, "group.remove", name, address)
