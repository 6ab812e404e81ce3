"""An experiment on a real Slurm cluster that loses a node and its controller: nothing is lost, nothing counts twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import slurm
from lab.lab import Lab, wait_for
from tests.automl import pictures
from tests.conftest import TRAINMARK, Cli
from trainmark.automl.experiment import record
from trainmark.automl.experiment.record import Record
from trainmark.automl.ledger.ledger import Entry, open_ledger
from trainmark.store.rundir import RunDir

pytestmark = pytest.mark.lab
# Enough to last until a node that was lost is back.
TRIALS, EPOCHS = 60, 4
WAIT = 240.0


def experiment(folder: Path, data: Path, **changes: Any) -> Path:
    file = folder / "experiment.yaml"
    content = {
        "schema": 1,
        "name": "lab",
        "data": str(data),
        "rules": "none",
        "start": "small_cnn",
        "start_options": {"blocks": 2, "width": 4},
        "image": {"size": 28, "channels": 1, "classes": 10},
        "limits": {"parameters": 20000, "depth": 20, "kernel": 5},
        "policy": "random",
        "workers": 4,
        "max_trials": TRIALS,
        "max_duration": "30m",
        "training": {
            "batch": 64,
            "epochs": [EPOCHS],
            "lr": 0.1,
            "images": 1280,
            "test_images": 200,
            "early_stop": {"rule": "never"},
        },
        "hpo": {"searches": 0},
        **changes,
    }
    file.write_text(json.dumps(content))
    return file


class Watched:
    """A run, seen through its folder."""

    def __init__(self, cli: Cli, controller: subprocess.Popen[str]) -> None:
        wait_for(lambda: self._manifests(cli) or controller.poll() is not None, "a run", WAIT)
        assert self._manifests(cli), controller.communicate()
        self.run = RunDir(self._manifests(cli)[0].parent)

    @staticmethod
    def _manifests(cli: Cli) -> list[Path]:
        return sorted(cli.runs.glob("*/manifest.json"))

    def record(self) -> Record:
        return record.read(self.run)

    def entries(self) -> list[Entry]:
        return open_ledger(f"journal:{self.run.path}/automl/ledger.log", self.run.id).entries()

    def began_on(self, host: str, after: float = 0.0) -> bool:
        return any(begin.host == host and begin.wall > after for begin in self.record().begins)

    def log(self) -> str:
        return (self.run.path / "run.log").read_text()


def test_a_lost_node_and_a_killed_controller(four: Lab, slurm_site_for: Callable[[Lab, Path], Path]) -> None:
    shared = four.layout.shared / f"automl-{os.getpid()}"
    shared.mkdir()
    cli, site = Cli(shared), slurm_site_for(four, shared)
    file = experiment(shared, pictures.write(shared / "data"))
    controller = cli.start("automl", "run", str(file), "--site", str(site), start_new_session=True)
    try:
        seen = Watched(cli, controller)
        wait_for(lambda: _mid_trial(seen, "node2"), "a trial on node2 with an epoch on record", WAIT)
        four.poweroff("node2")
        wait_for(lambda: "attempt 2: started" in seen.log(), "another attempt of node2's worker", WAIT)
        lost = max(begin.wall for begin in seen.record().begins if begin.host == "node2")
        four.boot("node2")
        slurm.start_munge(four, "node2")
        slurm.start_node(four, "node2")
        four.on("ctl", "scontrol", "update", "nodename=node2", "state=resume", check=False)
        wait_for(lambda: seen.began_on("node2", lost), "a trial on node2 again", WAIT)
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()
        cli("automl", "resume", code=None)
    finally:
        if controller.poll() is None:
            os.kill(controller.pid, signal.SIGKILL)
        subprocess.run([*TRAINMARK, "stop", "--now", "--runs", str(cli.runs)], capture_output=True, check=False)
    _nothing_lost_nothing_twice(seen)
    _flops_add_up(cli, seen)


def test_workers_begin_together_in_one_job(slurm_cli: Cli, slurm_site: Callable[..., Path], shared: Path) -> None:
    """With `allocation: suite`, which asks for it. Slurm chooses the nodes, and each worker has one of its own."""
    file = experiment(shared, pictures.write(shared / "data"), workers=2, max_trials=4)
    site = slurm_site({"nodes": 2, "allocation": "suite"})
    planned = slurm_cli("automl", "plan", str(file), "--site", str(site)).stdout
    assert planned.count("sbatch --parsable") == 1 and "--nodes=2" in planned
    slurm_cli("automl", "run", str(file), "--site", str(site), code=1)
    (manifest,) = slurm_cli.runs.glob("*/manifest.json")
    run = RunDir(manifest.parent)
    assert [path.name for path in (run.path / "slurm").glob("*.1")] == ["suite.1"]
    assert len({begin.host for begin in record.read(run).begins}) == 2


def _mid_trial(seen: Watched, host: str) -> bool:
    found = seen.record()
    ended = {end.number for end in found.ends}
    open_here = [begin.number for begin in found.begins if begin.host == host and begin.number not in ended]
    done = [epoch for epoch in found.epochs if epoch.trial in open_here]
    return any(0 < epoch.epoch < EPOCHS for epoch in done)


def _nothing_lost_nothing_twice(seen: Watched) -> None:
    entries, found = seen.entries(), seen.record()
    assert [entry.state for entry in entries] == ["done"] * TRIALS
    assert [entry.number for entry in entries] == list(range(TRIALS))
    told = sorted((epoch.trial, epoch.run, epoch.epoch) for epoch in found.epochs)
    assert told == [(trial, 0, epoch) for trial in range(TRIALS) for epoch in range(1, EPOCHS + 1)]
    assert sorted({end.number for end in found.ends}) == list(range(TRIALS))
    # The trial that node2 had was begun twice, and went on from an epoch that was on record.
    again = [entry for entry in entries if entry.begun > 1]
    assert again and found.repeated > 0


def _flops_add_up(cli: Cli, seen: Watched) -> None:
    told = json.loads(cli("automl", "report", "--json").stdout)
    each: dict[tuple[int, int, int], float] = {}
    for events in seen.run.path.glob("*/round*/attempt*/*/events.jsonl"):
        for line in events.read_bytes().splitlines():
            if b'"automl_epoch"' in line:
                value = json.loads(line)["value"]
                each.setdefault((value["trial"], value["run"], value["epoch"]), value["flops"]["trainmark"])
    assert len(each) == TRIALS * EPOCHS
    assert told["flops"] == pytest.approx(sum(each.values()), rel=1e-12)
    assert sum(trial["flops"] for trial in told["trials"]) == pytest.approx(told["flops"], rel=1e-12)
