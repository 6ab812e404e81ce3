"""The ledger: an entry is one worker's, its result counts once, and nothing is lost; with every kind of storage."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalStorage

from tests.automl.interleave import Interleaving, Killed, Memory
from trainmark.automl.graph.space import Move
from trainmark.automl.ledger import journal
from trainmark.automl.ledger.ledger import Entry, Ledger, open_ledger
from trainmark.automl.ledger.server import serve
from trainmark.automl.ledger.storage import connect, quiet
from trainmark.errors import SiteError
from trainmark.reasons import reason

_MANY = 150


def new(key: str = "k") -> Entry:
    return Entry(number=-1, state="waiting", key=key, moves=(Move("wider", 0, 12),))


def proposed(ledger: Ledger, key: str, owner: str = "slot0") -> Entry:
    entry = ledger.propose(new(key), owner)
    assert entry is not None
    return entry


@pytest.fixture(params=["journal", "grpc", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file that all see, one behind the proxy that other hosts reach, and a database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/l.db"
    file = f"journal:{tmp_path}/l.log"
    return file if request.param == "journal" else f"grpc://127.0.0.1:{serve(file)}"


def test_an_entry_is_claimed_by_one_and_its_result_counts_once(url: str) -> None:
    first, second = open_ledger(url, "run"), open_ledger(url, "run")
    mine = proposed(first, "k")
    (seen,) = second.entries()
    assert seen == mine and (seen.number, seen.owner, seen.state) == (0, "slot0", "running")
    assert seen.moves == (Move("wider", 0, 12),)
    first.mark_begun(mine)
    # Its worker is lost: the controller gives it back, and another goes on with it.
    assert second.release("slot0") == [0] and second.release("slot0") == []
    (waiting,) = first.entries()
    assert (waiting.owner, waiting.begun, waiting.state) == ("", 1, "waiting")
    again = second.claim(waiting, "slot1")
    assert again is not None and (again.owner, again.attempt) == ("slot1", 2)
    assert first.claim(waiting, "slot2") is None
    second.mark_begun(again)
    # The worker that was taken for lost comes too late.
    assert not first.tell(mine, 0.9)
    assert second.tell(again, 0.5, best={"lr": 0.1}, file="f") and not second.tell(again, 0.7)
    (ended,) = first.entries()
    assert (ended.value, ended.best, ended.file, ended.begun, ended.state) == (0.5, {"lr": 0.1}, "f", 2, "done")
    assert first.release("slot1") == [] and first.claim(ended, "slot2") is None
    assert open_ledger(url, "run").entries() == [ended]


def test_a_failed_training_is_a_result(url: str) -> None:
    ledger = open_ledger(url, "run")
    assert ledger.tell(proposed(ledger, "a"), None, why=reason("automl-time-up"))
    assert ledger.tell(proposed(ledger, "b"), 0.2, pruned=True)
    ended = [(entry.state, entry.value, entry.why) for entry in ledger.entries()]
    assert ended == [("failed", None, reason("automl-time-up")), ("pruned", 0.2, None)]


def test_equal_architectures_count_once_unless_said_otherwise(url: str) -> None:
    first, second = open_ledger(url, "run", 3), open_ledger(url, "run", 3)
    assert proposed(first, "a").number == 0 and second.propose(new("a"), "slot1") is None
    repeated = second.propose(new("a"), "slot1", repeated=True)
    assert repeated is not None and repeated.number == 1
    assert first.propose(new("a"), "slot0") is None and proposed(first, "b").number == 2
    # There may be three.
    assert second.propose(new("c"), "slot1") is None
    assert [entry.key for entry in first.entries()] == ["a", "a", "b"] == [e.key for e in second.entries()]


def test_a_training_that_is_behind_at_a_rung_ends_there(url: str) -> None:
    ledger = open_ledger(url, "x")
    entries = [proposed(ledger, str(number)) for number in range(4)]
    values = (0.5, 0.6, 0.2, 0.7)
    behind = [ledger.falls_behind(entry, 1, value, 1, 2) for entry, value in zip(entries, values, strict=True)]
    assert behind == [False, False, True, False]
    assert ledger.tell(entries[2], 0.2, pruned=True) and ledger.falls_behind(entries[2], 2, 0.9, 1, 2)
    assert [entry.state for entry in ledger.entries()] == ["running", "running", "pruned", "running"]
    # What was reported is known of the next claim, and is not counted twice.
    ledger.release("slot0")
    again = ledger.claim(ledger.entries()[3], "slot1")
    assert again is not None and not ledger.falls_behind(again, 2, 0.75, 1, 2)


def test_optuna_reads_it_as_a_study(tmp_path: Path) -> None:
    url = f"journal:{tmp_path}/l.log"
    ledger = open_ledger(url, "x")
    ledger.tell(proposed(ledger, "a"), 0.7)
    study = optuna.load_study(study_name="x", storage=connect(url))
    assert study.best_value == 0.7 and len(study.trials) == 1


def test_ledgers_of_the_first_version_are_read(tmp_path: Path) -> None:
    """One trial for each entry, which waited for its owner; equal architectures were not marked."""
    url = f"journal:{tmp_path}/l.log"
    with quiet():
        study = optuna.create_study(storage=connect(url), study_name="x", direction="maximize")
    states = optuna.trial.TrialState
    made: list[tuple[Any, float | None, dict[str, Any]]] = [
        (states.COMPLETE, 0.5, {"key": "a", "owner": "slot0", "told": {"best": {"lr": 0.1}, "file": "g"}}),
        (states.FAIL, None, {"key": "a", "owner": "slot1", "told": {"why": "too large"}}),
        (states.WAITING, None, {"key": "b", "owner": "slot0"}),
    ]
    for state, value, attrs in made:
        study.add_trial(optuna.trial.create_trial(state=state, value=value, user_attrs=attrs))
    ledger = open_ledger(url, "x")
    assert [(entry.state, entry.value) for entry in ledger.entries()] == [
        ("done", 0.5),
        ("failed", None),
        ("waiting", None),
    ]
    assert ledger.entries()[0].best == {"lr": 0.1} and ledger.claim(ledger.entries()[2], "slot3") is not None


class Course:
    """Workers and a controller on one ledger, one step of any of them at a time."""

    def __init__(self, seed: int) -> None:
        self.logs: list[dict[str, Any]] = []
        self.interleaving, self.dice = Interleaving(seed), random.Random(seed)
        self.counted: Counter[int] = Counter()
        self.controller = self.ledger()
        for key in "ab":
            proposed(self.controller, key)
        self.controller.release("slot0")

    def ledger(self) -> Ledger:
        return Ledger(JournalStorage(Memory(self.logs, self.interleaving.step)), "x")

    def worker(self, owner: str, ledger: Ledger, life: int) -> None:
        """Claims what waits, proposes the same as others do, and tells results, until it is killed."""
        for turn in range(life):
            waiting = [entry for entry in ledger.entries() if entry.state == "waiting"]
            claimed = ledger.claim(self.dice.choice(waiting), owner) if waiting else ledger.propose(new("c"), owner)
            if claimed is None:
                continue
            if turn + 1 == life and self.dice.random() < 0.5:
                raise Killed
            ledger.mark_begun(claimed)
            if ledger.tell(claimed, 0.5):
                self.counted[claimed.number] += 1

    def control(self) -> None:
        """Takes workers for lost, rightly or not."""
        for _ in range(3):
            self.controller.release(self.dice.choice(("slot1", "slot2")))

    def run(self) -> list[Entry]:
        ledgers = self.ledger(), self.ledger()
        # The first has had an entry before that it gave back: Optuna's own claims are not safe against that.
        before = ledgers[0].claim(ledgers[0].entries()[0], "slot1")
        assert before is not None
        ledgers[0].release("slot1")
        self.interleaving.run(
            [
                lambda: self.worker("slot1", ledgers[0], 3),
                lambda: self.worker("slot2", ledgers[1], 3),
                self.control,
            ]
        )
        # The controller notices who is gone, and a worker does what is left.
        for owner in ("slot1", "slot2"):
            self.controller.release(owner)
        self.worker("slot3", self.controller, 4)
        return self.controller.entries()


@pytest.mark.parametrize("interleavings", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_whatever_the_order_of_steps_each_entry_counts_once(interleavings: int) -> None:
    orders: set[tuple[Any, ...]] = set()
    seed = 0
    while len(orders) < interleavings:
        seed += 1
        course = Course(seed)
        entries = course.run()
        assert [(entry.key, entry.state) for entry in entries] == [(key, "done") for key in "abc"], seed
        assert course.counted == {0: 1, 1: 1, 2: 1}, seed
        # What another reads who comes later is the same.
        assert course.ledger().entries() == entries, seed
        writers = [log["worker_id"].rpartition("-")[0] for log in course.logs]
        orders.add(tuple((writers.index(one), log["op_code"]) for one, log in zip(writers, course.logs, strict=True)))


def _hand_over(url: str, slot: int, grace: float, results: Any) -> None:
    """As a worker does, until it is killed: every result that counted is reported before the next is begun."""
    journal.GRACE_SECONDS = grace
    ledger, owner = open_ledger(url, "x", _MANY), f"slot{slot}"
    key = 0
    while True:
        claimed = next((ledger.claim(one, owner) for one in ledger.entries() if one.state == "waiting"), None)
        if claimed is None:
            key = max(key + 1, len(ledger.entries()))
            claimed = ledger.propose(new(str(key)), owner)
        if claimed is None:
            if all(entry.ended for entry in ledger.entries()) and len(ledger.entries()) == _MANY:
                return
            continue
        ledger.mark_begun(claimed)
        results.send((claimed.number, ledger.tell(claimed, slot / 10)))


def test_workers_that_are_killed_at_any_moment_lose_nothing_and_tell_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "GRACE_SECONDS", 0.2)
    url, dice = f"journal:{tmp_path / 'ledger.log'}", random.Random(8)
    # Forks of a process without threads, which has imported all that is needed.
    fork = multiprocessing.get_context("forkserver")
    fork.set_forkserver_preload([__name__])
    ledger = open_ledger(url, "x", _MANY)
    results: list[tuple[int, bool]] = []
    deadline, life = time.monotonic() + 240, 0.15
    while sum(entry.ended for entry in ledger.entries()) < _MANY and time.monotonic() < deadline:
        pipes, workers = [], []
        for slot in range(4):
            receiver, sender = fork.Pipe(duplex=False)
            workers.append(fork.Process(target=_hand_over, args=(url, slot, 0.2, sender), daemon=True))
            workers[-1].start()
            sender.close()
            pipes.append(receiver)
        for one in workers:
            one.join(dice.uniform(0, life))
            one.kill()
        # On a busy machine a short life may be too short for anything.
        life *= 1.02
        for one in workers:
            one.join()
        for slot, receiver in enumerate(pipes):
            with contextlib.suppress(EOFError):
                while True:
                    results.append(receiver.recv())
            ledger.release(f"slot{slot}")
    entries = ledger.entries()
    assert [entry.state for entry in entries] == ["done"] * _MANY
    assert len({entry.key for entry in entries}) == _MANY
    assert all(first for _, first in results) and len({number for number, _ in results}) == len(results)
    assert open_ledger(url, "x", _MANY).entries() == entries


def test_half_a_line_on_a_full_disk_spoils_nothing(tmp_path: Path) -> None:
    url, path = f"journal:{tmp_path / 'ledger.log'}", tmp_path / "ledger.log"
    first, second = open_ledger(url, "x"), open_ledger(url, "x")
    proposed(first, "a")
    with path.open("ab") as file:
        file.write(b'{"op_code":8,"trial_id":0,"user_at')
    assert [entry.key for entry in second.entries()] == ["a"]
    assert proposed(second, "b").number == 1
    assert [entry.key for entry in first.entries()] == ["a", "b"] == [e.key for e in open_ledger(url, "x").entries()]
    with path.open("ab") as file:
        file.write(b"no json\n{}\n")
    with pytest.raises(SiteError, match=r"ledger\.log: is damaged"):
        first.entries()


def test_the_lock_of_a_writer_that_died_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "GRACE_SECONDS", 0.05)
    lock = tmp_path / "ledger.log.lock"
    ledger = open_ledger(f"journal:{tmp_path / 'ledger.log'}", "x")
    lock.touch()
    assert proposed(ledger, "a").number == 0 and not lock.exists()
