"""A worker's loop: what is trained, in which order, and what the ledger has of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.automl.experiment import clock
from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.worker import MOST_BEGUN, Assignment, Hooks, Outcome, TrialClient, work
from trainmark.automl.graph.graph_json import load
from trainmark.automl.ledger.files import TrialFiles
from trainmark.automl.ledger.ledger import Entry, open_ledger
from trainmark.automl.search.generator import Generator
from trainmark.reasons import reason

DEMO = Path(__file__).parents[2] / "src" / "trainmark" / "automl" / "demo" / "start.json"


def experiment(**changes: object) -> Experiment:
    return Experiment(schema=1, name="x", data="synthetic", rules="demo", workers=2, max_trials=8, **changes)  # type: ignore[arg-type]


class Worker:
    """A worker whose training takes no time."""

    def __init__(self, tmp_path: Path, owner: str, hooks: Hooks | None = None, **changes: object) -> None:
        given = experiment(**changes)
        self.ledger = open_ledger(f"journal:{tmp_path}/l.log", "run", given.architectures)
        self.generator = Generator(given, [load(DEMO)], self.ledger, TrialFiles(tmp_path), owner)
        self.client = TrialClient(given, self.ledger, self.generator, owner, hooks)
        self.seen: list[Assignment] = []
        self.noted: list[str] = []

    def train(self, given: Assignment) -> Outcome:
        self.seen.append(given)
        return Outcome(0.1 + 0.01 * given.entry.number)

    def run(self) -> None:
        work(self.client, self.train, lambda name, value: self.noted.append(name), lambda: False)

    def make(self) -> int | None:
        made = self.generator.make(self.ledger.entries())
        return made and made.number


def test_a_search_makes_as_many_different_architectures_as_asked_for(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "slot0", architectures_per_trial=2)
    worker.run()
    entries = worker.ledger.entries()
    assert [entry.state for entry in entries] == ["done"] * 16 and len({entry.key for entry in entries}) == 16
    assert [entry.value for entry in entries] == pytest.approx([0.1 + 0.01 * number for number in range(16)])
    # Two architectures make a trial and two trials a round; all come from the one start model of 10 layers.
    assert [(one.entry.number, one.round) for one in worker.seen] == [(n, n // 4) for n in range(16)]
    assert {one.body for one in worker.seen} == {10}
    assert worker.noted.count("automl_begin") == worker.noted.count("automl_end") == 16


def test_what_is_left_behind_comes_first_and_what_crashes_workers_is_given_up(tmp_path: Path) -> None:
    worker = Worker(tmp_path, "slot1")
    assert worker.make() == 0 and worker.ledger.release("slot1") == [0]
    for _ in range(MOST_BEGUN):
        claimed = worker.ledger.claim(worker.ledger.entries()[0], "slot9")
        assert claimed is not None
        worker.ledger.mark_begun(claimed)
        worker.ledger.release("slot9")
    worker.run()
    entries = worker.ledger.entries()
    assert (entries[0].state, entries[0].why) == ("failed", reason("automl-crashed-workers", count=3))
    assert [one.entry.number for one in worker.seen] == list(range(1, 8))
    assert all(entry.ended for entry in entries) and len(entries) == 8


def test_of_two_that_make_the_last_one_only_the_faster_does(tmp_path: Path) -> None:
    first, second = Worker(tmp_path, "slot0"), Worker(tmp_path, "slot1")
    for _ in range(7):
        first.make()
    seen = second.ledger.entries()
    assert first.make() == 7 and second.generator.make(seen) is None
    assert len(first.ledger.entries()) == len(second.ledger.entries()) == 8


def test_of_two_with_the_same_idea_one_has_another(tmp_path: Path) -> None:
    first, second = Worker(tmp_path, "slot0"), Worker(tmp_path, "slot1")
    made = first.generator.make([]), second.generator.make([])
    assert [entry and entry.number for entry in made] == [0, 1]
    assert len({entry.key for entry in first.ledger.entries()}) == 2


def test_what_was_held_ready_is_given_back(tmp_path: Path) -> None:
    """When the time is up, the next entry was claimed already."""
    worker = Worker(tmp_path, "slot0")
    work(worker.client, worker.train, lambda name, value: None, lambda: len(worker.seen) == 2)
    states = [entry.state for entry in worker.ledger.entries()]
    assert states[:2] == ["done", "done"] and set(states[2:]) <= {"waiting"}


def test_what_is_next_is_prepared_and_what_ended_is_saved_before_its_result_is_told(tmp_path: Path) -> None:
    class Watching(Hooks):
        def __init__(self) -> None:
            self.prepared: list[int] = []
            self.before: list[tuple[int, bool]] = []
            self.after: list[tuple[int, bool]] = []

        def prepare(self, given: Assignment) -> None:
            assert given.entry.number not in [one.entry.number for one in worker.seen]
            self.prepared.append(given.entry.number)

        def save(self, number: int) -> None:
            self.before.append((number, worker.ledger.entries()[number].ended))

        def saved(self, number: int, entries: list[Entry]) -> None:
            self.after.append((number, entries[number].ended))

    hooks = Watching()
    worker = Worker(tmp_path, "slot0", hooks)
    worker.run()
    assert hooks.prepared == [one.entry.number for one in worker.seen] == list(range(8))
    assert hooks.before == [(number, False) for number in range(8)]
    assert hooks.after == [(number, True) for number in range(8)]


class _Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1e9

    def time(self) -> float:
        return self.now

    monotonic = time


def test_time_begins_with_the_first_step_and_ends_after_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting in a queue counts against nothing, and the time from first to last epoch never falls short."""
    now, url = _Time(), f"journal:{tmp_path}/l.log"
    monkeypatch.setattr(clock, "time", now)
    given = experiment(max_duration="100s")
    first, late, controller = (clock.Clock(given, open_ledger(url, "run"), {}) for _ in range(3))
    now.now += 1000
    assert controller.until() is None and not first.over()
    first.begin("slot0")
    now.now += 50
    late.begin("slot1")
    assert first.until() == late.until() == controller.until() == 1e9 + 1100
    late.worked(now.now + 49)
    first.worked(now.now + 51)
    now.now += 52
    assert first.over() and controller.over()
    # Its last epoch ended before the end: it begins another, unless it has had nothing to do for long.
    assert not late.over() and not late.late()
    now.now += 60
    assert late.over()
    now.now += given.overtime
    assert late.late()
    assert clock.Clock(given, open_ledger(url, "run"), {"until": 5.0}).over()
