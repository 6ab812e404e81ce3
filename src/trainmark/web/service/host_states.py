"""Hosts that an admin keeps jobs from: drained, for nobody; reserved, for some users alone. What runs there goes on.

This is for hosts that the server hands out itself. Nodes of a Slurm cluster are drained and reserved by Slurm.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from sqlalchemy import Connection, delete, insert, select

from trainmark.errors import UserError
from trainmark.reasons import Reason, reason
from trainmark.web.service import audit
from trainmark.web.service.errors import NotFound
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import host_states, users

Kind = Literal["drain", "reserve"]


class HostState(msgspec.Struct, frozen=True):
    """`until`: then it is over; None: when an admin ends it. `users`: those whom it is reserved for."""

    by: str
    why: str
    since: float
    until: float | None
    users: list[str]


class HostStates(msgspec.Struct, frozen=True):
    """Of one host."""

    drain: HostState | None = None
    reserve: HostState | None = None


def listed(connection: Connection) -> dict[str, HostStates]:
    """Those that hold now, by host."""
    now, found = time.time(), dict[str, HostStates]()
    for row in connection.execute(select(host_states)).mappings():
        if row["until"] is None or row["until"] > now:
            allowed = msgspec.json.decode(row["users"], type=list[str])
            state = HostState(row["by"], row["why"], row["since"], row["until"], allowed)
            found[row["host"]] = msgspec.structs.replace(found.get(row["host"], HostStates()), **{row["kind"]: state})
    return found


def closed_to(owner: str, hosts: Iterable[str], states: Mapping[str, HostStates]) -> Reason | None:
    """Why a job of this user does not start on these hosts; None: it may."""
    for host in sorted(hosts):
        found = states.get(host, HostStates())
        if found.drain is not None:
            return reason("waits-host-drained", host=host, user=found.drain.by, why=found.drain.why or "–")
        if found.reserve is not None and owner not in found.reserve.users:
            return reason("waits-host-reserved", host=host, users=", ".join(found.reserve.users))
    return None


def put(
    connection: Connection,
    asker: Principal,
    host: str,
    kind: Kind,
    why: str,
    until: float | None,
    allowed: Sequence[str],
    address: str,
) -> HostState:
    """Made, or put in the place of the one there was."""
    now = time.time()
    if until is not None and until <= now:
        raise UserError("until: found a time that is over")
    known = {row.name for row in connection.execute(select(users.c.name).where(users.c.name.in_(allowed)))}
    for name in allowed:
        if name not in known:
            raise UserError(f"users: no user `{name}`")
    state = HostState(asker.name, why, now, until, list(allowed))
    connection.execute(delete(host_states).where(host_states.c.host == host, host_states.c.kind == kind))
    values = msgspec.structs.asdict(state) | {"users": msgspec.json.encode(state.users).decode()}
    connection.execute(insert(host_states).values(host=host, kind=kind, **values))
    audit.note(connection, asker.name, f"host.{kind}", f"{host} {why}".strip(), address)
    return state


def remove(connection: Connection, asker: Principal, host: str, kind: Kind, address: str) -> None:
    asked = delete(host_states).where(host_states.c.host == host, host_states.c.kind == kind)
    if connection.execute(asked).rowcount != 1:
        raise NotFound(f"host `{host}` is not {'drained' if kind == 'drain' else 'reserved'}")
    audit.note(connection, asker.name, f"host.{kind}.end", host, address)
