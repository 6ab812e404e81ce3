"""What counts as a step: the bookkeeping behind `exec`, without torch."""

from __future__ import annotations

import sys
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probe.conftest import PROBE

sys.path.insert(0, str(PROBE))
from trainmark_batch_size import BatchSize
from trainmark_step_counter import LoaderState, Source, StepCounter, Updates


def fetch(counter: StepCounter, loader: LoaderState, samples: int, learning: bool = True) -> None:
    counter.fetched(loader, samples, learning, 1000, 10, possible=learning)


def step(counter: StepCounter) -> int | None:
    """An optimizer steps: the samples of the step, None when it is no new one."""
    return counter.step()[0] if counter.take_step() else None


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
    source = Source()
    for batches in passes:
        loader = LoaderState(source)
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
                found = step(counter)
                assert found is not None
                steps.append((found, sum(since)))
                since = []
        if not ahead:
            counter.ended(loader, 0)
        if checks and not since:
            check = LoaderState()
            fetch(counter, check, 1000)
            counter.ended(check, 0)
    if ahead and (losses > 1 or since):
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
        found.append(step(counter))
    # The first two may be taken for a program that reads ahead; the rest may not.
    assert found == [8, 24, 16, 16, 16]


@pytest.mark.parametrize("ahead", [0, 1])
def test_batches_of_a_step_that_are_all_read_before_its_backward_passes(ahead: int) -> None:
    """As the Trainer of transformers does, which must know the number of all tokens before."""
    counter, source, found = StepCounter(), Source(), []
    for _ in range(3):
        loader, read = LoaderState(source), 0
        for index in range(6):
            wanted = min(12, 2 * index + 2 + ahead)
            while read < wanted:
                fetch(counter, loader, 2 if read == 11 else 4)
                read += 1
            if index == 5:
                counter.ended(loader, 0)
            counter.backward()
            counter.backward()
            found.append(step(counter))
    assert sum(filter(None, found)) == counter.samples == 3 * 46 and len(found) == 18


def test_batches_that_are_read_and_not_trained_on_are_left_out() -> None:
    """A look at a batch, the resumption by `continue`, an end by `break`, a loader that is looked at now and then."""
    counter, source, other = StepCounter(), Source(), Source()
    fetch(counter, LoaderState(source), 8)
    for _ in range(3):
        loader = LoaderState(source)
        for index in range(10):
            fetch(counter, loader, 8)
            if index < 3 or index == 5:
                continue
            if index == 9:
                break
            counter.backward()
            assert step(counter) == 8
        fetch(counter, LoaderState(other), 16)
    assert (counter.steps, counter.samples) == (15, 120)
    assert not counter.counted()["unsure"]


def test_two_iterators_of_one_loader_that_are_read_together_both_count() -> None:
    counter, source = StepCounter(), Source()
    pair = LoaderState(source), LoaderState(source)
    for _ in range(6):
        for loader in pair:
            fetch(counter, loader, 4)
        counter.backward()
        step(counter)
    assert (counter.steps, counter.samples) == (6, 48)


def test_groups_that_come_and_go_leave_the_count_in_doubt() -> None:
    counter, loader = StepCounter(), LoaderState()
    for size in (2, 2, 1, 3, 1, 2):
        for _ in range(size):
            fetch(counter, loader, 8)
        counter.backward()
        step(counter)
    assert counter.counted()["unsure"] > 0


def test_batches_read_beforehand_are_counted_once_and_what_follows_is_told() -> None:
    counter, updates, loader = StepCounter(), Updates(), LoaderState()
    updates.made(1, "SGD", 10)
    for _ in range(4):
        fetch(counter, loader, 8)
    counter.ended(loader, 0)
    for _ in range(12):
        counter.backward()
        for _ in range(updates.updated(1, counter.take_step(), counter.loads)):
            counter.step()
    assert (counter.steps, counter.samples) == (4, 32)
    assert updates.counted(4, True)["updates"] == 12


