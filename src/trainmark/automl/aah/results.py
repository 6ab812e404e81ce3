"""Result folders of AIPerf, read into the record of an experiment: scored and judged again, by any set of rules.

An experiment of AIPerf has two folders of its id: `mountdir/nni/experiments` (graphs and hyper-parameters) and
`nni/experiments` (logs of trials); `report.py --logs` copies both into `results/logs`. Clocks of its logs have no zone.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainmark.automl.experiment import result
from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.record import Begin, End, Epoch, Record, WorkerFacts
from trainmark.automl.experiment.result import Result
from trainmark.automl.experiment.rules import RULES
from trainmark.automl.graph import flops
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.graph_json import decode
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.reasons import reason
from trainmark.spec import inputs
from trainmark.store.files import read_json

_EPOCH = re.compile(r"Epoch (\d+)/")
# `[06/02/2020, 09:12:50 PM] … val_acc: 0.61`, by Keras' versions also `val_accuracy`.
_ENDED = re.compile(r"\[(\d\d/\d\d/\d{4}, \d\d:\d\d:\d\d [AP]M)\].* val_acc\w*: ([01](?:\.\d+)?(?:e-\d+)?)(?:\s|$)")
_LOG_TIME, _FILE_TIME = "%m/%d/%Y, %I:%M:%S %p", "%m/%d/%Y, %H:%M:%S"
_MOST_TRIALS = 100_000


def read(folder: Path, rules: str, logs: Path | None = None) -> Result:
    """`folder`: with `hyperparameter_epoch`; `logs`: with `trials`, if that is another one."""
    if rules not in RULES:
        raise UserError(f"--rules {rules}: no such rule set{did_you_mean(rules, RULES)}; allowed: {one_of(RULES)}")
    folder, logs = _folders(folder, logs)
    names = _trials(folder, logs)
    record, without = Record(workers=[], begins=[], ends=[], epochs=[]), []
    for number, name in enumerate(names):
        epochs = list(_epochs(folder / "hyperparameter_epoch" / name, logs / "trials" / name, number))
        if not epochs:
            without.append(name)
            continue
        best = max(epochs, key=lambda one: one.accuracy)
        record.begins.append(Begin(number, epochs[0].begin, 0, name, file=name))
        record.ends.append(End(number, epochs[-1].end, best.accuracy))
        record.epochs += epochs
    if not record.epochs:
        raise UserError(f"{logs}: no epoch in the logs of {len(names)} trial(s): nothing to be scored")
    # Number format, batch and how many images there were are in none of the files.
    record.workers.append(WorkerFacts(0, "", "", 0, "", record.epochs[0].begin))
    experiment = Experiment(schema=1, name=folder.name, data="ImageNet", rules=rules, policy="–", max_duration="999d")
    found = result.build(folder.name, "SUCCEEDED", experiment, record)
    remarks = [reason("automl-imported"), *found.remarks]
    if without:
        remarks.append(reason("automl-imported-without", count=len(without), trials=", ".join(without[:8])))
    return result.with_remarks(found, remarks)


def _folders(folder: Path, logs: Path | None) -> tuple[Path, Path]:
    for place in (folder, folder / "results" / "logs", folder / "logs"):
        if (place / "hyperparameter_epoch").is_dir():
            beside = logs or place
            if (beside / "trials").is_dir():
                return place, beside
            raise UserError(f"{beside}: has no folder `trials`: name the one of nni/experiments with --nni")
    raise UserError(
        f"{folder}: has no folder `hyperparameter_epoch`, as AIPerf's mountdir/nni/experiments/ID and the "
        "`results/logs` of its report have"
    )


def _trials(folder: Path, logs: Path) -> list[str]:
    """In the order in which they were proposed, where that is known."""
    names = sorted(path.name for path in (folder / "hyperparameter_epoch").iterdir() if path.is_dir())[:_MOST_TRIALS]

    def order(name: str) -> tuple[int, str]:
        given = read_json(logs / "trials" / name / "parameter.cfg")
        number = given.get("parameter_id") if isinstance(given, dict) else None
        return (number if isinstance(number, int) else _MOST_TRIALS, name)

    return sorted(names, key=order)


def _epochs(about: Path, log: Path, number: int) -> Iterator[Epoch]:
    """Of one trial. An epoch that is the first one begins another training, with the next hyper-parameters."""
    file = log / "trial.log"
    if not file.is_file() or not (about / "model.json").is_file():
        return
    graph = decode(inputs.read(about / "model.json"), str(about / "model.json"))
    run, epoch, before, counted = -1, 0, 0.0, dict[str, float]()
    with open(file, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            begun, ended = _EPOCH.search(line), _ENDED.search(line)
            if begun:
                epoch = int(begun[1])
            end = _seconds(ended[1], _LOG_TIME) if ended else None
            if ended is None or end is None or not epoch:
                continue
            if epoch == 1 or run < 0:
                run += 1
                given = read_json(about / f"{run}.json")
                given = given if isinstance(given, dict) else {}
                counted = _counted(graph, given)
                before = _began(given, before or end)
            images = flops.IMAGES["aiperf"][0]
            yield Epoch(number, run, epoch, float(ended[2]), 0.0, 0.0, min(before, end), end, images, counted)
            before = end


def _counted(graph: Graph, given: dict[str, Any]) -> dict[str, float]:
    """Operations of an epoch. The kernel that the search chose replaces those of layers it added, in AIPerf's count."""
    values = given.get("hyperparameter")
    kernel = values.get("kernel_size") if isinstance(values, dict) else None
    kernel = kernel if isinstance(kernel, int) and 1 <= kernel <= 7 else None
    return {
        name: float(flops.epoch(flops.count(graph, name, kernel if name == "aiperf" else None), *flops.IMAGES[name]))
        for name in flops.RULES
    }


def _began(given: dict[str, Any], otherwise: float) -> float:
    return _seconds(str(given.get("start_date")), _FILE_TIME) or otherwise


def _seconds(text: str, form: str) -> float | None:
    """None for what is no time."""
    try:
        return datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC).timestamp()
    except ValueError:
        return None
