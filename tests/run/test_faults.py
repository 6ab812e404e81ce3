"""The rank that a run kills to see how it recovers: which process, when, and never twice."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest

from tests.plans import plan
from trainmark.errors import UserError
from trainmark.launch.protocol import Ended
from trainmark.plan.goodput import goodput
from trainmark.plan.records import Plan, RoundRef
from trainmark.reasons import Reason
from trainmark.run import faults, session
from trainmark.run.observers import Observer
from trainmark.spec.states import JobState
from trainmark.store import journal

NODES = [
    {"ranks": [{"rank": 0, "pid": 10, "state": "running"}]},
    {"ranks": [{"rank": 1, "pid": 11, "state": "running"}, {"rank": 2, "pid": 12, "state": "ended"}]},
]
SIGNAL = {"kind": "signal", "rank": 1}


@pytest.mark.parametrize(
    ("rank", "checkpoints", "pid"), [(1, 2, 11), (0, 5, 10), (1, 1, None), (2, 3, None), (7, 3, None)]
)
def test_which_process(rank: int, checkpoints: int, pid: int | None) -> None:
    assert faults.victim(rank, NODES, checkpoints) == pid


def killing(rank: int) -> Plan:
    made = plan([1, 1])
    cases = tuple(msgspec.structs.replace(case, params={"steps": 100, "checkpoint_every": 0}) for case in made.cases)
    return goodput(msgspec.structs.replace(made, cases=cases), rank)


def test_the_plan_saves_checkpoints_and_goes_on() -> None:
    made = killing(0)
    assert made.kind == "goodput" and made.recover and made.kill == 0
    assert {case.params["checkpoint_every"] for case in made.cases} == {20}
    with pytest.raises(UserError, match="has ranks 0 to 0"):
        killing(1)


class Notes(Observer):
    def __init__(self) -> None:
        self.codes: list[str] = []

    def note(self, note: Reason) -> None:
        self.codes.append(note.code)


def test_a_rank_that_was_killed_is_not_killed_again(tmp_path: Path) -> None:
    """Whoever drives the run: what happened before is in the journal, or is seen when an attempt is found ended."""
    made = killing(0)
    run = session.create(made, tmp_path)
    writer = journal.Journal(run.path, 1, contextlib.nullcontext)
    writer.append(journal.OWNER)
    writer.append(journal.ATTEMPT, case=0, round=1, attempt=1, token="t")
    writer.append(journal.ENDED, case=0, round=1, attempt=1, state=JobState.FAILED, failure=SIGNAL)
    writer.close()
    state = session.state_of(run, made)
    assert faults.struck(state) == {RoundRef(0, 1)}
    notes = Notes()
    killer = faults.Killer(0, made, state, notes)
    killer.ended(made.cases[1], RoundRef(1, 1), Ended(JobState.FAILED, failure=SIGNAL))
    for index, case in enumerate(made.cases):
        killer.ended(case, RoundRef(index, 1), Ended(JobState.SUCCEEDED))
    assert notes.codes == []


def test_a_case_that_ended_too_soon_is_told(tmp_path: Path) -> None:
    made, notes = killing(0), Notes()
    run = session.create(made, tmp_path)
    with faults.companion(run, made, notes) as killer:
        killer.ended(made.cases[0], RoundRef(0, 1), Ended(JobState.SUCCEEDED))
    assert notes.codes == ["rank-not-killed"]
