"""A run with a time: which blocks are begun, and how long the rest may take."""

from __future__ import annotations

import msgspec

from tests import plans
from trainmark.launch.protocol import Ended
from trainmark.plan.records import Plan
from trainmark.run.budget import Budget, seconds_worked
from trainmark.run.progress import run_left
from trainmark.spec.states import JobState
from trainmark.store.journal import OWNER, Record
from trainmark.store.state import RunState


def within(seconds: float, width: int = 2, least: int = 3) -> Plan:
    """Two nodes in six blocks."""
    return msgspec.structs.replace(plans.plan([6, 6], width=width), blocks_within=seconds, least_blocks=least)


def blocks_begun(plan: Plan, block_seconds: float, worked: float = 0.0) -> int:
    """How many blocks run, if each takes so long."""
    now = [0.0]
    budget = Budget(plan, RunState(plan), worked, lambda: now[0])
    for number, block in enumerate(plan.blocks):
        if budget.ending():
            return number
        for ref in block:
            budget.started(plan.cases[ref.case], ref, 1)
            assert budget.ending() is None, "a block that was begun is finished"
            now[0] += block_seconds / len(block)
            budget.ended(plan.cases[ref.case], ref, Ended(JobState.SUCCEEDED))
    return len(plan.blocks)


def test_no_block_is_begun_that_would_not_end_in_time() -> None:
    assert blocks_begun(within(100), 10) == 6
    assert blocks_begun(within(45), 10) == 4
    assert blocks_begun(within(1), 10) == 3, "the least number runs whatever time it takes"
    assert blocks_begun(within(1, least=1), 10) == 1
    assert blocks_begun(within(45), 10, worked=20.0) == 3, "an earlier controller's time counts"


def test_how_long_controllers_worked_on_a_run() -> None:
    """Between two of them nobody did."""
    walls = [(1, 10), (1, 25), (2, 1000), (2, 1007)]
    assert seconds_worked([Record(OWNER, epoch, at * 10**9) for epoch, at in walls]) == 22.0
    assert seconds_worked([]) == 0.0


def test_the_estimate_is_bounded_and_counts_what_runs_in_any_case() -> None:
    plan = within(100)
    first, second, third, *_ = plan.blocks
    assert run_left(plan, set(), 5.0) is None
    assert run_left(plan, {first[0]}, 5.0) is None, "rounds side by side are counted by blocks"
    assert run_left(plan, {*first}, 10.0) == 50.0
    assert run_left(plan, {*first}, 40.0) == 80.0, "two more blocks must run, though only 60 s are left"
    assert run_left(plan, {*first, *second, *third}, 90.0) == 10.0
    alone = within(100, width=1)
    assert run_left(alone, {first[0]}, 5.0) == 55.0
    assert run_left(msgspec.structs.replace(alone, blocks_within=None), {first[0]}, 50.0) == 550.0
