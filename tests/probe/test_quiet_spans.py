"""Stretches without gradients: which of them are evaluation."""

from __future__ import annotations

import sys

import pytest

from tests.probe.conftest import PROBE

sys.path.insert(0, str(PROBE))
from trainmark_exec_events import QuietSpans

MS = 1_000_000


def found(lengths: dict[int, int], declared: bool, each: int = 0, steps: int = 40) -> tuple[int, int]:
    """How many stretches are evaluation, and how long they are in ms. Steps of 10 ms, with stretches of `lengths` by
    step, or of `each` in every step."""
    spans, told, now = QuietSpans(), [], 0
    for step in range(steps):
        if each:
            spans.add(now, now + each * MS, False)
        if step in lengths:
            spans.add(now, now + lengths[step] * MS, declared)
            now += lengths[step] * MS
        now += 10 * MS
        told += spans.stepped(now)
    return len(told), sum(end - begin for begin, end in told) // MS


@pytest.mark.parametrize("declared", [True, False])
def test_a_stretch_now_and_then_is_evaluation(declared: bool) -> None:
    assert found({10: 50, 20: 60, 30: 70}, declared) == (3, 180)


def test_short_ones_and_those_of_neighbouring_steps_are_part_of_the_step() -> None:
    assert found({10: 2, 20: 3}, True) == (0, 0)
    assert found(dict.fromkeys(range(10, 30), 20), True) == (0, 0)


def test_a_teacher_in_every_step_is_no_evaluation_however_long_one_took() -> None:
    assert found({15: 300}, False, each=3) == (0, 0)
    assert found({15: 300}, True, each=3) == (1, 300)
