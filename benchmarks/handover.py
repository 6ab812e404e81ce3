"""How many trials per second a ledger of 10,000 entries hands over to 64 workers: tell how one went, claim the next.

The workers are processes with trainmark's own worker and ledger; only training takes no time, and a new architecture is
made without a search. `--workers N --history N --each N` change the size.
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
from trainmark.automl.experiment.worker import Assignment, Outcome, TrialClient
from trainmark.automl.experiment.worker import work as run_worker
from trainmark.automl.graph.space import Move
from trainmark.automl.graph.start_networks import small_cnn
from trainmark.automl.ledger.ledger import Entry, Ledger, open_ledger

BAR = 50.0
_PATIENCE = 300.0  # seconds, before a benchmark that hangs is given up


def architecture(parent: int | None) -> Entry:
    key = uuid.uuid4().hex
    return Entry(-1, "waiting", 2 * key, key, parent, key, (Move("wider", 3, 64),))


class WithoutSearch:
    """In place of the generator: any key is a new architecture."""

    seconds = None
    _graph = small_cnn()

    def __init__(self, ledger: Ledger, owner: str) -> None:
        self._ledger, self._owner = ledger, owner

    def graph_of(self, _entry: Entry) -> Any:
        return self._graph

    def make(self, _entries: list[Entry]) -> Entry | None:
        return self._ledger.propose(architecture(1), self._owner)


def url_in(folder: Path) -> str:
    return f"journal:{folder / 'ledger.log'}"


def fill(folder: Path, history: int) -> None:
    """A ledger with trials that have ended, written through Optuna in memory and to the file at once."""
    from optuna.storages.journal import JournalStorage
    from optuna.storages.journal._base import BaseJournalBackend

    class Memory(BaseJournalBackend):
        def __init__(self) -> None:
            self.logs: list[dict[str, Any]] = []

        def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
            return self.logs[log_number_from:]

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            self.logs += logs

    memory = Memory()
    ledger = Ledger(JournalStorage(memory), "handover")
    for number in range(history):
        entry = ledger.propose(architecture(number // 2 if number else None), "slot0")
        if entry is None:
            raise SystemExit("the ledger refuses a new architecture")
        ledger.mark_begun(entry)
        ledger.tell(entry, 0.5, best={"lr": 0.1}, epochs=15)
    import json

    (folder / "ledger.log").write_text("".join(json.dumps(log) + "\n" for log in memory.logs))


def work(ledger: Ledger, slot: int, each: int, gate: Any, results: Any) -> None:
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
    experiment = Experiment(schema=1, name="handover", data="synthetic", max_trials=1_000_000)
    generator: Any = WithoutSearch(ledger, f"slot{slot}")
    client = TrialClient(experiment, ledger, generator, f"slot{slot}")
    # A fork copies what it touches for the first time: that is no part of a hand-over.
    ledger.entries()
    gate.wait(_PATIENCE)
    begin, spent = time.monotonic(), time.process_time()
    run_worker(client, train, lambda *_: None, over)
    results.put((begin, time.monotonic(), time.process_time() - spent, done))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--history", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=8)
    args = parser.parse_args()
    fork = multiprocessing.get_context("fork")
    gate, results = fork.Barrier(args.workers), fork.Queue()
    with tempfile.TemporaryDirectory(prefix="trainmark-perf-") as folder:
        fill(Path(folder), args.history)
        begin = time.process_time()
        ledger = open_ledger(url_in(Path(folder)), "handover")
        ledger.entries()
        replay = time.process_time() - begin
        everyone = [
            fork.Process(target=work, args=(ledger, slot, args.each, gate, results), daemon=True)
            for slot in range(args.workers)
        ]
        for one in everyone:
            one.start()
        ends = [results.get(timeout=_PATIENCE) for _ in everyone]
        for one in everyone:
            one.join()
        entries = open_ledger(url_in(Path(folder)), "handover").entries()
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
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    show(
        "handover",
        "the worker's own loop, all at once, on Optuna's journal in a local file; training takes no time",
        figures,
        details,
    )


if __name__ == "__main__":
    main()