def test_evaluation_by_a_loader_does_not_hide_training_without_one() -> None:
    counter, updates, check = StepCounter(192), Updates(), Source()
    updates.made(1, "SGD", 10)
    for _ in range(5):
        loader = LoaderState(check)
        for _ in range(3):  # it is left before its end
            fetch(counter, loader, 16, learning=False)
        for _ in range(4):
            counter.backward()
            for _ in range(updates.updated(1, counter.take_step(), counter.loads)):
                counter.step()
    assert (counter.steps, counter.samples, counter.loads) == (20, 20 * 192, False)


def counts(keys: list[int], fresh: set[int] | None = None) -> tuple[list[int], Updates]:
    """Which updates are steps. `fresh`: where there is a loader, the updates that come with new data."""
    updates = Updates()
    for key in sorted(set(keys)):
        updates.made(key, "SGD", key)
    loads = fresh is not None
    return [updates.updated(key, at in (fresh or ()), loads) for at, key in enumerate(keys)], updates


def test_without_a_loader_optimizers_that_take_turns_make_one_step() -> None:
    assert counts([1, 2] * 3)[0] == [1, 0] * 3
    # Trainings one after another: that the second was no part of the first shows when it goes on alone.
    assert sum(counts([1] * 5 + [2] * 5 + [3] * 5)[0]) == 15
    # Five updates of a critic for one of the generator: nobody can tell what a step is.
    found, updates = counts(([1] * 5 + [2]) * 4)
    assert updates.counted(sum(found), False)["uneven"] == 4
    assert not counts([1, 2] * 3)[1].counted(3, False)["uneven"]


def test_with_a_loader_the_first_update_on_new_data_is_the_step() -> None:
    found, updates = counts([1, 2, 1, 1, 1, 2], {0, 2, 3, 4})
    assert found == [1, 0, 1, 1, 1, 0] and not updates.stale
    assert counts([1, 2, 2, 2], {0})[1].counted(1, True)["updates"] == 3


class Tensor:
    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.shape, self.dtype = shape, dtype


class Graphs:
    def __init__(self, count: int) -> None:
        self.num_graphs, self.x = count, Tensor(50, 4)


@pytest.mark.parametrize(
    ("batch", "size", "expected"),
    [
        ([[1, 2, 3]], None, (3, True)),
        ([["a", "b"], ["c", "d"]], 2, (2, True)),
        ({"text": "no tensor"}, 4, (0, False)),
        ("text", None, (0, False)),
        (Graphs(7), None, (7, True)),
        ((Tensor(12, 8, 4), Tensor(8)), 8, (8, True)),
        # Nothing tells which of them it is.
        ((Tensor(12, 8, 4), Tensor(8)), None, (12, False)),
        ((Tensor(500), Tensor(16), Tensor(16)), None, (500, False)),
        ({"x": Tensor(16, 3), "y": Tensor(16)}, None, (16, True)),
        (([Tensor(3, 8, 8)] * 4, [{"boxes": Tensor(2, 4)}] * 4), 4, (4, True)),
    ],
)
def test_batches_of_a_loader_without_a_sampler(batch: object, size: int | None, expected: tuple[int, bool]) -> None:
    assert BatchSize(size).of(batch) == expected


def test_the_sampler_is_asked_first_and_what_disagrees_is_kept() -> None:
    size = BatchSize(8, sampled=True)
    assert size.drawn is not None
    size.drawn.extend([8, 8, 5])
    assert [size.of((Tensor(12, 8), Tensor(8))), size.of(Tensor(8, 2)), size.of(Tensor(4, 2))] == [
        (8, True),
        (8, True),
        (5, False),
    ]
    assert (size.other_sizes, size.first_sizes) == (13, 16)


@pytest.mark.parametrize(
    ("batch", "tokens"),
    [
        ({"input_ids": Tensor(4, 16, dtype="int64")}, (64, True)),
        ((Tensor(4, 16, dtype="torch.int64"), Tensor(4, 16, dtype="torch.int64")), (64, True)),
        ((Tensor(4, 16), Tensor(4, dtype="int64")), (0, False)),
    ],
)
def test_tokens(batch: object, tokens: tuple[int, bool]) -> None:
    assert BatchSize(4, tokens=True).of(batch) == tokens
