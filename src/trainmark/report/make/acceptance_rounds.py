"""The rounds of an acceptance, read from its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.plan.fleet import hosts_of
from trainmark.reasons import Reason, as_reason, reason
from trainmark.report.make.attempt import question
from trainmark.run import budget
from trainmark.score.accept.contract import FirstStep
from trainmark.score.figures.attempt import score_run
from trainmark.spec.columns import Columns, is_number
from trainmark.spec.states import JobState
from trainmark.store import columns, events, journal
from trainmark.store.files import read_json
from trainmark.store.rundir import FACTS, RunDir
from trainmark.store.state import RunState


class Seen(msgspec.Struct, frozen=True):
    """What one run of an acceptance showed, and how long was worked on it."""

    rounds: list[Measured]
    seconds: float = 0.0


class Measured(msgspec.Struct, frozen=True):
    """One round on its hosts: a speed, or why there is none."""

    hosts: tuple[str, ...]
    round: int
    speed: float | None
    why: Reason | None = None
    step: FirstStep | None = None
    kind: str = ""
    disturbed: bool = False
    # What the site's peaks say of its host, and the share of it that the case used.
    peak: float | None = None
    used: float | None = None


def read(run: RunDir, what: str) -> Seen:
    """Every round of a run, in the plan's order, but for those that its time did not allow."""
    records = journal.read(run.path).records
    return Seen(_rounds(run, what, records), budget.seconds_worked(records))


def _rounds(run: RunDir, what: str, records: Sequence[journal.Record]) -> list[Measured]:
    plan = run.manifest().plan
    state = RunState.replay(plan, records)
    found = []
    for ref in plan.order:
        case = plan.cases[ref.case]
        outcome, why_not = state.outcome(ref)
        attempt = state.rounds[ref].last()
        if why_not is not None and why_not.code == budget.TIME_IS_UP:
            continue
        if outcome is not JobState.SUCCEEDED or attempt is None:
            found.append(
                Measured(
                    hosts_of(case), ref.round, None, as_reason(why_not) or reason("round-state", state=str(outcome))
                )
            )
            continue
        folder = run.attempt(case, ref, attempt.number)
        read = columns.read(folder, case.world)
        if what == "links":
            speed = _bandwidth(read)
            found.append(Measured(hosts_of(case), ref.round, speed, None if speed else reason("no-bandwidth")))
            continue
        score = score_run(read, events.samples(folder), question(case))
        speed = score.value("throughput") or None
        why = None if speed else score.reason or reason("told-no-speed")
        disturbed = bool(score.disturbed)
        peak, used = case.reachable, score.value("matmul_fraction") if case.reachable else None
        found.append(Measured(hosts_of(case), ref.round, speed, why, _step(read), _kind(folder), disturbed, peak, used))
    return found


def _bandwidth(read: Columns) -> float | None:
    """What the largest messages got, over all operations: the geometric mean."""
    largest: dict[str, tuple[float, float]] = {}
    for rank in read.ranks:
        for note in rank.notes("collective"):
            if isinstance(note, dict) and is_number(note.get("bytes")) and is_number(note.get("bus_bandwidth")):
                name = str(note.get("operation"))
                largest[name] = max(largest.get(name, (0.0, 0.0)), (note["bytes"], note["bus_bandwidth"]))
    speeds = [speed for _, speed in largest.values() if speed > 0]
    return math.exp(sum(map(math.log, speeds)) / len(speeds)) if speeds else None


def _step(read: Columns) -> FirstStep | None:
    for rank in read.ranks:
        for note in rank.notes("first_step"):
            if isinstance(note, dict):
                values = [_number(note.get(name)) for name in ("loss", "gradient_norm")]
                return FirstStep(*values)
    return None


def _number(value: object) -> float:
    return float(value) if is_number(value) else math.nan


def _kind(folder: Path) -> str:
    """What makes machines alike: the same processor with the same abilities, and the same software below the ranks."""
    for file in sorted(folder.glob(f"*/{FACTS}")):
        facts = read_json(file)
        if isinstance(facts, dict):
            cpu: dict[str, Any] = facts.get("cpu") or {}
            parts = [facts.get("machine"), facts.get("libc"), cpu.get("model"), sorted(cpu.get("flags") or [])]
            return msgspec.json.encode(parts).decode()
    return ""
