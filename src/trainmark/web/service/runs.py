"""Runs of jobs as results: listed, kept, shown to others by a link that ends."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from sqlalchemy import Connection, RowMapping, delete, insert, or_, select, update

from trainmark.api_objects import Run
from trainmark.report.make.index_row import summarise
from trainmark.spec.states import JobState
from trainmark.store.index import Index, Row
from trainmark.store.rundir import RunDir
from trainmark.web.server import Server
from trainmark.web.service import audit, credentials, database, jobs
from trainmark.web.service.errors import Conflict, NotFound
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import jobs as table
from trainmark.web.service.tables import shares, users

SHARE_DAYS_MOST = 90
# Of one run.
MOST_SHARES = 50


class RunInfo(msgspec.Struct, frozen=True):
    """A run in a list. `succeeded` of its `cases` did; `pinned` ones are kept whatever the rules of retention
    say; `kept` is false once those removed it."""

    run: str
    job: str
    number: int
    owner: str
    name: str
    kind: str
    site: str
    visibility: str
    state: str
    created: float
    started: float | None
    ended: float | None
    pinned: bool
    kept: bool
    suite: str
    cases: int
    succeeded: int


class CaseInfo(msgspec.Struct, frozen=True):
    """A case's state and speed with its interval, as far as it is."""

    case: str
    state: str
    rounds: int
    counted: int
    throughput: float | None
    low: float | None
    high: float | None
    unit: str


class RunHead(msgspec.Struct, frozen=True):
    """A run without its results, which take a while to make."""

    run: RunInfo


class RunDetail(msgspec.Struct, frozen=True):
    run: RunInfo
    results: list[CaseInfo]


class Share(msgspec.Struct, frozen=True):
    id: int
    run: str
    owner: str
    created: float
    expires: float


