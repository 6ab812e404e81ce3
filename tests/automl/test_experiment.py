"""Whole experiments on this machine, small and real."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.automl import pictures
from tests.conftest import Cli
from trainmark import automl
from trainmark.automl.experiment import record
from trainmark.automl.ledger.ledger import open_ledger
from trainmark.store.rundir import RunDir

pytestmark = pytest.mark.slow

BASE: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "data": "./data",
    "rules": "none",
    "init_models": [str(Path(automl.__file__).parent / "demo" / "start.json")],
    "image": {"size": 28, "channels": 1, "classes": 10},
    "limits": {"parameters": 20000, "depth": 20, "kernel": 5},
    "policy": "random",
    "threads": 1,
    "max_duration": "10m",
    "hpo": {"searches": 0},
}


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")


def write(folder: Path, **changes: Any) -> str:
    training = {"batch": 64, "epochs": [2], "lr": 0.1, "images": 640, "test_images": 200}
    training |= {"early_stop": {"rule": "never"}, **changes.pop("training", {})}
    file = folder / "experiment.yaml"
    file.write_text(json.dumps({**BASE, "training": training, **changes}))
    return str(file)


def newest(cli: Cli) -> RunDir:
    return RunDir(sorted(cli.runs.glob("*/manifest.json"))[-1].parent)


def test_two_workers_search_train_and_report(cli: Cli) -> None:
    """With hyper-parameters searched in the second round, and pictures that were never fetched from anywhere."""
    pictures.write(cli.folder / "data")
    space = {"kernel_size": {"choices": [3, 5]}, "dropout": {"low": 0.0, "high": 0.3}}
    file = write(cli.folder, workers=2, max_trials=6, hpo={"from_round": 1, "searches": 1, "space": space})
    ended = cli("automl", "run", file, code=1)
    assert "NOT VALID" in ended.stdout and "Report_Failed.html" in ended.stdout
    run = newest(cli)
    found = record.read(run)
    entries = open_ledger(f"journal:{run.path}/automl/ledger.log", run.id).entries()
    assert [entry.state for entry in entries] == ["done"] * 6
    assert len({entry.key for entry in entries}) == 6
    # What was searched is there for later trials to learn from.
    assert [len(entry.tried) for entry in entries] == [0, 0, 2, 2, 2, 2]
    trained = sorted((epoch.trial, epoch.run) for epoch in found.epochs if epoch.epoch == 1)
    # One training in the first round, two from the second on.
    assert trained == [(0, 0), (1, 0), *((trial, run) for trial in range(2, 6) for run in (0, 1))]
    told = cli.json("automl", "report")
    assert told["accuracy"] == max(epoch.accuracy for epoch in found.epochs) > 0.3
    assert told["flops"] == pytest.approx(sum(epoch.flops["trainmark"] for epoch in found.epochs))
    assert [one["rule"] for one in told["verdicts"]] == ["rules"] and told["valid"] is False
    page = (run.path / "results" / "Report_Failed.html").read_text()
    assert page.count("<svg") >= 5 and "http://" not in page.replace("http://www.w3.org", "")
    _best_needs_torch_alone(cli, told["accuracy"])
    cli("automl", "report", "--logs")
    assert list((run.path / "results" / "logs").glob("*/round1/attempt1/*/rank0.out.log"))


def _best_needs_torch_alone(cli: Cli, accuracy: float) -> None:
    cli("automl", "best", "-o", str(cli.folder / "best"))
    program = "import model, torch; print(tuple(model.load()(torch.zeros(3, 1, 28, 28)).shape))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cli.folder / "best", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "(3, 10)"
    assert json.loads((cli.folder / "best" / "trial.json").read_text())["accuracy"] == accuracy


def _a_text(folder: Path) -> dict[str, Any]:
    (folder / "data").mkdir()
    sentences = [f"The sum of {a} and {b} is {a + b}." for a in range(40) for b in range(20)]
    (folder / "data" / "sums.txt").write_text("\n".join(sentences))
    start = {"start": "gpt", "start_options": {"blocks": 1, "width": 8, "context": 16}, "image": None}
    return {**start, "text": {"tokenizer": "bytes", "kinds": 256}, "training": {"images": 0, "test_images": 0}}


def _some_images(folder: Path) -> dict[str, Any]:
    pictures.write(folder / "data")
    return {"start": "vit", "start_options": {"blocks": 1, "width": 8, "patch": 7}, "training": {}}


@pytest.mark.parametrize("given", [_a_text, _some_images])
def test_transformers_are_searched_trained_and_scored(cli: Cli, given: Any) -> None:
    changes = given(cli.folder)
    changes["training"] |= {"optimizer": "adamw", "lr": 0.01, "epochs": [1], "batch": 32}
    text = "text" in changes
    file = write(cli.folder, workers=1, max_trials=4, init_models=[], limits={"tokens": 32}, **changes)
    cli("automl", "run", file, code=1)
    found = record.read(newest(cli))
    told = cli.json("automl", "report")
    assert sorted({epoch.trial for epoch in found.epochs}) == [0, 1, 2, 3]
    assert told["flops"] == pytest.approx(sum(epoch.flops["trainmark"] for epoch in found.epochs))
    assert all(set(epoch.flops) == {"trainmark"} for epoch in found.epochs)
    if text:
        # Of a text the error is by its loss: that of a guess at random among all kinds is 1.
        lowest = min(epoch.val_loss for epoch in found.epochs)
        assert told["error"] == pytest.approx(lowest / math.log(256)) and told["metric"] == "loss"
        assert "Lowest test loss" in (newest(cli).path / "results" / "Report_Failed.html").read_text()
        assert f"test loss {lowest:.4f}" in cli("automl", "status").stdout
    entries = open_ledger(f"journal:{newest(cli).path}/automl/ledger.log", newest(cli).id).entries()
    seen = {entry.number: entry.seen for entry in entries}
    # Weights go from parent to child, and with them the epochs they have seen.
    assert all(entry.seen == 1 + (0 if entry.parent is None else seen[entry.parent]) for entry in entries)
    cli("automl", "best", "-o", str(cli.folder / "best"))
    read = "torch.zeros(2, 16, dtype=torch.long)" if text else "torch.zeros(2, 1, 28, 28)"
    program = f"import model, torch; print(model.load()({read}).shape[-1])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cli.folder / "best", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ("256" if text else "10")


def test_experiments_are_compared_exported_and_packed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their scores, wherever results of runs are shown."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(cli.folder / "config"))
    pictures.write(cli.folder / "data")
    file = write(cli.folder, workers=1, max_trials=1, training={"epochs": [1]})
    for _ in range(2):
        cli("automl", "run", file, code=1)
    first, second = (path.parent.name for path in sorted(cli.runs.glob("*/manifest.json")))
    # Two alone tell nothing of chance: a ratio, and no verdict.
    (found,) = (cli.json("compare", first, second, code=5)["cases"],)
    assert found[0]["verdict"]["word"] == "inconclusive" and found[0]["verdict"]["ci_low"] is None
    for _ in range(3):
        cli("automl", "run", file, code=1)
    compared = cli.json("compare", first, second, code=None)
    (found,) = compared["cases"]
    scores = [cli.json("automl", "report", run)["regulated"] for run in (first, second)]
    assert compared["metric"] == "regulated_score" and [found["a"], found["b"]] == scores
    assert found["verdict"]["ratio"] == pytest.approx(scores[1] / scores[0])
    assert found["verdict"]["ci_low"] < found["verdict"]["ratio"] < found["verdict"]["ci_high"]
    whole = cli.json("report", first)["experiment"]
    assert {one["name"]: one["value"] for one in whole["figures"]}["regulated_score"] == scores[0]
    assert f"small,SUCCEEDED,regulated_score,{scores[0]!r}" in cli("report", first, "--format", "csv").stdout
    cli("export", "prometheus", first, "-o", str(cli.folder / "e.prom"))
    assert f'measurement="regulated_score",unit="FLOPS"}} {scores[0]!r}' in (cli.folder / "e.prom").read_text()
    bundle = str(cli.folder / "submission.tmk")
    cli("automl", "pack", first, "--unsigned", "-o", bundle)
    faults = [
        one["reason"]["code"] for one in cli.json("verify", bundle, code=4)["findings"] if one["severity"] == "fault"
    ]
    assert faults == ["not-signed"]
    _listed_and_repeated(cli, second, scores[1])


def _listed_and_repeated(cli: Cli, run: str, score: float) -> None:
    """On a leaderboard: its score, not the speed of its workers, and a file that runs it again."""
    cli("key", "create")
    cli("automl", "pack", run, "-o", str(cli.folder / "signed.tmk"))
    (told,) = cli.json("verify", str(cli.folder / "signed.tmk"))["experiments"]
    assert told["regulated_score"] == score and {"score", "error"} <= set(told)
    site = cli.folder / "site"
    cli("leaderboard", str(cli.folder / "signed.tmk"), "-o", str(site))
    (item,) = json.loads((site / "feed.json").read_text())["items"]
    assert item["_trainmark"]["figures"]["regulated_score"] == score and item["_trainmark"]["valid"] is False
    page = (site / "index.html").read_text()
    assert "Regulated score" in page and "automl_trial" not in page
    again = site / "experiments" / run / "experiment.yaml"
    assert str(cli.folder) not in again.read_text()
    pictures.write(again.parent / "data")
    assert "name: small" in cli("automl", "run", str(again), "--show").stdout


def test_data_that_no_worker_can_read_is_said_once(cli: Cli) -> None:
    """It would be as bad the next time: nobody is started again."""
    (cli.folder / "data").mkdir()
    ended = cli("automl", "run", write(cli.folder, workers=1, max_trials=2), code=1)
    assert "holds no class folders" in ended.stdout and "attempt 2" not in ended.stdout


def test_a_killed_worker_goes_on_from_its_last_epoch(cli: Cli) -> None:
    """kill -9 of the training process in the midst of a trial: a new attempt, and no epoch is done twice."""
    pictures.write(cli.folder / "data")
    # The first trial is long enough to be met in its midst, however late the second epoch is noticed.
    file = write(cli.folder, workers=1, max_trials=2, training={"epochs": [20, 1], "images": 1280})
    going = cli.start("automl", "run", file)
    _await_epochs(cli, 2, going)
    os.kill(_rank(cli), signal.SIGKILL)
    out, err = going.communicate(timeout=400)
    assert "attempt 2" in out, out + err
    assert "failed 1 time(s), the last time: rank 0 was killed by signal 9" in " ".join(out.split())
    found = record.read(newest(cli))
    done = [(0, epoch) for epoch in range(1, 21)] + [(1, 1)]
    assert sorted((e.trial, e.epoch) for e in found.epochs) == done
    assert found.repeated >= 1 and sum(begin.number == 0 for begin in found.begins) == 2


def _await_epochs(cli: Cli, count: int, going: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + 300
    while _epochs_so_far(cli) < count:
        if going is not None and going.poll() is not None:
            pytest.fail("it ended before: " + "".join(going.communicate()))
        if time.monotonic() > deadline:
            logs = [path.read_text()[-2000:] for path in cli.runs.rglob("*.log") if path.name != "ledger.log"]
            pytest.fail(f"{_epochs_so_far(cli)} epochs in 300 s\n" + "\n".join(logs))
        time.sleep(0.1)


def _epochs_so_far(cli: Cli) -> int:
    runs = sorted(cli.runs.glob("*/manifest.json"))
    return len(record.read(RunDir(runs[-1].parent)).epochs) if runs else 0


def _rank(cli: Cli) -> int:
    (status,) = newest(cli).path.glob("*/round1/attempt1/*/status.json")
    return int(json.loads(status.read_text())["ranks"][0]["pid"])


def test_time_is_up_and_a_network_without_room(cli: Cli) -> None:
    """The time ends a trial after the epoch that was under way; nothing is left running."""
    file = write(
        cli.folder,
        data="synthetic",
        workers=1,
        max_trials=50,
        max_duration="12s",
        training={"epochs": [1000], "images": 640, "test_images": 64},
    )
    ended = cli("automl", "run", file, "--json", code=1)
    told = json.loads(ended.stdout)
    assert told["synthetic"] and not told["valid"]
    # An epoch that was under way is done to its end: the time is never just missed.
    assert 12 <= told["seconds"] < 60
    entries = open_ledger(f"journal:{newest(cli).path}/automl/ledger.log", newest(cli).id).entries()
    assert not any(entry.state == "running" for entry in entries)


def test_a_network_that_does_not_fit_is_a_result(cli: Cli) -> None:
    """Hundreds of gigabytes of activations are refused by the system itself; the worker goes on with the next."""
    layers = [
        {"op": "conv", "inputs": [-1], "filters": 32768, "kernel": 1, "stride": 1},
        {"op": "global_avg_pool", "inputs": [0]},
        {"op": "dense", "inputs": [1], "units": 10},
    ]
    (cli.folder / "wide.json").write_text(json.dumps({"graph": 1, "input": [28, 28, 1], "layers": layers}))
    file = write(
        cli.folder,
        data="synthetic",
        init_models=["wide.json", BASE["init_models"][0]],
        max_trials=2,
        training={"batch": 4000, "images": 4000, "epochs": [1]},
    )
    told = json.loads(cli("automl", "run", file, "--json", code=1).stdout)
    assert [trial["state"] for trial in told["trials"]] == ["FAILED", "SUCCEEDED"]
    assert told["trials"][0]["why"]["code"] == "automl-out-of-memory" and told["trials"][0]["attempts"] == 1


def test_ranks_train_together_stop_and_go_on(cli: Cli) -> None:
    """A worker of two ranks; `stop` leaves nothing, `resume` does what is left and nothing else."""
    pictures.write(cli.folder / "data")
    file = write(cli.folder, slot={"devices": 2}, max_trials=3, training={"epochs": [3], "images": 1280})
    cli("automl", "run", file, "--detach")
    early = cli("automl", "report", code=2)
    assert "reports after 20 s: wait for" in early.stderr
    _await_epochs(cli, 2)
    cli("automl", "stop")
    token = newest(cli).id
    left = [path for path in Path("/proc").glob("[0-9]*/environ") if _holds(path, token.encode())]
    assert not left
    assert "NOT VALID" in cli("resume", code=1).stdout
    assert "has nothing left to do: all trials are done" in cli("automl", "resume", code=1).stderr
    found = record.read(newest(cli))
    assert sorted((e.trial, e.epoch) for e in found.epochs) == [(t, e) for t in range(3) for e in range(1, 4)]
    assert {epoch.images for epoch in found.epochs} == {1280} and found.workers[0].ranks == 2


def _holds(path: Path, text: bytes) -> bool:
    try:
        return text in path.read_bytes()
    except OSError:
        return False
