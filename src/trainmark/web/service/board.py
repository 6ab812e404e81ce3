"""Who is fastest at what: the best run of each system, over the runs that one may see.

Runs whose figures nobody has read yet are read little by little, as people ask.
"""

from __future__ import annotations

import time

import msgspec
from sqlalchemy import RowMapping

from trainmark.errors import UserError
from trainmark.report import build
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir
from trainmark.trust import leaderboard
from trainmark.trust.board_entry import of_run
from trainmark.trust.leaderboard import Row
from trainmark.web.server import Server
from trainmark.web.service import database, jobs
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import jobs as table
from trainmark.web.service.tables import users

# How long one question reads runs that nobody has read yet.
READ_SECONDS = 0.3
# Of one workload and preset; judging is of each against all others.
_MOST_ROWS = 100


class Standing(msgspec.Struct, frozen=True):
    """The best run of a system at one question. `place`: one more than those that are beyond doubt faster; `tie`:
    others that are not beyond doubt slower share it."""

    question: str
    unit: str
    place: int
    tie: bool
    system: str
    framework: str
    device: str
    nodes: int
    processes: int
    dtype: str
    value: float
    low: float | None
    high: float | None
    job: str
    owner: str


class Board(msgspec.Struct, frozen=True):
    """`unread`: runs whose figures are not in it yet; asking again reads on."""

    standings: list[Standing]
    unread: int


def rows(server: Server, asker: Principal) -> tuple[list[Row], int]:
    """The best row of each system, and how many runs are not read yet. A row's `bundle` is the job that it is of."""
    asked = jobs.visible(asker).where(table.c.kind == "benchmark", table.c.state == JobState.SUCCEEDED)
    asked = asked.where(table.c.run.is_not(None)).order_by(table.c.number.desc())
    asked = asked.with_only_columns(table.c.id, table.c.run, table.c.owner_id, users.c.name.label("owner"))
    with database.reading(server.engine) as connection:
        found = list(connection.execute(asked).mappings())
    known, until, unread = server.figures.known(), time.monotonic() + READ_SECONDS, 0
    best: dict[tuple[object, ...], Row] = {}
    for job in found:
        made = known.get(job["run"])
        if made is None and time.monotonic() < until:
            made = _of_run(server, job)
            server.figures.put(job["run"], made)
        unread += made is None
        for row in made or ():
            key = (row.question, row.unit, row.system, row.framework, row.device, row.nodes, row.procs, row.dtype)
            if key not in best or row.value > best[key].value:
                best[key] = row
    return _fastest(list(best.values())), unread


def _of_run(server: Server, job: RowMapping) -> list[Row]:
    run = RunDir(jobs.run_path(server, job))
    try:
        manifest = run.manifest()
        cases = build.build(run).cases
    except UserError:
        return []  # removed, or its report says what is wrong with it
    about = of_run(manifest, job["id"], job["owner"])
    made = [leaderboard.row_of(case, manifest, about) for case in cases]
    return [row for row in made if row is not None]


def _fastest(found: list[Row]) -> list[Row]:
    by_question: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(found, key=lambda row: -row.value):
        by_question.setdefault((row.question, row.unit), []).append(row)
    return [row for _, group in sorted(by_question.items()) for row in group[:_MOST_ROWS]]


def board(server: Server, asker: Principal) -> Board:
    found, unread = rows(server, asker)
    standings = []
    for question, unit in dict.fromkeys((row.question, row.unit) for row in found):
        group = [row for row in found if (row.question, row.unit) == (question, unit)]
        places = leaderboard.places(group)
        standings += [
            Standing(
                question=question,
                unit=unit,
                place=place,
                tie=places.count(place) > 1,
                processes=row.procs,
                low=row.ci_low,
                high=row.ci_high,
                job=row.bundle,
                owner=row.maker,
                **{name: getattr(row, name) for name in ("system", "framework", "device", "nodes", "dtype", "value")},
            )
            for row, place in zip(group, places, strict=True)
        ]
    return Board(standings, unread)
