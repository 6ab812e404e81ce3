"""Jobs: submitting, finding, changing and stopping them. Carrying them out is `web/queue`'s."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, RowMapping, Select, and_, func, insert, or_, select, update

from trainmark.i18n import words
from trainmark.i18n.speaker import say
from trainmark.reasons import Reason, reason
from trainmark.run import planning
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir
from trainmark.web.server import Server
from trainmark.web.service import audit, database, job_plans, sites, user_secrets
from trainmark.web.service.errors import Conflict, NotFound, Refused
from trainmark.web.service.records import MOST_PRIORITY, Job, JobDetail, JobSpec, Principal, Visibility
from trainmark.web.service.tables import jobs, members, users

ACTIVE = (JobState.PENDING, JobState.RUNNING)
# Of one user, that have not ended.
MOST_ACTIVE = 1000
# Users choose up to this; admins beyond.
USERS_PRIORITY = 200


def submit(server: Server, asker: Principal, spec: JobSpec, address: str) -> JobDetail:
    """Checks all of it by planning it, and queues it."""
    sites.check_may_submit(server.home, server.rules, asker, spec.site)
    _check_priority(asker, spec.priority)
    job_plans.check(spec)
    user_secrets.check(server, asker.id, spec.secrets)
    if spec.seed is None:
        # Chosen now, so that what runs is what a dry run of the same specification showed.
        spec = msgspec.structs.replace(spec, seed=planning.random_seed())
    job = secrets.token_hex(8)
    needs = _needs(server, asker, job, spec)
    now = time.time()
    with database.writing(server.engine) as connection:
        asked = select(jobs.c.id).where(jobs.c.owner_id == asker.id, jobs.c.state.in_(ACTIVE)).limit(MOST_ACTIVE)
        if len(connection.execute(asked).all()) >= MOST_ACTIVE:
            raise Conflict(f"you have {MOST_ACTIVE} jobs that have not ended; wait, or stop some")
        _check_ports(connection, spec)
        # The folder is there before the row is: whoever finds the row can start the job.
        job_plans.prepare(server.home, job, spec)
        connection.execute(
            insert(jobs).values(
                id=job,
                owner_id=asker.id,
                name=spec.name,
                kind="command" if spec.command is not None else "automl" if spec.automl is not None else "benchmark",
                site=spec.site,
                visibility=spec.visibility,
                spec=msgspec.json.encode(spec).decode(),
                needs=msgspec.json.encode(needs).decode(),
                priority=spec.priority,
                preemptible=spec.preemptible,
                limit=spec.limit,
                state=JobState.PENDING,
                reason=encode_reason(reason("waits-next")),
                wanted="go",
                created=now,
                queued=now,
                restarts=0,
                slots="",
            )
        )
        audit.note(connection, asker.name, "job.submit", f"{job} {spec.name}", address)
    if server.keeper is not None:
        server.keeper.wake()
    return detail(server, asker, job)


def _needs(server: Server, asker: Principal, job: str, spec: JobSpec) -> dict[str, int]:
    plan = job_plans.plan(server.home, server.rules, asker.name, job, spec)
    planning.check(plan, server.home.runs(asker.id), hosts=False)
    return job_plans.needs(server.rules, spec, plan)


def dry_run(server: Server, asker: Principal, spec: JobSpec) -> dict[str, Any]:
    """What `submit` would run, without keeping anything of it."""
    sites.check_may_submit(server.home, server.rules, asker, spec.site)
    job_plans.check(spec)
    user_secrets.check(server, asker.id, spec.secrets)
    plan = job_plans.plan(server.home, server.rules, asker.name, "JOB", spec)
    return {**job_plans.preview(plan, spec), "needs": job_plans.needs(server.rules, spec, plan)}


def _check_ports(connection: Connection, spec: JobSpec) -> None:
    """A port is one job's until it ends: nobody is led to another's program."""
    if not spec.ports:
        return
    asked = select(jobs.c.id, jobs.c.spec).where(jobs.c.state.in_(ACTIVE), jobs.c.site == spec.site)
    for row in connection.execute(asked).mappings():
        taken = set(spec.ports) & set(spec_of(row).ports)
        if taken:
            raise Conflict(f"ports: another job at site `{spec.site}` has {min(taken)} until it ends; choose another")


def most_priority(asker: Principal) -> int:
    """The highest that one may choose."""
    return MOST_PRIORITY if asker.role == "admin" else USERS_PRIORITY


def _check_priority(asker: Principal, priority: int) -> None:
    if priority > most_priority(asker):
        raise Refused(f"priority: above {USERS_PRIORITY} is for admins")


# Finding.


def visible(asker: Principal) -> Select[Any]:
    """Jobs with their owners' names: one's own, those that are shared with all, those of members of one's groups that
    are shared with them; for an admin all."""
    asked = select(jobs, users.c.name.label("owner")).join(users, users.c.id == jobs.c.owner_id)
    if asker.is_admin:
        return asked
    peers = select(members.c.user_id).where(members.c.group_id.in_(asker.groups))
    shared = and_(jobs.c.visibility == "group", jobs.c.owner_id.in_(peers))
    return asked.where(or_(jobs.c.owner_id == asker.id, jobs.c.visibility == "all", shared))


def find(connection: Connection, asker: Principal, name: str, *, own: bool = False) -> RowMapping:
    """By its id, the unique start of it, its number, or `last`. `own`: to change it, so it must be the asker's own (an
    admin may change all). What the asker may not see is not there."""
    asked = visible(asker)
    if name == "last":
        asked = asked.where(jobs.c.owner_id == asker.id).order_by(jobs.c.number.desc()).limit(1)
    elif name.isascii() and name.isdigit() and len(name) < 10:
        asked = asked.where(or_(jobs.c.number == int(name), jobs.c.id == name))
    else:
        asked = asked.where(jobs.c.id.startswith(name, autoescape=True)).limit(2)
    found = connection.execute(asked).mappings().all()
    if len(found) != 1 or (len(name) < 4 and not name.isdigit()):
        raise NotFound(f"no job `{name[:40]}`" if len(found) != 1 else "a job's id has at least four letters")
    if own and found[0]["owner_id"] != asker.id and not asker.is_admin:
        raise Refused("this job is another user's")
    return found[0]


def by_number(connection: Connection, number: int) -> RowMapping:
    """For the server itself: nobody is asked whether they may see it."""
    return connection.execute(select(jobs).where(jobs.c.number == number)).mappings().one()


def listed(
    connection: Connection,
    asker: Principal,
    *,
    mine: bool = False,
    state: JobState | None = None,
    site: str | None = None,
    owner: str | None = None,
    kind: str | None = None,
    active: bool = False,
    text: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Job]:
    """The newest first; `before`: only those with a smaller number, for the next page."""
    asked = visible(asker).order_by(jobs.c.number.desc()).limit(limit)
    if mine:
        asked = asked.where(jobs.c.owner_id == asker.id)
    if state is not None:
        asked = asked.where(jobs.c.state == state)
    if active:
        asked = asked.where(jobs.c.state.in_(ACTIVE))
    for column, value in ((jobs.c.site, site), (users.c.name, owner), (jobs.c.kind, kind)):
        if value is not None:
            asked = asked.where(column == value)
    if text:
        asked = asked.where(jobs.c.name.contains(text, autoescape=True))
    if before is not None:
        asked = asked.where(jobs.c.number < before)
    return [record(row) for row in connection.execute(asked).mappings()]


def count(connection: Connection, asker: Principal, state: JobState) -> int:
    """How many jobs that one may see are in a state."""
    asked = visible(asker).where(jobs.c.state == state).with_only_columns(func.count(jobs.c.id))
    return int(connection.execute(asked).scalar_one())


def detail(server: Server, asker: Principal, name: str) -> JobDetail:
    with database.reading(server.engine) as connection:
        row = find(connection, asker, name)
    return JobDetail(record(row), spec_of(row))


def record(row: RowMapping, language: str = "en") -> Job:
    why = decode_reason(row["reason"])
    return Job(
        id=row["id"],
        number=row["number"],
        owner=row["owner"],
        name=row["name"],
        kind=row["kind"],
        site=row["site"],
        visibility=row["visibility"],
        state=row["state"],
        reason=say(why, language) if why else "",
        reason_code=why.code if why else "",
        priority=row["priority"],
        preemptible=row["preemptible"],
        time_limit=row["limit"],
        created=row["created"],
        started=row["started"],
        ended=row["ended"],
        run=row["run"],
        restarts=row["restarts"],
        slots={host: sorted(numbers) for host, numbers in slots_of(row).items()},
        stopping=row["wanted"] == "stop" and row["state"] in ACTIVE,
    )


def spec_of(row: RowMapping) -> JobSpec:
    return msgspec.json.decode(row["spec"], type=JobSpec)


def slots_of(row: RowMapping) -> dict[str, frozenset[int]]:
    return msgspec.json.decode(row["slots"], type=dict[str, frozenset[int]]) if row["slots"] else {}


def needs_of(row: RowMapping) -> dict[str, int]:
    """Slots that it asks for, by host."""
    return msgspec.json.decode(row["needs"], type=dict[str, int])


def run_of(server: Server, row: RowMapping) -> RunDir | None:
    """The folder of its run; None before there is one."""
    return RunDir(run_path(server, row)) if row["run"] else None


def run_path(server: Server, row: RowMapping) -> Path:
    return server.home.runs(row["owner_id"]) / str(row["run"])


def need_run(server: Server, asker: Principal, name: str) -> RunDir:
    with database.reading(server.engine) as connection:
        found = run_of(server, find(connection, asker, name))
    if found is None:
        raise Conflict("the job has not begun")
    return found


# Changing.


def stop(server: Server, asker: Principal, name: str, address: str) -> JobDetail:
    """A job that waits ends at once; one that runs is asked to."""
    with database.writing(server.engine) as connection:
        row = find(connection, asker, name, own=True)
        if row["state"] not in ACTIVE:
            raise Conflict(f"the job has ended: {row['state']}")
        values: dict[str, Any] = {"wanted": "stop", "reason": encode_reason(reason("job-stopped", user=asker.name))}
        if row["launched"] is None:
            values |= {"state": JobState.CANCELLED, "ended": time.time()}
        connection.execute(update(jobs).where(jobs.c.number == row["number"]).values(**values))
        audit.note(connection, asker.name, "job.stop", row["id"], address)
    if server.keeper is not None:
        server.keeper.wake()
    return detail(server, asker, row["id"])


def change(
    server: Server,
    asker: Principal,
    name: str,
    priority: int | None,
    visibility: Visibility | None,
    address: str,
) -> JobDetail:
    if priority is not None:
        _check_priority(asker, priority)
    values = {"priority": priority, "visibility": visibility}
    wanted = {key: value for key, value in values.items() if value is not None}
    with database.writing(server.engine) as connection:
        row = find(connection, asker, name, own=True)
        if wanted:
            connection.execute(update(jobs).where(jobs.c.number == row["number"]).values(**wanted))
            audit.note(connection, asker.name, "job.change", f"{row['id']} {wanted}", address)
    return detail(server, asker, row["id"])


def clone(server: Server, asker: Principal, name: str, address: str) -> JobDetail:
    """The same again, as the asker's own job."""
    found = detail(server, asker, name)
    return submit(server, asker, msgspec.structs.replace(found.spec, seed=None), address)


# Reasons in the database.


def encode_reason(why: Reason | None) -> str:
    return msgspec.json.encode(why).decode() if why is not None else ""


def decode_reason(text: str) -> Reason | None:
    return msgspec.json.decode(text, type=Reason) if text else None


def in_language(job: Job, language: str) -> Job:
    """With its reason in a language, which is kept in English."""
    return job if language == "en" else msgspec.structs.replace(job, reason=words.error(job.reason, language))
