"""`trainmark accept` of a site as a job, and what the newest one found."""

from __future__ import annotations

import os
import sys

import msgspec

from trainmark.launch.protocol import launcher_of
from trainmark.report.make.acceptance import Acceptance
from trainmark.web.server import Server
from trainmark.web.service import database, files, jobs, sites
from trainmark.web.service.errors import Conflict, NotFound
from trainmark.web.service.job_plans import WORK
from trainmark.web.service.records import JobDetail, JobSpec, Principal
from trainmark.web.service.tables import jobs as table
from trainmark.web.service.tables import users

_FILE, _LARGEST = "acceptance.json", 8 << 20
# Values reach it by its environment alone. On this machine the job holds the host that its own rounds run on.
_COMMAND = 'exec "$ACCEPT_PYTHON" -m trainmark accept --site "$ACCEPT_SITE" --runs runs --json > acceptance.json\n'
_HERE = f"export TRAINMARK_BESIDE=1\n{_COMMAND}"


class LastAcceptance(msgspec.Struct, frozen=True):
    """`job`: of the newest one that left a verdict; None: there is none."""

    job: str | None
    ended: float | None
    verdict: Acceptance | None


def _name(site: str) -> str:
    return f"accept-{site}"[:64]


def submit(server: Server, asker: Principal, site: str, address: str) -> JobDetail:
    found = sites.load(server.home, site)
    file = server.home.sites / f"{site}.yaml"
    if not file.is_file() or len(found.hosts) < 2:
        raise Conflict(f"site `{site}`: nodes are held against each other, so it needs several hosts")
    here = launcher_of(found).this_machine
    spec = JobSpec(
        name=_name(site),
        command=_HERE if here else _COMMAND,
        env={"ACCEPT_PYTHON": sys.executable, "ACCEPT_SITE": str(file)},
        whole_host=here,
        visibility="all",
    )
    return jobs.submit(server, asker, spec, address)


def last(server: Server, asker: Principal, site: str) -> LastAcceptance:
    asked = jobs.visible(asker).where(table.c.name == _name(site), table.c.kind == "command")
    # Anybody may give a job this name; only what admins ran is a verdict on the site.
    asked = asked.where(table.c.ended.is_not(None), users.c.role == "admin").order_by(table.c.number.desc()).limit(10)
    with database.reading(server.engine) as connection:
        rows = list(connection.execute(asked).mappings())
    for row in rows:
        try:
            with os.fdopen(files.open_below(server.home.job(row["id"]) / WORK, _FILE), "rb") as file:
                verdict = msgspec.json.decode(file.read(_LARGEST), type=Acceptance)
            return LastAcceptance(row["id"], row["ended"], verdict)
        except (NotFound, msgspec.DecodeError):
            continue  # stopped before it had one
    return LastAcceptance(None, None, None)
