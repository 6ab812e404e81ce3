"""What people open beside a job: TensorBoard, JupyterLab, pages that its command serves, and ssh.

Whoever may see a job may look at its TensorBoard and its pages. Jupyter and ssh run anything as the job's account, so
they are for its owner and admins alone. The host name of each is its own; `web/proxy` serves it, and asks here who may
pass.
"""

from __future__ import annotations

import re
import secrets
import socket
import time
from pathlib import Path
from typing import Literal

import msgspec
from sqlalchemy import RowMapping, delete, insert, select

from trainmark.errors import UserError
from trainmark.store.rundir import RunDir
from trainmark.web.server import Server
from trainmark.web.service import audit, boards, credentials, database, gates, jobs, ssh_keys
from trainmark.web.service.errors import Conflict, NotFound, Refused
from trainmark.web.service.job_plans import WORK
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import endpoints, passes, users
from trainmark.web.service.tables import jobs as job_table

ENTER = "/.trainmark/enter"
TICKET_SECONDS, PASS_SECONDS = 60.0, 12 * 3600.0
PORT = "port-"
_PROGRAMS = ("tensorboard", "jupyter", "ssh")
_FOR_OWNERS = ("jupyter", "ssh")
_FIRST_PAGE = {"jupyter": "/lab"}
State = Literal["closed", "starting", "open", "ended", "stored"]


class EndpointInfo(msgspec.Struct, frozen=True):
    """`stored`: on the logs that a job left. `problem`: why it ended, in words. `yours`: the asker may open it."""

    name: str
    state: State
    problem: str
    yours: bool


class Entry(msgspec.Struct, frozen=True):
    """`url`: opens it in a browser, once, within a minute; empty for ssh. `command`: for ssh, a line for a terminal,
    which checks the job's host key."""

    name: str
    url: str
    command: str


class Passed(msgspec.Struct, frozen=True):
    """Somebody at the address of an endpoint who may be there."""

    label: str
    name: str
    job: str


# By the API.


def listed(server: Server, asker: Principal, name: str) -> list[EndpointInfo]:
    row = _find(server, asker, name)
    return _listed(server, asker, row)


def open_one(server: Server, asker: Principal, name: str, endpoint: str, address: str) -> list[EndpointInfo]:
    """Starts it in the job; what is open stays open."""
    row = _own(server, asker, name)
    _check_name(row, endpoint)
    run = _running(server, row)
    keys = _keys(server, asker) if endpoint == "ssh" else []
    server.gates.ask(run, do="start", name=endpoint, keys=keys)
    with database.writing(server.engine) as connection:
        audit.note(connection, asker.name, "endpoint.open", f"{row['id']} {endpoint}", address)
    return _listed(server, asker, row)


def close_one(server: Server, asker: Principal, name: str, endpoint: str, address: str) -> list[EndpointInfo]:
    """Ends it, for everybody."""
    row = _own(server, asker, name)
    _check_name(row, endpoint)
    if endpoint.startswith(PORT):
        raise Conflict("the command itself serves this; it ends with the job")
    if row["state"] in jobs.ACTIVE:
        server.gates.ask(_running(server, row), do="stop", name=endpoint)
    else:
        server.boards.stop(row["id"])
    with database.writing(server.engine) as connection:
        found = select(endpoints.c.label).where(endpoints.c.job_number == row["number"], endpoints.c.name == endpoint)
        connection.execute(delete(passes).where(passes.c.label.in_(found)))
        audit.note(connection, asker.name, "endpoint.close", f"{row['id']} {endpoint}", address)
    return _listed(server, asker, row)


def enter(server: Server, asker: Principal, name: str, endpoint: str, at: str, address: str) -> Entry:
    """The way in for one browser. `at`: how the asker reaches this server, `http://HOST:PORT`."""
    row = _find(server, asker, name)
    _check_name(row, endpoint)
    _check_may(asker, row, endpoint)
    scheme, _, host = at.partition("://")
    bare, port = _split(host)
    if endpoint == "ssh":
        return Entry(endpoint, "", _ssh_command(server, asker, row, bare))
    if row["state"] not in jobs.ACTIVE:
        _stored(server, row, endpoint)
    label = _label(server, row, endpoint)
    made, hashed = credentials.new_secret()
    came_by = asker.session or asker.token or ""
    values = {"label": label, "user_id": asker.id, "session": came_by, "scopes": " ".join(asker.scopes)}
    with database.writing(server.engine) as connection:
        connection.execute(delete(passes).where(passes.c.expires < time.time()))
        expires = time.time() + TICKET_SECONDS
        connection.execute(insert(passes).values(hash=hashed, ticket=True, expires=expires, **values))
        audit.note(connection, asker.name, "endpoint.enter", f"{row['id']} {endpoint}", address)
    there = f"{label}.{server.rules.endpoints.domain}{f':{port}' if port else ''}"
    return Entry(endpoint, f"{scheme}://{there}{ENTER}?ticket={made}", "")


