"""What counts as a step: the bookkeeping behind `exec`, without torch."""

from __future__ import annotations

import sys
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probe.conftest import PROBE

sys.path.insert(0, str(PROBE))
from trainmark_step_counter import LoaderState, OptimizerChoice, StepCounter, samples_in


def fetch(counter: StepCounter, loader: LoaderState, samples: int, learning: bool = True) -> None:
    counter.fetched(loader, samples, learning, 1000, 10)


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
    counter, steps, since, trained = StepCounter(), [], [], 0
    for batches in passes:
        loader = LoaderState()
        queue = iter(batches)
        for index, samples in enumerate(batches):
            wanted = 2 if ahead and index == 0 else 1
            for given_now in islice(queue, wanted):
                fetch(counter, loader, given_now)
            if ahead and index == len(batches) - 1:
                counter.ended(loader, 0)
            for _ in range(losses):
                counter.backward()
            since.append(samples)
            trained += 1
            if trained % accumulate == 0:
                found = counter.step()
                assert found is not None
                steps.append((found[0], sum(since)))
                since = []
        if not ahead:
            counter.ended(loader, 0)
        if checks and not since:
            check = LoaderState()
            fetch(counter, check, 1000)
            counter.ended(check, 0)
    if ahead and losses > 1:
        return  # every step is counted; a batch may be in the step before its own
    counted, true = [sum(pair) for pair in zip(*steps, strict=True)] if steps else [0, 0]
    assert counted == true == counter.samples
    # Each step has its own batches; reading ahead across passes may only move them by a step.
    if not ahead:
        assert all(one == other for one, other in steps)


def test_several_batches_for_each_backward_pass_are_not_reading_ahead() -> None:
    counter, loader, found = StepCounter(), LoaderState(), []
    for _ in range(5):
        fetch(counter, loader, 8)
        fetch(counter, loader, 8)
        counter.backward()
        found.append(counter.step())
    # The first two may be taken for a program that reads ahead; the rest may not.
    assert [samples for samples, _ in found] == [8, 24, 16, 16, 16]


def test_several_updates_on_one_batch_are_one_step_and_the_scorer_is_told() -> None:
    counter, loader = StepCounter(), LoaderState()
    for _ in range(3):
        fetch(counter, loader, 8)
        for _ in range(5):
            counter.backward()
            counter.step()
    counted = counter.counted()
    assert (counted["steps"], counted["updates"], counted["samples"]) == (3, 15, 24)


def test_the_largest_optimizer_that_is_used_is_chosen() -> None:
    choice = OptimizerChoice()
    for key, size in ((1, 10), (2, 100), (3, 1000)):
        choice.made(key, size)
    # 3 is never used: when 1 steps again, that is sure, and the first step of 2 counts after all.
    assert [choice.stepped(key) for key in (1, 2, 1, 2, 1, 2)] == [0, 0, 1, 1, 0, 1]
    assert choice.chosen == 2 and not choice.settle()


def test_models_trained_one_after_another_all_count() -> None:
    choice = OptimizerChoice()
    for fold in range(3):
        small, large = 10 * fold + 1, 10 * fold + 2
        choice.made(small, 10 - fold)
        choice.made(large, 100 - fold)
        assert [choice.stepped(key) for key in (small, large, small, large)] == [0, 1, 0, 1]
        assert (choice.chosen, choice.used) == (large, 2)
    # One of a training that goes on, made late: the larger one takes over again when it steps.
    choice.made(99, 1)
    assert [choice.stepped(key) for key in (99, large, 99, large)] == [1, 1, 0, 1]


def test_models_trained_in_turn_all_count_though_their_optimizers_were_made_before() -> None:
    choice = OptimizerChoice()
    for key, size in ((1, 10), (2, 1000), (3, 100)):
        choice.made(key, size)
    counted = 0
    for key in (1, 2, 3, 1):
        for _ in range(4):
            counted += choice.settle() + choice.stepped(key)
        assert choice.chosen == key
    assert (counted, choice.trainings, choice.used) == (16, 3, 1)


def test_a_critic_with_batches_of_its_own_is_no_other_training() -> None:
    """Three batches for the critic, then one for the generator; and both of another such pair afterwards."""
    choice = OptimizerChoice()
    for pair in (0, 10):
        choice.made(pair + 1, 10)
        choice.made(pair + 2, 1000)
    for pair in (0, 10):
        found = [choice.settle() + choice.stepped(pair + key) for key in (1, 1, 1, 2) * 3]
        # Until the generator steps, nobody can know that it will.
        assert found == [0, 2, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert (choice.chosen, choice.trainings) == (12, 2)


def test_a_second_optimizer_on_the_same_batch_joins_however_late() -> None:
    choice = OptimizerChoice()
    choice.made(1, 100)
    choice.made(2, 10)
    choice.made(3, 1000)
    assert [choice.settle() + choice.stepped(1) for _ in range(9)] == [0, 2, *[1] * 7]
    assert [choice.stepped(key, fresh) for key, fresh in ((1, True), (2, False)) * 2] == [1, 0, 1, 0]
    # And a larger one takes over with the batch after.
    assert [choice.stepped(key, fresh) for key, fresh in ((1, True), (3, False)) * 2] == [1, 0, 0, 1]
    assert choice.trainings == 1


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
    assert samples_in(batch, LoaderState(size)) == expected
