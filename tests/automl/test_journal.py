"""The faster journal says what the ledger says."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from trainmark.automl import journal
from trainmark.automl.journal import JournalLedger
from trainmark.automl.ledger import Entry, Ledger


def test_it_reads_and_writes_what_the_plain_ledger_does(tmp_path: Path) -> None:
    url = f"journal:{tmp_path / 'ledger.log'}"
    fast, plain = JournalLedger(url, "x"), Ledger(url, "x")
    for number in range(4):
        fast.propose(Entry(number, "waiting", f"key{number}", owner="slot0"))
    assert fast.claim(fast.entries()[0], "slot0")
    assert not plain.claim(plain.entries()[0], "slot1")
    assert plain.claim(plain.entries()[1], "slot1")
    assert fast.tell(1, 0.5, why="late") and not plain.tell(1, 0.9)
    assert plain.tell(0, 0.7, best={"lr": 0.1}) and not fast.tell(0, 0.1, why="no")
    assert fast.release("slot0") == [2, 3]
    assert fast.entries() == plain.entries() == JournalLedger(url, "x").entries()
    assert [entry.value for entry in fast.entries()] == [0.7, 0.5, None, None]


def _rush(url: str, slot: int, won: Any) -> None:
    ledger = JournalLedger(url, "x")
    for entry in ledger.entries():
        if ledger.claim(entry, f"slot{slot}"):
            won.put((entry.number, slot))
    won.put(None)


def test_of_many_who_claim_at_once_one_wins(tmp_path: Path) -> None:
    url = f"journal:{tmp_path / 'ledger.log'}"
    ledger = JournalLedger(url, "x")
    for number in range(6):
        ledger.propose(Entry(number, "waiting", str(number)))
    spawn = multiprocessing.get_context("spawn")
    won = spawn.Queue()
    workers = [spawn.Process(target=_rush, args=(url, slot, won)) for slot in range(3)]
    for one in workers:
        one.start()
    found, ended = [], 0
    while ended < len(workers):
        word = won.get(timeout=120)
        ended, found = (ended + 1, found) if word is None else (ended, [*found, word])
    for one in workers:
        one.join()
    assert sorted(number for number, _ in found) == list(range(6))
    assert [(entry.number, entry.owner) for entry in ledger.entries()] == [(n, f"slot{s}") for n, s in sorted(found)]


def test_the_lock_of_one_who_died_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_GONE_SECONDS", 0.05)
    path = tmp_path / "ledger.log"
    path.with_name("ledger.log.lock").touch()
    lock = journal.Lock(str(path))
    assert lock.acquire()
    lock.release()
    assert not path.with_name("ledger.log.lock").exists()