# By the proxy.


def use_ticket(server: Server, label: str, ticket: str) -> tuple[str, str] | None:
    """What the cookie is to hold, and the page to begin with; None for a ticket that is not valid, was used, or belongs
    to another address."""
    hashed, now = credentials.hash_of(ticket), time.time()
    wanted = select(passes).where(passes.c.hash == hashed, passes.c.ticket, passes.c.label == label)
    with database.reading(server.engine) as connection:
        if connection.execute(wanted).first() is None:
            return None  # strangers do not keep anybody from writing
    with database.writing(server.engine) as connection:
        found = connection.execute(wanted).first()
        if found is None or connection.execute(delete(passes).where(passes.c.hash == hashed)).rowcount != 1:
            return None
        if found.expires < now:
            return None
        made, kept = credentials.new_secret()
        values = {"label": label, "user_id": found.user_id, "session": found.session, "scopes": found.scopes}
        connection.execute(insert(passes).values(hash=kept, ticket=False, expires=now + PASS_SECONDS, **values))
        name = connection.execute(select(endpoints.c.name).where(endpoints.c.label == label)).scalar()
    return made, _FIRST_PAGE.get(str(name), "/")


def passed(server: Server, label: str, cookie: str) -> Passed | None:
    """Whether this cookie lets somebody use this address, now: the user, the session or token by which it was opened,
    and the right to see the job may have ended since."""
    hashed = credentials.hash_of(cookie)
    with database.reading(server.engine) as connection:
        asked = select(passes, endpoints.c.name, endpoints.c.job_number, job_table.c.id.label("job"))
        asked = asked.join(endpoints, endpoints.c.label == passes.c.label)
        asked = asked.join(job_table, job_table.c.number == endpoints.c.job_number)
        found = connection.execute(asked.where(passes.c.hash == hashed, passes.c.label == label)).first()
        if found is None or found.ticket or found.expires < time.time():
            return None
        asker = credentials.still(connection, found.user_id, found.session, frozenset(found.scopes.split()))
        if asker is None:
            return None
        try:
            row = jobs.find(connection, asker, found.job)
            _check_may(asker, row, found.name)
        except UserError:
            return None
    return Passed(label, found.name, found.job)


def connect(server: Server, one: Passed) -> socket.socket:
    """A connection to what the endpoint shows; a UserError says why there is none."""
    row = _row(server, one.job)
    if row["state"] in jobs.ACTIVE:
        return server.gates.connect(_running(server, row), one.name)
    top, parts = _stored(server, row, one.name)
    return server.boards.connect(one.job, top, parts)


def credentials_for(server: Server, one: Passed) -> dict[str, str]:
    """What the proxy adds to requests: the browser never has the token of a Jupyter."""
    if one.name != "jupyter":
        return {}
    return {"authorization": f"token {server.gates.token(_running(server, _row(server, one.job)))}"}


# Parts of these.


def _find(server: Server, asker: Principal, name: str) -> RowMapping:
    with database.reading(server.engine) as connection:
        return jobs.find(connection, asker, name)


def _own(server: Server, asker: Principal, name: str) -> RowMapping:
    with database.reading(server.engine) as connection:
        return jobs.find(connection, asker, name, own=True)


def _row(server: Server, job: str) -> RowMapping:
    asked = select(job_table, users.c.name.label("owner")).join(users, users.c.id == job_table.c.owner_id)
    with database.reading(server.engine) as connection:
        return connection.execute(asked.where(job_table.c.id == job)).mappings().one()


def _running(server: Server, row: RowMapping) -> RunDir:
    found = jobs.run_of(server, row)
    if row["state"] not in jobs.ACTIVE:
        raise Conflict("the job has ended, and what ran beside it with it")
    if found is None:
        raise Conflict("the job has not begun")
    return found


