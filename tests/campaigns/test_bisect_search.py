"""The search for a slow commit on made-up speeds: how often it is wrong, and what it refuses to answer."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from trainmark.campaigns.bisect import Answer, Broken, Speed, outlook, search
from trainmark.reasons import Reason, reason

Measure = Callable[[str], Speed]


def answer(good: str, commits: list[str], measure: Measure) -> Answer:
    steps = search(good, commits, 0.03, lambda _: None)
    commit = next(steps)
    while True:
        try:
            commit = steps.send(measure(commit))
        except StopIteration as over:
            found: Answer = over.value
            return found


def made_up(slow_from: int, seed: int, *, loss: float = 0.08, spread: float = 0.02, commits: int = 16) -> Answer:
    dice = random.Random(seed)
    names = [f"c{number:02}" for number in range(commits)]

    def measure(commit: str) -> float:
        slow = commit != "good" and int(commit[1:]) >= slow_from
        return 100 * (1 - loss if slow else 1.0) * dice.lognormvariate(0, spread)

    return answer("good", names, measure)


def test_the_right_commit_is_nearly_always_named() -> None:
    where = [random.Random(number).randrange(16) for number in range(100)]
    wrong = sum(made_up(slow, seed).commit != f"c{slow:02}" for seed, slow in enumerate(where))
    assert wrong <= 8


def test_without_a_difference_nothing_is_named() -> None:
    found = [made_up(5, seed, loss=0.0) for seed in range(40)]
    assert sum(one.commit is not None or one.verdict.word == "faster" for one in found) <= 4


def test_one_disturbed_round_does_not_decide() -> None:
    disturbed = iter([130.0])

    def measure(commit: str) -> float:
        if commit == "c1":
            return next(disturbed, 85.0)
        return {"good": 100.0, "c0": 100.0}.get(commit, 85.0)

    assert answer("good", ["c0", "c1", "c2"], measure).commit == "c1"


def test_a_bad_revision_without_a_speed_is_said() -> None:
    broken = reason("text", text="it broke")
    with pytest.raises(Broken, match=r"c3 gives no speed.*it broke"):
        answer("good", ["c1", "c2", "c3"], lambda commit: broken if commit == "c3" else 50.0)


def test_what_comes_next_follows_from_the_rounds_so_far() -> None:
    """A search that is taken up again after any round asks for the same commits and ends with the same answer."""
    speeds: dict[str, Speed] = {"good": 100.0, "c0": 100.0, "c1": reason("text", text="it broke")}
    commits = ["c0", "c1", "c2", "c3"]
    rounds: list[tuple[str, Speed]] = []
    notes: list[Reason] = []
    while True:
        found = outlook("good", commits, 0.03, rounds)
        assert found == outlook("good", commits, 0.03, list(rounds)) and list(found.notes[: len(notes)]) == notes
        notes = list(found.notes)
        if found.next is None:
            break
        # Not quite alike: nothing is beyond doubt without any spread.
        speed = speeds.get(found.next, 85.0)
        rounds.append((found.next, speed if isinstance(speed, Reason) else speed + 0.1 * (len(rounds) % 3)))
    assert found.answer is not None and found.answer.commit == "c2" and found.answer.also == ("c1",)
    assert [note.code for note in notes] == ["bisect-slower", "bisect-passed-over", "bisect-good", "bisect-bad"]
    assert found.answer.rounds == len(rounds)
    with pytest.raises(ValueError, match="a round of c3 where good was next"):
        outlook("good", commits, 0.03, [("c3", 1.0)])
