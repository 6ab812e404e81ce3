"""The ledger on a journal file: what it says is what Optuna says, and many processes at once do it no harm."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import optuna
import pytest

from trainmark.automl.ledger import lock
from trainmark.automl.ledger.journal import JournalLedger
from trainmark.automl.ledger.ledger import Entry, Ledger, open_ledger
from trainmark.automl.ledger.storage import connect
from trainmark.errors import SiteError

_WORKERS, _ENTRIES, _MANY = 8, 24, 300


class Slow(Ledger):
    """The plain ledger, of a worker that is held up before it writes its name."""

    def _set(self, identity: int, **attrs: Any) -> None:
        time.sleep(random.uniform(0, 0.02) if attrs.get("owner") else 0)
        super()._set(identity, **attrs)


def test_it_reads_and_writes_what_the_plain_ledger_does(tmp_path: Path) -> None:
    url = f"journal:{tmp_path / 'ledger.log'}"
    fast, plain = open_ledger(url, "x"), Ledger(connect(url), "x")
    assert isinstance(fast, JournalLedger)
    for number in range(4):
        fast.propose(Entry(number, "waiting", f"key{number}", owner=f"slot{number % 2}"))
    assert fast.claim(fast.entries()[0], "slot0")
    assert not plain.claim(plain.entries()[0], "slot0") and not plain.claim(plain.entries()[2], "slot1")
    assert plain.claim(plain.entries()[1], "slot1")
    assert fast.tell(1, 0.5, why="late") and not plain.tell(1, 0.9)
    assert plain.tell(0, 0.7, best={"lr": 0.1}) and not fast.tell(0, 0.1, why="no")
    assert not fast.claim(Entry(0, "waiting", "key0"), "slot0")
    assert fast.release("slot0") == [2] and plain.release("slot1") == [3]
    assert fast.entries() == plain.entries() == open_ledger(url, "x").entries()
    assert [entry.value for entry in fast.entries()] == [0.7, 0.5, None, None]
    study = optuna.load_study(study_name="x", storage=connect(url))
    assert study.best_value == 0.7 and len(study.trials) == 4


def test_who_is_behind_at_a_rung_ends_there(tmp_path: Path) -> None:
    ledger = open_ledger(f"journal:{tmp_path / 'ledger.log'}", "x")
    for number in range(4):
        ledger.propose(Entry(number, "waiting", str(number)))
        assert ledger.claim(ledger.entries()[number], "slot0")
    behind = [ledger.falls_behind(number, 1, value, 1, 2) for number, value in enumerate((0.5, 0.6, 0.2, 0.7))]
    assert behind == [False, False, True, False]
    assert ledger.tell(2, 0.2, pruned=True) and ledger.falls_behind(2, 2, 0.9, 1, 2)
    assert [entry.state for entry in ledger.entries()] == ["running", "running", "pruned", "running"]


def _work(url: str, slot: int, plain: bool, found: Any) -> None:
    """Claims whatever waits; every third it leaves behind as if it were lost, and its place is taken by another."""
    ledger = Slow(connect(url), "x") if plain else open_ledger(url, "x")
    owner, claims, told = f"slot{slot}", 0, []
    while left := [entry for entry in ledger.entries() if not entry.ended]:
        entry = random.choice(left)
        if entry.state != "waiting" or not ledger.claim(entry, owner):
            continue
        claims += 1
        if claims % 3 == 0:
            ledger.release(owner)
        else:
            ledger.mark_begun(entry)
            told.append((entry.number, ledger.tell(entry.number, slot / 10)))
    found.put((slot, told))


@pytest.mark.parametrize("plain", [False, True], ids=["journal", "plain"])
def test_of_many_who_claim_and_give_back_at_once_each_entry_has_one_worker(tmp_path: Path, plain: bool) -> None:
    url = f"journal:{tmp_path / 'ledger.log'}"
    ledger = open_ledger(url, "x")
    for number in range(_ENTRIES):
        ledger.propose(Entry(number, "waiting", str(number)))
    spawn = multiprocessing.get_context("spawn")
    found = spawn.Queue()
    workers = [spawn.Process(target=_work, args=(url, slot, plain, found), daemon=True) for slot in range(_WORKERS)]
    for one in workers:
        one.start()
    ends = [found.get(timeout=240) for _ in workers]
    for one in workers:
        one.join()
    assert [one.exitcode for one in workers] == [0] * _WORKERS
    # Nobody trained what another had: every word was the first.
    told = sorted((number, slot, first) for slot, words in ends for number, first in words)
    assert [(number, first) for number, _, first in told] == [(number, True) for number in range(_ENTRIES)]
    assert [entry.value for entry in ledger.entries()] == [slot / 10 for _, slot, _ in told]


def _hand_over(url: str, slot: int, told: Any) -> None:
    """As a desk does, until it is killed: every word that counted is reported before the next is begun."""
    ledger, owner = open_ledger(url, "x"), f"slot{slot}"
    ledger.release(owner)
    begun: Entry | None = None
    while True:
        with ledger.at_once():
            first = begun is None or ledger.tell(begun.number, slot / 10)
            ready = next((entry for entry in ledger.waiting(owner, _MANY) if ledger.claim(entry, owner)), None)
            if ready is not None:
                ledger.mark_begun(ready)
        if begun is not None:
            told.send((begun.number, first))
        if ready is None:
            return
        begun = ready


def test_workers_that_are_killed_at_any_moment_lose_nothing_and_tell_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_GONE_SECONDS", 0.2)
    url, fork, dice = f"journal:{tmp_path / 'ledger.log'}", multiprocessing.get_context("fork"), random.Random(8)
    ledger = open_ledger(url, "x")
    with ledger.at_once():
        for number in range(_MANY):
            ledger.propose(Entry(number, "waiting", str(number)))
    told: list[tuple[int, bool]] = []
    deadline, life = time.monotonic() + 240, 0.1
    while any(not entry.ended for entry in ledger.entries()) and time.monotonic() < deadline:
        ears, workers = [], []
        for slot in range(4):
            ear, mouth = fork.Pipe(duplex=False)
            workers.append(fork.Process(target=_hand_over, args=(url, slot, mouth), daemon=True))
            workers[-1].start()
            mouth.close()
            ears.append(ear)
        for one in workers:
            one.join(dice.uniform(0, life))
            one.kill()
        # On a busy machine nobody would come to anything in a tenth of a second.
        life *= 1.02
        for one in workers:
            one.join()
        for slot, ear in enumerate(ears):
            with contextlib.suppress(EOFError):
                while True:
                    told.append(ear.recv())
            ledger.release(f"slot{slot}")
    entries = ledger.entries()
    assert [entry.state for entry in entries] == ["done"] * _MANY
    assert all(first for _, first in told) and len({number for number, _ in told}) == len(told)
    # What Optuna reads is the same, and so is what somebody reads who comes later.
    assert Ledger(connect(url), "x").entries() == open_ledger(url, "x").entries() == entries


def test_half_a_line_on_a_full_disk_spoils_nothing(tmp_path: Path) -> None:
    url, path = f"journal:{tmp_path / 'ledger.log'}", tmp_path / "ledger.log"
    first, second = open_ledger(url, "x"), open_ledger(url, "x")
    first.propose(Entry(0, "waiting", "a"))
    with path.open("ab") as file:
        file.write(b'{"op_code":8,"trial_id":0,"user_at')
    assert [entry.key for entry in second.entries()] == ["a"]
    assert second.propose(Entry(0, "waiting", "b")) == 1
    assert [entry.key for entry in first.entries()] == ["a", "b"] == [e.key for e in open_ledger(url, "x").entries()]
    with path.open("ab") as file:
        file.write(b"no json\n")
    with pytest.raises(SiteError, match=r"ledger\.log: line 4 is damaged"):
        first.entries()


def test_the_lock_of_one_who_died_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_GONE_SECONDS", 0.05)
    path = tmp_path / "ledger.log"
    path.with_name("ledger.log.lock").touch()
    taken = lock.Lock(str(path))
    assert taken.acquire()
    taken.release()
    assert not path.with_name("ledger.log.lock").exists()


def test_nothing_is_left_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    first, second = (open_ledger(f"journal:{tmp_path}/ledger.log", "x") for _ in range(2))
    first.propose(Entry(0, "waiting", "a"))
    assert list(temporary.iterdir())
    first.close()
    assert second.propose(Entry(0, "waiting", "b")) == 1
    second.close()
    assert not list(temporary.iterdir())
