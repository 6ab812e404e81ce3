"""The search for the commit that made a suite slower. Knows nothing of git or of how rounds are run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from trainmark.report.i18n.speaker import say
from trainmark.score.records import Verdict
from trainmark.score.stats import sequential
from trainmark.score.stats.verdict import Pair, judge

# Rounds of good and bad before anything is asked; more, one by one, until their difference is beyond doubt.
FIRST_ROUNDS = 3
# Rounds of a commit between them, with one of good or bad in between: a machine may change while one is made.
LEAST_ROUNDS = 2
# Chance of naming the wrong commit, over all questions of a search.
ERROR = 0.05

# The speed of one round of a commit, or why it gives none.
Measure = Callable[[str], float | str]
Tell = Callable[[str], None]


class NotSlower(Exception):
    """Bad is not slower than good, or that is not beyond doubt; the verdict says which."""

    def __init__(self, verdict: Verdict, rounds: int) -> None:
        super().__init__(say(verdict.reason))
        self.verdict, self.rounds = verdict, rounds


class Broken(Exception):
    """A revision that everything hangs on gives no speed."""

    def __init__(self, commit: str, why: str) -> None:
        super().__init__(f"{commit[:12]} gives no speed, so nothing can be held against it: {why}")


class Answer(msgspec.Struct, frozen=True):
    """The first slow commit; `also`: commits beside it that gave no speed, one of which it could be as well."""

    commit: str
    also: list[str]
    verdict: Verdict
    rounds: int
    # Commits whose side was not beyond doubt after the most rounds there are.
    unsure: list[str]


class Search:
    """Bisection of `commits` (oldest first, the last is bad) against `good`."""

    def __init__(self, good: str, commits: Sequence[str], measure: Measure, tell: Tell, margin: float) -> None:
        self._good, self._bad, self._commits = good, commits[-1], commits
        self._measure, self._tell, self._margin = measure, tell, margin
        self._speeds: dict[str, list[float]] = {}
        self._rounds = 0
        self._unsure: list[str] = []

    def go(self) -> Answer:
        verdict = self._tell_apart()
        low, high = -1, len(self._commits) - 1  # the last known good, and the first known bad
        broken: set[int] = set()
        error = ERROR / max(1, math.ceil(math.log2(max(2, len(self._commits)))))
        while True:
            open_ones = [index for index in range(low + 1, high) if index not in broken]
            if not open_ones:
                break
            middle = min(open_ones, key=lambda index: abs(2 * index - low - high))
            side = self._side(self._commits[middle], error)
            if side is None:
                broken.add(middle)
            elif side == "bad":
                high = middle
            else:
                low = middle
        also = [self._commits[index] for index in range(low + 1, high)]
        return Answer(self._commits[high], also, verdict, self._rounds, self._unsure)

    def _tell_apart(self) -> Verdict:
        """Good and bad in turns, until it is beyond doubt whether bad is slower. Asking after each round would find
        differences where there are none, so the level of each question is a share of the whole."""
        level = ERROR / (sequential.MOST_ROUNDS - FIRST_ROUNDS + 1)
        for number in range(sequential.MOST_ROUNDS):
            for commit in (self._good, self._bad):
                self._reference(commit)
            if number + 1 >= FIRST_ROUNDS:
                verdict = self._verdict()
                chance = verdict.p_equivalent if verdict.word == "equivalent" else verdict.p_difference
                if chance is None or chance > level:
                    continue
                if verdict.word == "slower":
                    self._tell(f"bad is {say(verdict.reason)} ({number + 1} rounds each)")
                    return verdict
                break
        raise NotSlower(self._verdict(), self._rounds)

    def _verdict(self) -> Verdict:
        return judge([Pair(self._speeds[self._good], self._speeds[self._bad])], self._margin)[0]

    def _side(self, commit: str, error: float) -> sequential.Side | None:
        """One round of the commit and one of a reference in turn, so that a machine that drifts takes both along."""
        while True:
            found = self._round(commit)
            if isinstance(found, str):
                self._tell(f"{commit[:12]} gives no speed and is passed over: {found}")
                return None
            seen, good, bad = (self._speeds[name] for name in (commit, self._good, self._bad))
            side = sequential.belongs(good, bad, seen, error) if len(seen) >= LEAST_ROUNDS else None
            if side is None and len(seen) >= sequential.MOST_ROUNDS:
                self._unsure.append(commit)
                side = sequential.nearest(good, bad, seen)
            if side is not None:
                self._tell(f"{commit[:12]} is {side} ({len(seen)} round(s))")
                return side
            self._reference(self._good if len(seen) % 2 else self._bad)

    def _reference(self, commit: str) -> None:
        found = self._round(commit)
        if isinstance(found, str):
            raise Broken(commit, found)

    def _round(self, commit: str) -> float | str:
        found = self._measure(commit)
        self._rounds += 1
        if not isinstance(found, str):
            self._speeds.setdefault(commit, []).append(found)
        return found
