"""Finished runs with known speeds, written as a controller and its agents would have."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.plan.records import SCHEMA, CasePlan, Plan, RoundRef
from trainmark.spec.columns import Event
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.store import journal, rundir
from trainmark.testing.launchers import case_plan

S = 1_000_000_000
STEPS, BATCH = 120, 10


def speed_events(speed: float) -> list[Event]:
    """One rank that trains at `speed` samples per second from first to last."""
    events = [Event("INIT_START", 0, 0, 0, timing="host"), Event("TRAIN_START", 0, 1, 0)]
    events += [
        Event("STEP_END", 0, step + 1, round(step * BATCH / speed * S), step=step, n=BATCH)
        for step in range(1, STEPS + 1)
    ]
    return [*events, Event("FINISHED", 0, STEPS + 2, events[-1].t)]


def finished_run(
    runs: Path,
    name: str,
    speeds: Mapping[str, Sequence[float | JobState]],
    changes: Mapping[str, Any] | None = None,
    host: str = "here",
) -> Path:
    """A run of the given cases: the speed of each of its rounds, or the state in which the round ended instead."""
    cases = tuple(_case(case, rounds, host, changes or {}) for case, rounds in speeds.items())
    most = max(len(rounds) for rounds in speeds.values())
    blocks = tuple(
        tuple(RoundRef(index, number) for index, case in enumerate(cases) if case.repeat >= number)
        for number in range(1, most + 1)
    )
    run = rundir.RunDir(runs / name)
    run.path.mkdir(parents=True)
    plan = Plan(SCHEMA, "made", "closed", Site(hosts=[host]), 1, 0, cases, blocks)
    rundir.write_manifest(run, rundir.Manifest(rundir.SCHEMA, name, 1, "0", [], plan, {}))
    writer = journal.Journal(run.path, 1, contextlib.nullcontext)
    writer.append(journal.OWNER)
    for ref in plan.order:
        _round(run, writer, cases[ref.case], ref, list(speeds.values())[ref.case][ref.round - 1])
    writer.append(journal.FINISHED, state=JobState.SUCCEEDED)
    writer.close()
    return run.path


def _case(case: str, rounds: Sequence[object], host: str, changes: Mapping[str, Any]) -> CasePlan:
    return msgspec.structs.replace(case_plan(("true",), [host], case), repeat=len(rounds), **changes)


def _round(run: rundir.RunDir, writer: journal.Journal, case: CasePlan, ref: RoundRef, found: float | JobState) -> None:
    place: dict[str, Any] = {"case": ref.case, "round": ref.round, "attempt": 1}
    writer.append(journal.ATTEMPT, **place, token="t")
    state = found if isinstance(found, JobState) else JobState.SUCCEEDED
    if not isinstance(found, JobState):
        node = rundir.node_dir(run.attempt(case, ref, 1), "here", 0)
        node.mkdir(parents=True)
        lines = [msgspec.json.encode(event) for event in speed_events(found)]
        (node / rundir.EVENTS).write_bytes(b"\n".join(lines) + b"\n")
    reason = "" if state is JobState.SUCCEEDED else "made so by a test"
    writer.append(journal.ENDED, **place, state=state, reason=reason)