def listed(
    server: Server,
    asker: Principal,
    *,
    mine: bool = False,
    owner: str | None = None,
    state: JobState | None = None,
    site: str | None = None,
    kind: str | None = None,
    pinned: bool | None = None,
    text: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[RunInfo]:
    """Runs of jobs that one may see, the newest first. `text`: in a job's name or a run's id."""
    asked = jobs.visible(asker).where(table.c.run.is_not(None)).order_by(table.c.number.desc()).limit(limit)
    if mine:
        asked = asked.where(table.c.owner_id == asker.id)
    for column, value in ((users.c.name, owner), (table.c.state, state), (table.c.site, site), (table.c.kind, kind)):
        if value is not None:
            asked = asked.where(column == value)
    if pinned is not None:
        asked = asked.where(table.c.pinned.is_(pinned))
    if text:
        named = table.c.name.contains(text, autoescape=True)
        asked = asked.where(or_(named, table.c.run.contains(text, autoescape=True)))
    if before is not None:
        asked = asked.where(table.c.number < before)
    with database.reading(server.engine) as connection:
        rows = list(connection.execute(asked).mappings())
    of_user: dict[int, list[str]] = {}
    for row in rows:
        of_user.setdefault(row["owner_id"], []).append(row["run"])
    known = {user: Index(server.home.runs(user)).some(names, summarise) for user, names in of_user.items()}
    return [_info(row, known[row["owner_id"]].get(row["run"])) for row in rows]


def progress(server: Server, asker: Principal) -> dict[str, tuple[int, int]]:
    """Of runs that go on, by job: cases that are done, and all; only where there are several."""
    found = listed(server, asker, state=JobState.RUNNING, kind="benchmark")
    return {one.job: (one.succeeded, one.cases) for one in found if one.cases > 1}


def _info(row: RowMapping, known: Row | None) -> RunInfo:
    same = ("number", "owner", "name", "kind", "site", "visibility", "state", "created", "started", "ended", "pinned")
    return RunInfo(
        run=row["run"],
        job=row["id"],
        kept=known is not None,
        suite=known.suite if known else "",
        cases=known.cases if known else 0,
        succeeded=known.succeeded if known else 0,
        **{name: row[name] for name in same},
    )


def find(connection: Connection, asker: Principal, name: str, *, own: bool = False) -> RowMapping:
    """The job of a run, by the run's id or as `jobs.find` takes it."""
    found = connection.execute(jobs.visible(asker).where(table.c.run == name)).mappings().all()
    row = jobs.find(connection, asker, found[0]["id"] if len(found) == 1 else name, own=own)
    if row["run"] is None:
        raise Conflict("the job has not begun")
    return row


def folder(server: Server, asker: Principal, name: str) -> RunDir:
    with database.reading(server.engine) as connection:
        row = find(connection, asker, name)
    return _folder(server, row)


def _folder(server: Server, row: RowMapping) -> RunDir:
    found = RunDir(jobs.run_path(server, row))
    if not found.path.is_dir():
        raise NotFound(f"run `{row['run']}` was removed")
    return found


def detail(server: Server, asker: Principal, name: str) -> RunDetail:
    with database.reading(server.engine) as connection:
        row = find(connection, asker, name)
    return _detail(server, row)


def _detail(server: Server, row: RowMapping) -> RunDetail:
    run = _folder(server, row)
    results = []
    for case in Run(run).report().cases:
        speed = case.measurements.get("throughput")
        figures = (speed.value, speed.ci_low, speed.ci_high, speed.unit) if speed else (None, None, None, "")
        results.append(CaseInfo(case.case, str(case.state), case.rounds, case.counted, *figures))
    return RunDetail(_info(row, summarise(run.path)), results)


def pin(server: Server, asker: Principal, name: str, pinned: bool, address: str) -> RunDetail:
    """Keep a run whatever the rules of retention say, or no longer."""
    with database.writing(server.engine) as connection:
        row = find(connection, asker, name, own=True)
        connection.execute(update(table).where(table.c.number == row["number"]).values(pinned=pinned))
        audit.note(connection, asker.name, "run.pin" if pinned else "run.unpin", row["run"], address)
    return detail(server, asker, row["id"])


# Links for others.


def share(server: Server, asker: Principal, name: str, days: float, address: str) -> tuple[Share, str]:
    """A link by which anybody reads this run until it ends; what it holds is shown once."""
    made, hashed = credentials.new_secret()
    now = time.time()
    with database.writing(server.engine) as connection:
        row = find(connection, asker, name, own=True)
        if len(_shares(connection, row["number"])) >= MOST_SHARES:
            raise Conflict(f"a run has at most {MOST_SHARES} links; end some")
        values = {"job_number": row["number"], "user_id": asker.id, "created": now, "expires": now + days * 86400.0}
        key = connection.execute(insert(shares).values(hash=hashed, **values)).inserted_primary_key
        audit.note(connection, asker.name, "run.share", f"{row['run']} for {days:g} d", address)
    return Share(int(key[0]) if key else 0, row["run"], asker.name, now, values["expires"]), made


def shares_of(server: Server, asker: Principal, name: str) -> list[Share]:
    with database.reading(server.engine) as connection:
        row = find(connection, asker, name, own=True)
        return _shares(connection, row["number"])


def _shares(connection: Connection, number: int) -> list[Share]:
    asked = select(shares, table.c.run, users.c.name.label("owner"))
    asked = asked.join(table, table.c.number == shares.c.job_number).join(users, users.c.id == shares.c.user_id)
    asked = asked.where(shares.c.job_number == number, shares.c.expires > time.time()).order_by(shares.c.id)
    names = ("id", "run", "owner", "created", "expires")
    return [Share(**{name: row[name] for name in names}) for row in connection.execute(asked).mappings()]


def end_share(server: Server, asker: Principal, name: str, number: int, address: str) -> None:
    with database.writing(server.engine) as connection:
        row = find(connection, asker, name, own=True)
        one = (shares.c.id == number, shares.c.job_number == row["number"])
        if connection.execute(delete(shares).where(*one)).rowcount != 1:
            raise NotFound("no such link")
        audit.note(connection, asker.name, "run.unshare", row["run"], address)


def shared(server: Server, link: str) -> tuple[RunHead, RunDir]:
    """The run that a link shows."""
    row = _shared(server, link)
    run = _folder(server, row)
    return RunHead(_info(row, summarise(run.path))), run


def shared_detail(server: Server, link: str) -> RunDetail:
    return _detail(server, _shared(server, link))


def _shared(server: Server, link: str) -> RowMapping:
    """The job of a link. It ends with its time, and when its maker is disabled."""
    asked: Any = select(table, users.c.name.label("owner")).join(users, users.c.id == table.c.owner_id)
    asked = asked.join(shares, shares.c.job_number == table.c.number)
    maker = users.alias("maker")
    asked = asked.join(maker, maker.c.id == shares.c.user_id).where(maker.c.disabled.is_(False))
    asked = asked.where(shares.c.hash == credentials.hash_of(link), shares.c.expires > time.time())
    with database.reading(server.engine) as connection:
        row: RowMapping | None = connection.execute(asked).mappings().first()
    if row is None:
        raise NotFound("this link is not valid, or has ended")
    return row
