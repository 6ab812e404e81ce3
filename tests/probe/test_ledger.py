"""What counts as a step: the bookkeeping behind `exec`, without torch."""

from __future__ import annotations

import sys
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probe.conftest import PROBE

sys.path.insert(0, str(PROBE))
from trainmark_ledger import Chooser, Ledger, Source, samples_in


def fetch(ledger: Ledger, source: Source, samples: int, learning: bool = True) -> None:
    ledger.fetched(source, samples, learning, 1000, 10)


@given(
    passes=st.lists(st.lists(st.integers(1, 64), min_size=1, max_size=12), min_size=1, max_size=4),
    accumulate=st.integers(1, 5),
    ahead=st.booleans(),
    checks=st.booleans(),
    losses=st.integers(1, 3),
)
def test_every_sample_is_counted_once_in_its_step(
    passes: list[list[int]], accumulate: int, ahead: bool, checks: bool, losses: int
) -> None:
    """Whether the program reads one batch ahead, accumulates, evaluates carelessly, has several losses, or not."""
    ledger, steps, since, trained = Ledger(), [], [], 0
    for batches in passes:
        source = Source()
        queue = iter(batches)
        for index, samples in enumerate(batches):
            wanted = 2 if ahead and index == 0 else 1
            for given_now in islice(queue, wanted):
                fetch(ledger, source, given_now)
            if ahead and index == len(batches) - 1:
                ledger.ended(source, 0)
            for _ in range(losses):
                ledger.backward()
            since.append(samples)
            trained += 1
            if trained % accumulate == 0:
                found = ledger.step()
                assert found is not None
                steps.append((found[0], sum(since)))
                since = []
        if not ahead:
            ledger.ended(source, 0)
        if checks and not since:
            check = Source()
            fetch(ledger, check, 1000)
            ledger.ended(check, 0)
    if ahead and losses > 1:
        return  # every step is counted; a batch may be in the step before its own
    counted, true = [sum(pair) for pair in zip(*steps, strict=True)] if steps else [0, 0]
    assert counted == true == ledger.samples
    # Each step has its own batches; reading ahead across passes may only move them by a step.
    if not ahead:
        assert all(one == other for one, other in steps)


def test_several_batches_for_each_backward_pass_are_not_reading_ahead() -> None:
    ledger, source, found = Ledger(), Source(), []
    for _ in range(5):
        fetch(ledger, source, 8)
        fetch(ledger, source, 8)
        ledger.backward()
        found.append(ledger.step())
    # The first two may be taken for a program that reads ahead; the rest may not.
    assert [samples for samples, _ in found] == [8, 24, 16, 16, 16]


def test_several_updates_on_one_batch_are_one_step_and_the_scorer_is_told() -> None:
    ledger, source = Ledger(), Source()
    for _ in range(3):
        fetch(ledger, source, 8)
        for _ in range(5):
            ledger.backward()
            ledger.step()
    counted = ledger.counted()
    assert (counted["steps"], counted["updates"], counted["samples"]) == (3, 15, 24)


def test_the_largest_optimizer_that_is_used_is_chosen() -> None:
    chooser = Chooser()
    for key, size in ((1, 10), (2, 100), (3, 1000)):
        chooser.made(key, size)
    # 3 is never used: when 1 steps again, that is sure, and the first step of 2 counts after all.
    assert [chooser.stepped(key) for key in (1, 2, 1, 2, 1, 2)] == [0, 0, 1, 1, 0, 1]
    assert chooser.chosen == 2 and not chooser.settle()


def test_models_trained_one_after_another_all_count() -> None:
    chooser = Chooser()
    for fold in range(3):
        small, large = 10 * fold + 1, 10 * fold + 2
        chooser.made(small, 10 - fold)
        chooser.made(large, 100 - fold)
        assert [chooser.stepped(key) for key in (small, large, small, large)] == [0, 1, 0, 1]
        assert (chooser.chosen, chooser.used) == (large, 2)
    # One of a training that goes on, made late: the larger one takes over again when it steps.
    chooser.made(99, 1)
    assert [chooser.stepped(key) for key in (99, large, 99, large)] == [1, 1, 0, 1]


def test_models_trained_in_turn_all_count_though_their_optimizers_were_made_before() -> None:
    chooser = Chooser()
    for key, size in ((1, 10), (2, 1000), (3, 100)):
        chooser.made(key, size)
    counted = 0
    for key in (1, 2, 3, 1):
        for _ in range(4):
            counted += chooser.settle() + chooser.stepped(key)
        assert chooser.chosen == key
    assert (counted, chooser.trainings, chooser.used) == (16, 3, 1)


def test_a_critic_with_batches_of_its_own_is_no_other_training() -> None:
    """Three batches for the critic, then one for the generator; and both of another such pair afterwards."""
    chooser = Chooser()
    for pair in (0, 10):
        chooser.made(pair + 1, 10)
        chooser.made(pair + 2, 1000)
    for pair in (0, 10):
        found = [chooser.settle() + chooser.stepped(pair + key) for key in (1, 1, 1, 2) * 3]
        # Until the generator steps, nobody can know that it will.
        assert found == [0, 2, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert (chooser.chosen, chooser.trainings) == (12, 2)


def test_a_second_optimizer_on_the_same_batch_joins_however_late() -> None:
    chooser = Chooser()
    chooser.made(1, 100)
    chooser.made(2, 10)
    chooser.made(3, 1000)
    assert [chooser.settle() + chooser.stepped(1) for _ in range(9)] == [0, 2, *[1] * 7]
    assert [chooser.stepped(key, fresh) for key, fresh in ((1, True), (2, False)) * 2] == [1, 0, 1, 0]
    # And a larger one takes over with the batch after.
    assert [chooser.stepped(key, fresh) for key, fresh in ((1, True), (3, False)) * 2] == [1, 0, 0, 1]
    assert chooser.trainings == 1


@pytest.mark.parametrize(
    ("batch", "size", "expected"),
    [
        ([[1, 2, 3]], None, 3),
        ([["a", "b"], ["c", "d"]], 2, 2),
        ({"text": "no tensor"}, 4, 0),
        ("text", None, 0),
    ],
)
def test_batches_without_tensors(batch: object, size: int | None, expected: int) -> None:
    assert samples_in(batch, Source(size)) == expected
