"""The search for a slow commit on made-up speeds: how often it is wrong, and what it refuses to answer."""

from __future__ import annotations

import random

import pytest

from trainmark.run.bisect import Broken, NotSlower, Search


def search(slow_from: int, seed: int, *, loss: float = 0.08, spread: float = 0.02, commits: int = 16) -> str:
    dice = random.Random(seed)
    names = [f"c{number:02}" for number in range(commits)]

    def measure(commit: str) -> float:
        slow = commit != "good" and int(commit[1:]) >= slow_from
        return 100 * (1 - loss if slow else 1.0) * dice.lognormvariate(0, spread)

    return Search("good", names, measure, lambda text: None, 0.03).go().commit


def test_the_right_commit_is_nearly_always_named() -> None:
    where = [random.Random(number).randrange(16) for number in range(100)]
    wrong = sum(search(slow, seed) != f"c{slow:02}" for seed, slow in enumerate(where))
    assert wrong <= 8


def test_without_a_difference_nothing_is_named() -> None:
    named = 0
    for seed in range(40):
        try:
            search(5, seed, loss=0.0)
            named += 1
        except NotSlower as error:
            named += error.verdict.word == "faster"
    assert named <= 4


def test_one_disturbed_round_does_not_decide() -> None:
    disturbed = iter([130.0])

    def measure(commit: str) -> float:
        if commit == "c1":
            return next(disturbed, 85.0)
        return {"good": 100.0, "c0": 100.0}.get(commit, 85.0)

    assert Search("good", ["c0", "c1", "c2"], measure, lambda text: None, 0.03).go().commit == "c1"


def test_a_bad_revision_without_a_speed_is_said() -> None:
    with pytest.raises(Broken, match=r"c3 gives no speed.*it broke"):
        Search(
            "good", ["c1", "c2", "c3"], lambda commit: "it broke" if commit == "c3" else 50.0, lambda text: None, 0.03
        ).go()
