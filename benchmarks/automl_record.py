"""How long `automl top`, `status` and `report` take to read an experiment of 100 nodes with 8 ranks each after 12 h.

The events are made up, in the form that workers write them: each rank an event for every step, the first rank of each
worker one for every epoch. Read are the whole record by a new process, as `status` and `report` do, and what was added
since the last look, as every further frame of `top` does. `--nodes N --ranks N --hours H` change the size; the default
needs 10 GB of disk for a while.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from figures import at_most, show

from trainmark.automl.experiment.record import Reader
from trainmark.store.rundir import RunDir

STEPS_PER_SECOND = 5.6  # 2,500 images/s at a batch of 448
EPOCH_SECONDS = 510.0  # ImageNet on 8 such devices, with its test
FRAME_SECONDS = 3.0
MOST_FRAME, MOST_REPORT = 1.0, 20.0


def step_line(rank: int, step: int) -> bytes:
    return b'{"k":"STEP","r":%d,"q":%d,"t":%d,"n":448,"step":%d}\n' % (rank, step, 1_000_000_000 * step, step)


def epoch_line(worker: int, number: int) -> bytes:
    value = {
        **{"trial": 100 * worker + number // 15, "run": 0, "epoch": number % 15 + 1, "accuracy": 0.5, "loss": 2.0},
        **{"val_loss": 2.0, "begin": EPOCH_SECONDS * number, "end": EPOCH_SECONDS * (number + 1), "images": 1_281_167},
        "flops": {"aiperf": 1e16, "trainmark": 1e16},
    }
    line = {"k": "NOTE", "r": 0, "q": number, "t": 1, "name": "automl_epoch", "value": value}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def write(folder: Path, worker: int, ranks: int, seconds: float) -> Path:
    """The events of one node; its ranks write by turns."""
    node = folder / f"automl_trial+pytorch+nvidia+1+8+1@slot={worker}" / "round1" / "attempt1" / f"n{worker}_noderank0"
    node.mkdir(parents=True)
    steps = int(EPOCH_SECONDS * STEPS_PER_SECOND)
    block = b"".join(step_line(rank, step) for step in range(steps) for rank in range(ranks))
    with (node / "events.jsonl").open("wb") as file:
        for number in range(int(seconds / EPOCH_SECONDS)):
            file.write(block)
            file.write(epoch_line(worker, number))
    return node / "events.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--hours", type=float, default=12.0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="trainmark-record-"))
    try:
        files = [write(folder, worker, args.ranks, 3600 * args.hours) for worker in range(args.nodes)]
        size = sum(file.stat().st_size for file in files)
        reader, begin = Reader(RunDir(folder)), time.perf_counter()
        found = reader.read()
        whole = time.perf_counter() - begin
        steps = int(FRAME_SECONDS * STEPS_PER_SECOND)
        for worker, file in enumerate(files):
            with file.open("ab") as more:
                more.writelines(step_line(rank, step) for step in range(steps) for rank in range(args.ranks))
                more.write(epoch_line(worker, 10_000))
        begin = time.perf_counter()
        again = reader.read()
        frame = time.perf_counter() - begin
        assert len(again.epochs) == len(found.epochs) + args.nodes, "every new epoch is seen"
    finally:
        shutil.rmtree(folder)
    how = "made-up events, just written; the whole by a new reader, what is new by one that has read the rest"
    details = {**vars(args), "bytes": size, "epochs": len(found.epochs)}
    figures = [
        at_most("reading the record of an experiment, 800 ranks for 12 h", "s", whole, MOST_REPORT),
        at_most("reading what 3 s more brought", "s", frame, MOST_FRAME),
    ]
    show("automl_record", how, figures, details)


if __name__ == "__main__":
    main()
