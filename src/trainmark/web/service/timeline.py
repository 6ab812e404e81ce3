"""What happened to a job, in order: its row in the database, and the journal of its run."""

from __future__ import annotations

import msgspec
from sqlalchemy import RowMapping

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.store import journal
from trainmark.store.rundir import RunDir
from trainmark.web.service.jobs import decode_reason


class JobEvent(msgspec.Struct, frozen=True):
    """`kind`: queued, started, ended, or as a run's journal names it; `what`: the reason, in words."""

    at: float
    kind: str
    case: str | None
    round: int | None
    attempt: int | None
    state: str | None
    what: str


def events(row: RowMapping, run: RunDir | None, language: str = "en") -> list[JobEvent]:
    found = [_own(row["created"], "queued", "PENDING")]
    if run is not None:
        found += _of_run(run, language)
    why = decode_reason(row["reason"])
    if row["ended"] is not None:
        found.append(_own(row["ended"], "ended", row["state"], say(why, language) if why else ""))
    return sorted(found, key=lambda one: one.at)


def _own(at: float, kind: str, state: str, what: str = "") -> JobEvent:
    return JobEvent(at, kind, None, None, None, state, what)


def _of_run(run: RunDir, language: str) -> list[JobEvent]:
    try:
        cases = run.manifest().plan.cases
        records = journal.read(run.path).records
    except UserError:
        return []  # the report says what is wrong with it
    return [
        JobEvent(
            at=one.wall * 1e-9,
            kind=one.k,
            case=cases[one.case].case if one.case is not None and one.case < len(cases) else None,
            round=one.round,
            attempt=one.attempt,
            state=str(one.state) if one.state is not None else None,
            what=say(one.reason, language) if one.reason is not None else "",
        )
        for one in records
    ]
