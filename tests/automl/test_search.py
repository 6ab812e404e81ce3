"""Policies: what they believe, what they propose, and whether they learn."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.search_table import SEEDS, Table, paired
from tests.automl.graphs import networks, renamed
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.keys import canonical_hash
from trainmark.automl.graph.moves import apply, neighbours
from trainmark.automl.graph.space import Limits
from trainmark.automl.graph.start_networks import small_cnn
from trainmark.automl.search.features import features
from trainmark.automl.search.policy import POLICIES, Policy, Trial, make
from trainmark.automl.search.surrogate import Surrogate
from trainmark.errors import UserError

START = small_cnn((14, 14, 1), 10, 2, 8)
LIMITS = Limits(size=20_000, depth=40)
WIDTH, NOISE = 6, 0.1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_repeated_and_nearly_equal_points_never_break_the_surrogate(data: st.DataObject) -> None:
    """The same as solving the whole Gaussian process at once, with every point in it."""
    few = data.draw(st.integers(1, 4))
    origin = np.random.default_rng(data.draw(st.integers(0, 1000)))
    points = origin.normal(size=(few, WIDTH))
    chosen = data.draw(st.lists(st.tuples(st.integers(0, few - 1), st.sampled_from((0.0, 1e-12, 1e-6))), max_size=400))
    rows = np.array([points[which] * (1 + by) for which, by in chosen]).reshape(-1, WIDTH)
    values = origin.normal(0.5, 0.1, len(rows)).tolist()
    surrogate = Surrogate(WIDTH, NOISE)
    cut = data.draw(st.integers(0, len(rows)))
    for at in range(cut):
        surrogate.see(rows[at : at + 1])
        surrogate.tell(rows[at : at + 1], values[at : at + 1])
    if cut < len(rows):
        surrogate.see(rows[cut:])
        surrogate.tell(rows[cut:], values[cut:])
    assert surrogate.points == len(rows)
    for part in (surrogate._seen.matrix, surrogate._known.matrix):
        eigenvalues = np.linalg.eigvalsh((part + part.T) / 2)
        assert eigenvalues.min() > 0 and eigenvalues.max() <= 1 + 1e-9
    asked = origin.normal(size=(5, WIDTH))
    if len(rows):
        kernel = rows @ rows.T + NOISE * np.eye(len(rows))
        target = (np.array(values) - surrogate.usual([0.0])) / surrogate.scale
        cross = asked @ rows.T
        np.testing.assert_allclose(surrogate.means(asked), cross @ np.linalg.solve(kernel, target), atol=1e-6)
        left = np.einsum("ij,ij->i", asked, asked) - np.einsum("ij,ji->i", cross, np.linalg.solve(kernel, cross.T))
        np.testing.assert_allclose(surrogate.deviations(asked) ** 2, left, atol=1e-6)


def test_a_point_under_way_changes_the_doubt_and_not_the_belief() -> None:
    surrogate = Surrogate(WIDTH, NOISE)
    rows = np.eye(WIDTH)
    surrogate.see(rows[:2])
    surrogate.tell(rows[:2], [0.2, 0.8])
    mean, doubt = surrogate.means(rows[3:4]), surrogate.deviations(rows[3:4])
    surrogate.see(rows[3:4])
    assert surrogate.means(rows[3:4]) == mean
    assert surrogate.deviations(rows[3:4]) < doubt / 2


def test_longer_training_is_not_taken_for_a_better_architecture() -> None:
    """The second architecture is better by a point, and was trained for less."""
    rows = np.eye(WIDTH)[[0, 1] * 8]
    epochs = [12.0, 2.0] * 8
    noise = np.random.default_rng(1).normal(0, 0.002, 16)
    values = [0.9 - 0.3 / (1 + seen) + 0.01 * row[1] + by for row, seen, by in zip(rows, epochs, noise, strict=True)]
    # Others were trained for all kinds of lengths.
    more = np.tile(np.eye(WIDTH)[2], (12, 1))
    lengths = [float(seen) for seen in range(1, 13)]
    usual = [0.9 - 0.3 / (1 + seen) for seen in lengths]
    told, untold = Surrogate(WIDTH, NOISE), Surrogate(WIDTH, NOISE)
    told.tell(np.concatenate((rows, more)), [*values, *usual], [*epochs, *lengths])
    untold.tell(np.concatenate((rows, more)), [*values, *usual])
    both = np.eye(WIDTH)[:2]
    assert np.diff(told.means(both))[0] > 0 > np.diff(untold.means(both))[0]
    # What longer training adds is extrapolated from all of them.
    np.testing.assert_allclose(told.usual([24.0]), 0.9 - 0.3 / 25, atol=0.02)
    assert untold.usual([2.0]) == untold.usual([24.0])


def test_a_child_of_a_parent_that_was_trained_for_longer_is_ahead() -> None:
    """Equal in all else: a child goes on where its parent ended."""
    policy, rng = make("morphism-bo", [START], LIMITS, {"initial": 0, "beta": 0.0}), random.Random(0)
    twin = apply(START, neighbours(START, rng, 1, LIMITS)[0][0])
    history = [
        Trial(number, START, str(number), 0.9 - 0.4 / (1 + seen), None, (), seen)
        for number, seen in enumerate((1, 2, 4, 8))
    ]
    history.append(Trial(4, twin, "4", 0.9 - 0.4 / 2, 0, (), 1))
    for trial in history:
        policy.tell(trial)
    assert policy.ask(history, [], rng, 4).parent == 3


@settings(max_examples=50, deadline=None)
@given(st.data(), networks())
def test_features_do_not_depend_on_how_layers_are_numbered(data: st.DataObject, graph: Graph) -> None:
    order = data.draw(st.permutations(range(len(graph.layers))))
    swaps = data.draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order)))
    rows, marks = features([graph, renamed(graph, order, swaps)])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-12)
    assert marks[0] == marks[1]


def played(name: str, seed: int, workers: int, count: int = 30) -> list[Trial]:
    """A search whose trials end in the order in which they began, `workers` at a time; every seventh fails."""
    policy: Policy = make(name, [START], LIMITS, {})
    rng = random.Random(seed)
    history: list[Trial] = []
    pending: list[Trial] = []
    made: list[Trial] = []
    while len(made) < count:
        proposal = policy.ask(history, pending, rng)
        key, number = canonical_hash(proposal.graph), len(made)
        made.append(Trial(number, proposal.graph, key, None, proposal.parent, proposal.moves))
        pending.append(made[-1])
        if len(pending) == workers:
            first = pending.pop(0)
            value = None if first.number % 7 == 6 else first.graph.size / LIMITS.size
            ended = Trial(first.number, first.graph, first.key, value, first.parent, first.moves)
            history.append(ended)
            policy.tell(ended)
    return made


@pytest.mark.parametrize("name", POLICIES)
def test_proposals_are_children_of_trials_within_the_limits_and_the_same_for_a_seed(name: str) -> None:
    made = played(name, seed=3, workers=4)
    assert made[0].graph == START
    for trial in made[1:]:
        graph = START if trial.parent is None else made[trial.parent].graph
        for move in trial.moves:
            graph = apply(graph, move)
        assert graph == trial.graph
        assert graph.size <= LIMITS.size and graph.depth <= LIMITS.depth
    assert [one.key for one in played(name, seed=3, workers=4)] == [one.key for one in made]
    assert [one.key for one in played(name, seed=4, workers=4)] != [one.key for one in made]


def test_the_surrogate_proposes_nothing_that_is_known_or_under_way() -> None:
    """From the end of what is drawn at random on: 12 workers that all ask before anybody has ended."""
    keys = [trial.key for trial in played("morphism-bo", seed=1, workers=12)]
    later = keys[8:]
    assert len(set(later)) == len(later) and not set(later) & set(keys[:8])


def test_an_option_that_does_not_exist_or_makes_no_sense_is_refused() -> None:
    with pytest.raises(UserError, match="beta"):
        make("morphism-bo", [START], LIMITS, {"betta": 1.0})
    with pytest.raises(UserError, match="whole number"):
        make("evolution", [START], LIMITS, {"population": 2.5})


@pytest.mark.slow
def test_morphism_bo_learns_on_trained_architectures() -> None:
    """Regret below that of chance, with 95 % confidence, over seeds that lead along different ways."""
    table = Table()
    assert len(table.graphs) >= 300
    # Architectures differ by more than chance makes them differ.
    assert table.spread["deviation_between_architectures"] > table.spread["deviation_between_seeds"]
    ours, chance = ([table.search(name, seed) for seed in range(SEEDS)] for name in ("morphism-bo", "random"))
    assert len(set(map(tuple, ours))) == len(set(map(tuple, chance))) == SEEDS
    _, _, high = paired([table.regret(way) for way in ours], [table.regret(way) for way in chance])
    assert high < 0