def _check_name(row: RowMapping, endpoint: str) -> None:
    spec = jobs.spec_of(row)
    if spec.command is None:
        raise Conflict("a benchmark has none of these: they would be measured with it")
    number = re.fullmatch(PORT + r"(\d{1,5})", endpoint)
    if endpoint not in _PROGRAMS and not (number and int(number[1]) in spec.ports):
        raise NotFound(f"no `{endpoint[:32]}` of this job")


def _check_may(asker: Principal, row: RowMapping, endpoint: str) -> None:
    if endpoint in _FOR_OWNERS and not _is_own(asker, row):
        raise Refused(f"{endpoint}: only the job's owner and admins run anything in it")


def _is_own(asker: Principal, row: RowMapping) -> bool:
    return asker.is_admin or (row["owner_id"] == asker.id and "submit" in asker.scopes)


def _listed(server: Server, asker: Principal, row: RowMapping) -> list[EndpointInfo]:
    spec = jobs.spec_of(row)
    if spec.command is None:
        return []
    active, own = row["state"] in jobs.ACTIVE, _is_own(asker, row)
    names = [*_PROGRAMS, *(f"{PORT}{port}" for port in spec.ports)]
    stood = {}
    if active and row["state"] == "RUNNING":
        try:
            stood = server.gates.ask(_running(server, row), do="list")
        except UserError:
            stood = {}  # it begins or ends at this moment
    found = []
    for name in names:
        told = stood.get(name) or {}
        state = told.get("state") if told.get("state") in ("starting", "open", "ended") else "closed"
        if not active and name == "tensorboard" and boards.has_logs(*_logs(server, row)):
            state = "stored"
        problem = gates.refusal(name, str(told["why"])) if told.get("why") else ""
        found.append(EndpointInfo(name, state, problem, own or name not in _FOR_OWNERS))  # type: ignore[arg-type]
    return found


def _stored(server: Server, row: RowMapping, endpoint: str) -> tuple[Path, list[str]]:
    if endpoint != "tensorboard":
        raise Conflict("the job has ended, and what ran beside it with it")
    top, parts = _logs(server, row)
    if not boards.has_logs(top, parts):
        raise Conflict(f"the job left no logs in ~/tensorboard/{row['id']}/logs")
    return top, parts


def _logs(server: Server, row: RowMapping) -> tuple[Path, list[str]]:
    """Where the job's home is: in the server's folder, or brought back from the host into the folder of its run."""
    inner = ["tensorboard", row["id"], "logs"]
    here = server.home.job(row["id"]), [WORK, *inner]
    run = jobs.run_of(server, row)
    folder = gates.first_node(run) if run is not None else None
    if folder is None or boards.has_logs(*here):
        return here
    return folder, ["home", *inner]


def _label(server: Server, row: RowMapping, endpoint: str) -> str:
    own = (endpoints.c.job_number == row["number"], endpoints.c.name == endpoint)
    with database.writing(server.engine) as connection:
        found = connection.execute(select(endpoints.c.label).where(*own)).scalar()
        if found is None:
            found = secrets.token_hex(10)
            values = {"label": found, "job_number": row["number"], "name": endpoint, "created": time.time()}
            connection.execute(insert(endpoints).values(**values))
    return str(found)


def _ssh_command(server: Server, asker: Principal, row: RowMapping, host: str) -> str:
    """For a terminal of the asker's, whose key is let in by this."""
    run = _running(server, row)
    told = server.gates.ask(run, do="start", name="ssh", keys=_keys(server, asker)).get("ssh") or {}
    there = host if server.gates.is_here(run) else gates.host_of(run)
    words = (str(told.get("user")), str(told.get("host_key")), there)
    if not all(re.fullmatch(r"[A-Za-z0-9._:@+/= -]+", word) for word in words) or not isinstance(told.get("port"), int):
        raise Conflict("ssh: the job told nothing that a command could be made of")
    alias = f"trainmark-{row['id']}"
    options = (
        f"-o HostKeyAlias={alias} -o 'KnownHostsCommand=/bin/echo {alias} {words[1]}' -o StrictHostKeyChecking=yes"
    )
    return f"ssh {options} -p {told['port']} {words[0]}@{there}"


def _keys(server: Server, asker: Principal) -> list[str]:
    found = ssh_keys.of_user(server, asker)
    if not found:
        raise Conflict("ssh: you have no public key here yet; add one on your account's page")
    return found


def _split(host: str) -> tuple[str, str]:
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:]*)(?::(\d+))?", host)
    return (found[1].strip("[]"), found[2] or "") if found else ("", "")
