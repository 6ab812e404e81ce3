"""How many trials per second a ledger of 10,000 entries hands over to 64 workers: tell how one went, take the next.

The workers are processes with trainmark's own worker and ledger; only training takes no time, and what each trains next
was generated before. `--workers N --history N --each N` change the size.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from figures import Figure, at_least, show

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.worker import work as run_worker
from trainmark.automl.graph.moves import Move
from trainmark.automl.graph.start_networks import small_cnn
from trainmark.automl.ledger.desk import Assignment, Desk, Outcome
from trainmark.automl.ledger.ledger import Entry, Ledger, open_ledger

BAR = 50.0
_PATIENCE = 300.0  # seconds, before a benchmark that hangs is given up
_AHEAD = 2  # a worker holds one ready, and gives it back at its end


class Nothing:
    """In place of the generator: all was made before."""

    seconds = None
    _graph = small_cnn()

    def graph_of(self, _entry: Entry) -> Any:
        return self._graph

    def make(self, _entries: list[Entry]) -> None:
        raise SystemExit("a worker has used up what was made for it")


def url_in(folder: Path) -> str:
    return f"journal:{folder / 'ledger.log'}"


def filled(folder: Path, history: int, workers: int, each: int) -> Ledger:
    """A ledger with trials that ended, and as many waiting for each worker as it will train."""
    ledger = open_ledger(url_in(folder), "handover")
    key = uuid.UUID(int=1).hex * 2
    with ledger.at_once():
        for number in range(history):
            owner = f"slot{number % workers}"
            parent = number // 2 if number else None
            entry = Entry(number, "waiting", key, key[:32], parent, key[:32], (Move("wider", 3, 64),), owner)
            ledger.propose(entry)
            ledger.claim(entry, owner)
            ledger.tell(number, 0.5, best={"lr": 0.1}, epochs=15)
        for number in range(history, history + workers * (each + _AHEAD)):
            owner = f"slot{number % workers}"
            ledger.propose(Entry(number, "waiting", key, key[:32], 1, key[:32], (Move("wider", 3, 64),), owner))
    ledger.entries()
    return ledger


def work(ledger: Ledger, slot: int, each: int, most: int, gate: Any, told: Any) -> None:
    done = 0

    def train(_given: Assignment) -> Outcome:
        nonlocal done
        done += 1
        return Outcome(0.6, fields={"best": {"lr": 0.1}})

    def over() -> bool:
        if done >= each and not waited:
            # What one gives back at its end would be taken up by those who are not at theirs.
            waited.append(gate.wait(_PATIENCE))
        return done >= each

    waited: list[int] = []
    experiment = Experiment(schema=1, name="handover", data="synthetic", max_trials=most)
    desk = Desk(experiment, ledger, Nothing(), f"slot{slot}")  # type: ignore[arg-type]
    # A fork copies what it touches for the first time: that is no part of a hand-over.
    ledger.entries()
    gate.wait(_PATIENCE)
    begin, spent = time.monotonic(), time.process_time()
    run_worker(desk, train, lambda *_: None, over)
    told.put((begin, time.monotonic(), time.process_time() - spent, done))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--history", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=8)
    args = parser.parse_args()
    fork = multiprocessing.get_context("fork")
    gate, told = fork.Barrier(args.workers), fork.Queue()
    with tempfile.TemporaryDirectory(prefix="trainmark-perf-") as folder:
        begin = time.process_time()
        ledger = filled(Path(folder), args.history, args.workers, args.each)
        prepared = time.process_time() - begin
        most = args.history + args.workers * (args.each + _AHEAD) + 1
        everyone = [
            fork.Process(target=work, args=(ledger, slot, args.each, most, gate, told), daemon=True)
            for slot in range(args.workers)
        ]
        for one in everyone:
            one.start()
        ends = [told.get(timeout=_PATIENCE) for _ in everyone]
        for one in everyone:
            one.join()
        begin = time.process_time()
        entries = open_ledger(url_in(Path(folder)), "handover").entries()
        replay = time.process_time() - begin
    done = sum(end[3] for end in ends)
    if sum(entry.ended for entry in entries) != args.history + done or done != args.workers * args.each:
        raise SystemExit(f"{done} were handed over, and the ledger has other figures")
    seconds = max(end[1] for end in ends) - min(end[0] for end in ends)
    figures: list[Figure] = [
        at_least(
            f"hand-over, journal, {args.history} entries, {args.workers} workers",
            "1/s",
            done / seconds,
            BAR,
        )
    ]
    details = {
        "handed_over": done,
        "cpu_s_each": sum(end[2] for end in ends) / done,
        "cpu_s_to_join": replay,
        "cpu_s_to_prepare": prepared,
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    show(
        "handover",
        "the worker's own loop, all at once, on a journal in a local file; training takes no time",
        figures,
        details,
    )


if __name__ == "__main__":
    main()
