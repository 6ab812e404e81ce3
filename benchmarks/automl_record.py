"""How long `automl top` and `automl report` take for an experiment of 100 nodes with 8 ranks each after 12 h.

The run is made up, in the form that controller, workers and agents write it: each rank an event for every step, the
first rank of each worker one for every epoch and trial, each node a sample every second with figures of 8 devices.
Measured are the first frame of `top` by a new process, a frame after 3 s more of events, and the whole report with its
page. `--nodes N --ranks N --hours H` change the size; the default needs 16 GB of disk for a while.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from figures import at_most, show

from trainmark.automl.experiment import plan as plans
from trainmark.automl.experiment import runs
from trainmark.automl.experiment.config import Experiment, WorkerShape
from trainmark.automl.experiment.record import Reader
from trainmark.automl.search.generator import start_models
from trainmark.cli.automl.look import screen
from trainmark.run import planning, session
from trainmark.spec.site import Site
from trainmark.store import rundir
from trainmark.store.rundir import RunDir

STEPS_PER_SECOND = 5.6  # 2,500 images/s at a batch of 448
EPOCH_SECONDS, TRIAL_EPOCHS = 510.0, 15  # ImageNet on 8 such devices, with its test
FRAME_SECONDS = 3.0
MOST_FRAME, MOST_REPORT = 1.0, 20.0


def step_line(rank: int, step: int) -> bytes:
    return b'{"k":"STEP","r":%d,"q":%d,"t":%d,"n":448,"step":%d}\n' % (rank, step, 1_000_000_000 * step, step)


def note(name: str, number: int, value: dict[str, object]) -> bytes:
    line = {"k": "NOTE", "r": 0, "q": number, "t": 1, "name": name, "value": value}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def epoch_line(worker: int, number: int) -> bytes:
    value = {
        **{"trial": 100 * worker + number // TRIAL_EPOCHS, "run": 0, "epoch": number % TRIAL_EPOCHS + 1},
        **{"accuracy": 0.5 + number / 1000, "loss": 2.0, "val_loss": 2.0, "images": 1_281_167},
        **{"begin": EPOCH_SECONDS * number, "end": EPOCH_SECONDS * (number + 1)},
        "flops": {"aiperf": 1e16, "trainmark": 1e16},
    }
    return note("automl_epoch", number, value)


def trial_line(worker: int, number: int) -> bytes:
    trial = 100 * worker + number // TRIAL_EPOCHS
    parent = trial - 1 if number else None
    moves = [["wider", 2, 96]] if number else []
    value = {"number": trial, "wall": EPOCH_SECONDS * number, "round": 0, "key": str(trial), "file": str(trial)}
    return note("automl_begin", number, {**value, "parent": parent, "moves": moves, "owner": f"slot{worker}"})


def worker_line(worker: int, ranks: int) -> bytes:
    value = {"slot": worker, "device": "cuda", "dtype": "fp16", "batch": 448, "data": "tfrecord", "wall": 0.0}
    return note("automl_worker", 0, {**value, "memory_gib": 32.0, "ranks": ranks, "train_images": 1_281_167})


def sample_line(second: int, ranks: int) -> bytes:
    device = {"utilisation": 0.97, "mem_used": 30_000_000_000 + second, "power_w": 290.5, "temperature_c": 61}
    sample = {
        **{"t": 1_000_000_000 * second, "cpu": 0.41, "user": 0.38, "system": 0.03, "iowait": 0.0, "steal": 0.0},
        **{"mem_used": 210_000_000_000, "mem_available": 300_000_000_000, "net_rx": 1.1e8, "net_tx": 1.2e8},
        **{"disk_read": 0.0, "disk_write": 120000.5, "power_w": 3105.5, "devices": [device] * ranks, "agent_cpu": 0.01},
    }
    return json.dumps(sample, separators=(",", ":")).encode() + b"\n"


def experiment_run(folder: Path, nodes: int, ranks: int, hours: float) -> RunDir:
    """The folder of a run that is planned and not started."""
    hosts = [f"n{number}" for number in range(nodes)]
    site = Site(name="cluster", launcher="ssh", hosts=hosts, shared_dir="/shared", python="python3")
    experiment = Experiment(
        schema=1,
        name="record",
        data="synthetic",
        rules="none",
        workers=nodes,
        slot=WorkerShape(devices=ranks),
        max_duration=f"{hours:g}h",
    )
    plan = plans.make(experiment, site, planning.places(site, set()))
    run = rundir.create(folder, plan.suite)
    home = plans.at_home(
        plan, experiment, start_models(experiment), run.id, "/shared/x", "journal:/shared/x/ledger.log"
    )
    session.describe(run, home)
    return run


def write(run: RunDir, worker: int, ranks: int, seconds: float) -> Path:
    """The events and samples of one node; its ranks write by turns."""
    place = run.path / f"automl_trial+pytorch+nvidia+1+8+1@slot={worker}" / "round1" / "attempt1"
    node = place / f"n{worker}_noderank0"
    node.mkdir(parents=True)
    steps = int(EPOCH_SECONDS * STEPS_PER_SECOND)
    block = b"".join(step_line(rank, step) for step in range(steps) for rank in range(ranks))
    with (node / "events.jsonl").open("wb") as file:
        file.write(worker_line(worker, ranks))
        for number in range(int(seconds / EPOCH_SECONDS)):
            if number % TRIAL_EPOCHS == 0:
                file.write(trial_line(worker, number))
            file.write(block)
            file.write(epoch_line(worker, number))
    with (node / "samples.jsonl").open("wb") as file:
        file.write(b'{"schema":1,"units":{}}\n')
        file.writelines(sample_line(second, ranks) for second in range(int(seconds)))
    (node / rundir.STATUS).write_text(json.dumps({"wall": 0, "t": 0}))
    return node / "events.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--hours", type=float, default=12.0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="trainmark-record-"))
    try:
        run = experiment_run(folder, args.nodes, args.ranks, args.hours)
        files = [write(run, worker, args.ranks, 3600 * args.hours) for worker in range(args.nodes)]
        size = sum(file.stat().st_size for file in run.path.rglob("*.jsonl"))
        reader, begin = Reader(run), time.perf_counter()
        screen(run, reader)
        first = time.perf_counter() - begin
        steps = int(FRAME_SECONDS * STEPS_PER_SECOND)
        for worker, file in enumerate(files):
            with file.open("ab") as more:
                more.writelines(step_line(rank, step) for step in range(steps) for rank in range(args.ranks))
                more.write(epoch_line(worker, 10_000))
        begin = time.perf_counter()
        screen(run, reader)
        frame = time.perf_counter() - begin
        begin = time.perf_counter()
        found = runs.look(run)
        page = runs.write_results(run, found, run.path / "results")
        report = time.perf_counter() - begin
        shown = page.stat().st_size
    finally:
        shutil.rmtree(folder)
    how = "made-up run, just written; a first frame, then 3 s more of events and another; report by a new reader"
    details = {**vars(args), "bytes": size, "epochs": found.epochs, "trials": len(found.trials), "page_bytes": shown}
    details["first_frame_s"] = first
    figures = [
        at_most("a frame of `automl top`, 800 ranks for 12 h", "s", frame, MOST_FRAME),
        at_most("`automl report` with its page, 800 ranks for 12 h", "s", report, MOST_REPORT),
    ]
    show("automl_record", how, figures, details)


if __name__ == "__main__":
    main()
