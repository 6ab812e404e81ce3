"""Which commit made a suite slower: a bisection whose every round is a run.

The search itself (`search`, `outlook`) knows nothing of git or of how rounds are run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from trainmark.campaigns import asked as asking
from trainmark.campaigns import revisions
from trainmark.campaigns.asked import AskedSuite
from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, reason
from trainmark.report.run_log import drive_quietly
from trainmark.run import campaign, planning
from trainmark.run.campaign import Campaign, Driver, Shown, Step, Tell
from trainmark.run.stop import Switch
from trainmark.score.records import Verdict
from trainmark.score.stats import sequential
from trainmark.score.stats.verdict import Pair, judge
from trainmark.spec.states import JobState
from trainmark.spec.suite import Loaded
from trainmark.spec.suite_cases import expand
from trainmark.store.rundir import RunDir

# Rounds of good and bad before anything is asked; more, one by one, until their difference is beyond doubt.
FIRST_ROUNDS = 3
# Rounds of a commit between them, with one of good or bad in between: a machine may change while one is made.
LEAST_ROUNDS = 2
# Chance of naming the wrong commit, over all questions of a search.
ERROR = 0.05
TREES = "trees"

# The speed of one round of a commit, or why it gives none.
Speed = float | Reason


class Broken(Exception):
    """A revision that everything depends on gives no speed."""

    def __init__(self, commit: str, why: Reason) -> None:
        super().__init__(say(reason("bisect-broken", commit=commit[:12], why=why)))


class Answer(msgspec.Struct, frozen=True):
    """The first slow commit; None where bad is not slower, or that is not beyond doubt: the verdict says which."""

    commit: str | None
    verdict: Verdict
    rounds: int
    # Commits beside it that gave no speed, one of which it could be as well.
    also: tuple[str, ...] = ()
    # Commits whose side was not beyond doubt after the most rounds there are.
    unsure: tuple[str, ...] = ()


class Outlook(msgspec.Struct, frozen=True):
    """What the rounds so far say: the commit to run next, or the answer."""

    next: str | None
    answer: Answer | None
    notes: tuple[Reason, ...]


def outlook(good: str, commits: Sequence[str], margin: float, rounds: Sequence[tuple[str, Speed]]) -> Outlook:
    """`commits`: oldest first, the last is bad. The same rounds give the same outlook."""
    notes: list[Reason] = []
    steps = search(good, commits, margin, notes.append)
    try:
        commit = next(steps)
        for run, speed in rounds:
            if run != commit:
                raise ValueError(f"a round of {run} where {commit} was next")
            commit = steps.send(speed)
    except StopIteration as over:
        return Outlook(None, over.value, tuple(notes))
    return Outlook(commit, None, tuple(notes))


def search(good: str, commits: Sequence[str], margin: float, tell: Tell) -> Generator[str, Speed, Answer]:
    """Gives the commit to run next and is sent its speed, until it has an answer."""
    return _Search(good, commits, margin, tell).steps()


class _Search:
    def __init__(self, good: str, commits: Sequence[str], margin: float, tell: Tell) -> None:
        self._good, self._bad, self._commits = good, commits[-1], commits
        self._tell, self._margin = tell, margin
        self._speeds: dict[str, list[float]] = {}
        self._rounds = 0
        self._unsure: list[str] = []

    def steps(self) -> Generator[str, Speed, Answer]:
        verdict, slower = yield from self._tell_apart()
        if not slower:
            return Answer(None, verdict, self._rounds)
        low, high = -1, len(self._commits) - 1  # the last known good, and the first known bad
        broken: set[int] = set()
        error = ERROR / max(1, math.ceil(math.log2(max(2, len(self._commits)))))
        while open_ones := [index for index in range(low + 1, high) if index not in broken]:
            middle = min(open_ones, key=lambda index: abs(2 * index - low - high))
            side = yield from self._side(self._commits[middle], error)
            if side is None:
                broken.add(middle)
            elif side == "bad":
                high = middle
            else:
                low = middle
        also = tuple(self._commits[index] for index in range(low + 1, high))
        return Answer(self._commits[high], verdict, self._rounds, also, tuple(self._unsure))

    def _tell_apart(self) -> Generator[str, Speed, tuple[Verdict, bool]]:
        """Good and bad in turns, until it is beyond doubt whether bad is slower. Asking after each round would find
        differences where there are none, so the level of each question is a share of the whole."""
        level = ERROR / (sequential.MOST_ROUNDS - FIRST_ROUNDS + 1)
        for number in range(sequential.MOST_ROUNDS):
            for commit in (self._good, self._bad):
                yield from self._reference(commit)
            if number + 1 >= FIRST_ROUNDS:
                verdict = self._verdict()
                chance = verdict.p_equivalent if verdict.word == "equivalent" else verdict.p_difference
                if chance is None or chance > level:
                    continue
                if verdict.word == "slower":
                    self._tell(reason("bisect-slower", verdict=verdict.reason, rounds=number + 1))
                    return verdict, True
                break
        return self._verdict(), False

    def _verdict(self) -> Verdict:
        return judge([Pair(self._speeds[self._good], self._speeds[self._bad])], self._margin)[0]

    def _side(self, commit: str, error: float) -> Generator[str, Speed, sequential.Side | None]:
        """One round of the commit and one of a reference in turn, so that a machine that drifts takes both along."""
        while True:
            found = yield from self._round(commit)
            if isinstance(found, Reason):
                self._tell(reason("bisect-passed-over", commit=commit[:12], why=found))
                return None
            seen, good, bad = (self._speeds[name] for name in (commit, self._good, self._bad))
            side = sequential.belongs(good, bad, seen, error) if len(seen) >= LEAST_ROUNDS else None
            if side is None and len(seen) >= sequential.MOST_ROUNDS:
                self._unsure.append(commit)
                side = sequential.nearest(good, bad, seen)
            if side is not None:
                self._tell(reason(f"bisect-{side}", commit=commit[:12], rounds=len(seen)))
                return side
            yield from self._reference(self._good if len(seen) % 2 else self._bad)

    def _reference(self, commit: str) -> Generator[str, Speed, None]:
        found = yield from self._round(commit)
        if isinstance(found, Reason):
            raise Broken(commit, found)

    def _round(self, commit: str) -> Generator[str, Speed, Speed]:
        found = yield commit
        self._rounds += 1
        if not isinstance(found, Reason):
            self._speeds.setdefault(commit, []).append(found)
        return found


class Asked(msgspec.Struct, frozen=True):
    """What a bisection was asked for, as its record holds it."""

    suite: AskedSuite
    repo: str
    good: str
    commits: tuple[str, ...]
    margin: float


class Bisected(msgspec.Struct, frozen=True):
    """What came of it. `disturbed`: how many of its rounds were; `runs`: where they are."""

    answer: Answer
    disturbed: int
    runs: str


class _Showed(msgspec.Struct, frozen=True):
    """What a round showed."""

    speed: Speed
    disturbed: bool


def create(
    suite: AskedSuite, repo: Path, good: str, bad: str, margin: float, runs: Path, command: Sequence[str] = ()
) -> Campaign:
    """`good` and `bad`: revisions of `repo`. Nothing is started."""
    first, last = (revisions.commit(repo, name, option) for name, option in ((good, "--good"), (bad, "--bad")))
    commits = revisions.between(repo, first, last)
    made = Asked(suite, str(repo), first, tuple(commits), margin)
    _moved(suite.loaded(), repo, runs.resolve() / TREES)  # refuses a suite that runs nothing of the repository
    folder = runs.resolve() / f".bisect-{suite.suite.name}-{os.urandom(2).hex()}"
    return campaign.create(folder, "bisect", made, command, where=repo)


def asked_of(made: Campaign) -> Asked:
    return asking.read(made.record().asked, Asked, made.name)


def go(made: Campaign, tell: Tell, driver: Driver = drive_quietly, switch: Switch | None = None) -> Bisected | None:
    """Goes on to the answer; None if it was stopped."""
    wanted = asked_of(made)
    with revisions.Trees(Path(wanted.repo), made.folder / TREES) as trees:
        procedure = _Bisection(made, wanted, trees, tell)
        shown = made.go(procedure, driver, switch)
    if shown is None:
        return None
    answer = procedure.outlook(shown).answer
    if answer is None:
        raise ValueError("a bisection ended without an answer")
    return Bisected(answer, sum(one.disturbed for _, one in shown), str(made.folder))


class _Bisection:
    """One round of the suite at a revision is a run of its own, in the campaign's folder."""

    def __init__(self, made: Campaign, wanted: Asked, trees: revisions.Trees, tell: Tell) -> None:
        self._made, self._asked, self._trees, self._tell = made, wanted, trees, tell
        self._told = 0

    def outlook(self, shown: Sequence[Shown]) -> Outlook:
        wanted = self._asked
        rounds = [(str(step.arguments["commit"]), one.speed) for step, one in shown]
        return outlook(wanted.good, wanted.commits, wanted.margin, rounds)

    def next(self, shown: Sequence[Shown]) -> Step | None:
        found = self.outlook(shown)
        for note in found.notes[self._told :]:
            self._tell(note)
        self._told = len(found.notes)
        return None if found.next is None else Step("round", {"commit": found.next})

    def folder(self, _step: Step) -> Path:
        return self._made.folder

    def plan(self, step: Step) -> Plan:
        wanted, suite = self._asked, self._asked.suite
        moved = _moved(suite.loaded(), Path(wanted.repo), self._trees.at(str(step.arguments["commit"])))
        cases = [
            msgspec.structs.replace(case, id=msgspec.structs.replace(case.id, repeat=1), auto=None, studies=())
            for case in expand(moved, suite.site, suite.changed)
        ]
        return msgspec.structs.replace(planning.plan_cases(moved, cases, suite.site, None), kind="bisect")

    def read(self, _step: Step, run: RunDir) -> _Showed:
        """The geometric mean over the cases, or the reason when one of them gave no speed."""
        from trainmark.report.build import build
        from trainmark.report.figures import last_lines
        from trainmark.score.stats.verdict import geometric_mean

        speeds = []
        cases = build(run).cases
        disturbed = any(one.disturbed for case in cases for one in case.runs)
        for case in cases:
            found = case.measurements.get("throughput")
            if case.state is not JobState.SUCCEEDED or found is None or not found.inputs:
                why = case.reason or (found.reason if found else "")
                last = "".join(f": {line}" for line in last_lines(case)[-1:])
                missing = reason(
                    "bisect-no-speed", case=case.case, state=str(case.state), why=why, last=last, run=str(run.path)
                )
                return _Showed(missing, disturbed)
            speeds.append(found.inputs[0])
        return _Showed(geometric_mean(speeds), disturbed)


def _moved(loaded: Loaded, repo: Path, tree: Path) -> Loaded:
    """The suite with everything of the repository replaced by its counterpart in a work tree."""

    def there(path: Path) -> Path:
        return tree / path.relative_to(repo) if path.is_relative_to(repo) else path

    here = loaded.file.resolve().parent
    folders = tuple(there(folder) for folder in loaded.folders)
    raw = loaded.suite.cases
    commands = isinstance(raw, list) and any(isinstance(item, dict) and "command" in item for item in raw)
    if there(here) == here or not (commands or folders != loaded.folders):
        raise UserError(
            f"{loaded.file}: no case runs code of {repo}; "
            "a suite of `command:` cases, or of workloads in the repository, does"
        )
    return msgspec.structs.replace(loaded, folders=folders, cwd=there(here))
