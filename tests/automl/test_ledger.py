"""The ledger: one entry is one worker's, told once, and never lost; with every kind of storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.worker import MOST_BEGUN, work
from trainmark.automl.graph.moves import Move
from trainmark.automl.graph.own_json import load
from trainmark.automl.ledger.desk import Aide, Assignment, Desk, Outcome
from trainmark.automl.ledger.files import Shelf
from trainmark.automl.ledger.ledger import Entry, Ledger, open_ledger
from trainmark.automl.ledger.storage import connect
from trainmark.automl.search.generator import Generator

DEMO = Path(__file__).parents[2] / "src" / "trainmark" / "automl" / "demo" / "start.json"


def new(key: str = "k", owner: str = "slot0") -> Entry:
    return Entry(number=-1, state="waiting", key=key, owner=owner, moves=(Move("wider", 0, 12),))


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_an_entry_is_claimed_and_told_once(tmp_path: Path, kind: str) -> None:
    url = f"journal:{tmp_path}/l.log" if kind == "journal" else f"sqlite:///{tmp_path}/l.db"
    first, second = open_ledger(url, "run"), open_ledger(url, "run")
    assert first.propose(new()) == 0
    (seen,) = second.entries()
    assert (seen.key, seen.moves, seen.state) == ("k", (Move("wider", 0, 12),), "waiting")
    assert not second.claim(seen, "slot1") and first.claim(seen, "slot0") and not second.claim(seen, "slot0")
    first.mark_begun(seen)
    # Its worker is lost: the controller gives it back, and another goes on with it.
    assert second.release("slot0") == [0]
    (again,) = second.entries()
    assert (again.owner, again.begun) == ("", 1) and second.claim(again, "slot1")
    second.mark_begun(again)
    assert second.tell(0, 0.5, best={"lr": 0.1}, file="f") and not first.tell(0, 0.9)
    (told,) = first.entries()
    assert (told.value, told.best, told.file, told.begun, told.state) == (0.5, {"lr": 0.1}, "f", 2, "done")
    assert first.release("slot1") == []


class Dying(Ledger):
    """Of a worker that ends between its claim and its name."""

    def _set(self, identity: int, **attrs: Any) -> None:
        if attrs.get("owner"):
            raise KeyboardInterrupt
        super()._set(identity, **attrs)


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_who_died_while_claiming_gives_back_that_and_nothing_else(tmp_path: Path, kind: str) -> None:
    url = f"journal:{tmp_path}/l.log" if kind == "journal" else f"sqlite:///{tmp_path}/l.db"
    ledger = open_ledger(url, "run")
    for key in "ab":
        ledger.propose(new(key, ""))
    for owner, entry in zip(("slot0", "slot1"), ledger.entries(), strict=True):
        with pytest.raises(KeyboardInterrupt):
            Dying(connect(url), "run").claim(entry, owner)
    assert [(entry.state, entry.owner) for entry in ledger.entries()] == [("running", "")] * 2
    assert ledger.release("slot2") == []
    assert ledger.release("slot1") == [1] and ledger.release("slot1") == []
    assert ledger.release("slot0") == [0]
    assert all(ledger.claim(entry, "slot3") for entry in ledger.entries())


def experiment(**changes: object) -> Experiment:
    return Experiment(schema=1, name="x", data="synthetic", rules="demo", workers=2, max_trials=8, **changes)  # type: ignore[arg-type]


class Bench:
    """A worker with a trainer that only pretends."""

    def __init__(self, tmp_path: Path, owner: str, aide: Aide | None = None, **changes: object) -> None:
        given = experiment(**changes)
        self.ledger = open_ledger(f"journal:{tmp_path}/l.log", "run")
        self.generator = Generator(given, [load(DEMO)], self.ledger, Shelf(tmp_path), owner)
        self.desk = Desk(given, self.ledger, self.generator, owner, aide)
        self.seen: list[Assignment] = []
        self.told: list[str] = []

    def train(self, given: Assignment) -> Outcome:
        self.seen.append(given)
        return Outcome(0.1 + 0.01 * given.entry.number)

    def run(self) -> None:
        work(self.desk, self.train, lambda name, value: self.told.append(name), lambda: False)


def test_a_search_makes_as_many_different_architectures_as_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "slot0", architectures_per_trial=2)
    bench.run()
    entries = bench.ledger.entries()
    assert [entry.state for entry in entries] == ["done"] * 16 and len({entry.key for entry in entries}) == 16
    assert [entry.value for entry in entries] == pytest.approx([0.1 + 0.01 * number for number in range(16)])
    # Two architectures make a trial and two trials a round; all come from the one start model of 10 layers.
    assert [(one.entry.number, one.round) for one in bench.seen] == [(n, n // 4) for n in range(16)]
    assert {one.body for one in bench.seen} == {10}
    assert bench.told.count("automl_begin") == bench.told.count("automl_end") == 16


def test_what_is_left_behind_comes_first_and_what_crashes_workers_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "slot1")
    assert bench.generator.make([]) == 0 and bench.ledger.release("slot1") == [0]
    for _ in range(MOST_BEGUN):
        (entry,) = bench.ledger.entries()
        assert bench.ledger.claim(entry, "slot9")
        bench.ledger.mark_begun(entry)
        bench.ledger.release("slot9")
    bench.run()
    entries = bench.ledger.entries()
    assert entries[0].state == "failed" and "crashed 3 workers" in entries[0].why
    assert [one.entry.number for one in bench.seen] == list(range(1, 8))
    assert all(entry.ended for entry in entries) and len(entries) == 8


def test_of_two_who_make_the_last_one_only_the_faster_does(tmp_path: Path) -> None:
    first, second = Bench(tmp_path, "slot0"), Bench(tmp_path, "slot1")
    for _ in range(7):
        first.generator.make(first.ledger.entries())
    seen = first.ledger.entries(), second.ledger.entries()
    assert (first.generator.make(seen[0]), second.generator.make(seen[1])) == (7, None)
    assert len(first.ledger.entries()) == 8


def test_of_two_with_the_same_idea_one_thinks_again(tmp_path: Path) -> None:
    first, second = Bench(tmp_path, "slot0"), Bench(tmp_path, "slot1")
    assert (first.generator.make([]), second.generator.make([])) == (0, 1)
    assert len({entry.key for entry in first.ledger.entries()}) == 2


def test_what_was_held_ready_is_given_back(tmp_path: Path) -> None:
    """When the time is up, the next entry was claimed already."""
    bench = Bench(tmp_path, "slot0")
    work(bench.desk, bench.train, lambda name, value: None, lambda: len(bench.seen) == 2)
    states = [entry.state for entry in bench.ledger.entries()]
    assert states[:2] == ["done", "done"] and set(states[2:]) <= {"waiting"}


def test_what_is_next_is_prepared_and_what_ended_is_saved_before_it_is_told(tmp_path: Path) -> None:
    class Watching(Aide):
        def __init__(self) -> None:
            self.prepared: list[int] = []
            self.saved: list[tuple[int, bool]] = []
            self.heard: list[tuple[int, bool]] = []

        def prepare(self, given: Assignment) -> None:
            assert given.entry.number not in [one.entry.number for one in bench.seen]
            self.prepared.append(given.entry.number)

        def save(self, number: int) -> None:
            self.saved.append((number, bench.ledger.entries()[number].ended))

        def told(self, number: int, entries: list[Entry]) -> None:
            self.heard.append((number, entries[number].ended))

    aide = Watching()
    bench = Bench(tmp_path, "slot0", aide)
    bench.run()
    assert aide.prepared == [one.entry.number for one in bench.seen] == list(range(8))
    assert aide.saved == [(number, False) for number in range(8)]
    assert aide.heard == [(number, True) for number in range(8)]
