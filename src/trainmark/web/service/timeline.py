"""What happened to a job, in order, and how long each phase took: from its row in the database, the journal of its run,
and the first events of its ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from sqlalchemy import RowMapping

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.store import journal
from trainmark.store.files import decode_line
from trainmark.store.journal import Record
from trainmark.store.rundir import EVENTS, RunDir, node_files
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


# Phases.

Phase = Literal["queued", "starting", "waiting", "preparing", "working"]
# Attempts whose phases are shown, the newest; bytes of a node's events in which its ranks say that they begin to train.
_MOST_ATTEMPTS = 120
_FIRST_BYTES = 1 << 16


class Span(msgspec.Struct, frozen=True):
    """A phase of a job. `lane`: the case, or nothing for the job as a whole. `end` None: it goes on. `state`: what
    became of the attempt that it is of."""

    lane: str
    phase: Phase
    begin: float
    end: float | None
    round: int | None = None
    attempt: int | None = None
    state: str | None = None


def spans(row: RowMapping, run: RunDir | None) -> list[Span]:
    """In the queue; then of each attempt: being started, waiting for a scheduler's nodes, preparing, training or what
    else its command does."""
    begun = row["started"] if row["started"] is not None else row["ended"]
    found = [Span("", "queued", row["created"], begun)]
    if run is None:
        return found
    try:
        cases, records = run.manifest().plan.cases, journal.read(run.path).records
    except UserError:
        return found  # the report says what is wrong with it
    attempts: dict[tuple[int, int, int], list[Record]] = {}
    for one in records:
        if one.case is not None and one.round is not None and one.attempt is not None and one.case < len(cases):
            attempts.setdefault((one.case, one.round, one.attempt), []).append(one)
    for (case, number, attempt), told in list(attempts.items())[-_MOST_ATTEMPTS:]:
        folder = run.attempt(cases[case], RoundRef(case, number), attempt)
        found += _of_attempt(cases[case], number, attempt, told, folder, row["ended"])
    return found


def _of_attempt(
    case: CasePlan, number: int, attempt: int, told: Sequence[Record], folder: Path, over: float | None
) -> list[Span]:
    """`over`: when the job ended, which is the end of an attempt that nobody saw ending."""
    last = next((one for one in told if one.k == journal.ENDED), None)
    end = over if last is None else last.wall * 1e-9
    state = None if last is None or last.state is None else str(last.state)
    began, trained = _first_moments(folder)
    marks: list[tuple[Phase, float]] = [("starting", told[0].wall * 1e-9)]
    marks += [("waiting", one.wall * 1e-9) for one in told if one.k == journal.WAITING][:1]
    marks += [("starting", one.wall * 1e-9) for one in told if one.k == journal.BEGAN][:1]
    marks += [("preparing", began)] if began is not None else []
    marks += [("working", trained)] if trained is not None else []
    if trained is None and began is None:
        # A command that does not train says nothing of itself: it works from when it was handed over.
        marks += [("working", one.wall * 1e-9) for one in told if one.k == journal.SUBMITTED][:1]
    # The clock of a node and that of the server may differ.
    latest = end if end is not None else time.time()
    at = [min(moment, latest) for _, moment in marks]
    ends: list[float | None] = [*at[1:], end]
    return [
        Span(case.case, phase, begin, until, number, attempt, state)
        for (phase, _), begin, until in zip(marks, at, ends, strict=True)
        if until is None or until > begin
    ]


def _first_moments(folder: Path) -> tuple[float | None, float | None]:
    """When the first rank that is listed began, and when it began to train. Its clock is told once, beside the time."""
    for file in node_files(folder, EVENTS)[:1]:
        with file.open("rb") as events:
            lines = events.read(_FIRST_BYTES).splitlines()
        known = [one for one in map(decode_line, lines) if isinstance(one, dict)]
        init = next((one for one in known if one.get("k") == "INIT_START" and isinstance(one.get("wall"), int)), None)
        if init is None or not isinstance(init.get("t"), int):
            return None, None
        train = next(
            (one for one in known if one.get("k") == "TRAIN_START" and one.get("rank") == init.get("rank")), {}
        )
        begin, begun = init["wall"] * 1e-9, train.get("t")
        return begin, begin + (begun - init["t"]) * 1e-9 if isinstance(begun, int) else None
    return None, None
