"""Our runs as ais-bench's record: the two lines of its report, and `train_result_info` with its keys and types.

Every value is one that was measured. What is not known is 0 in this record, whose readers know nothing else, and is
named in `report.log`; in our own report it is missing, with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from trainmark.i18n.speaker import say
from trainmark.interop.writing.runs import Clock, Done, Output, real, rounds
from trainmark.reasons import EMULATED
from trainmark.report.build import build
from trainmark.report.records import CaseReport
from trainmark.score.figures.attempt import Question, score_run
from trainmark.spec.columns import Columns
from trainmark.spec.states import JobState
from trainmark.store import columns
from trainmark.store.files import read_json
from trainmark.store.rundir import RESULT, RunDir

_ACCURACY = ("accuracy", "acc", "top1", "accuracy_top1", "masked_accuracy", "mlm_accuracy")
_TIME = "%Y-%m-%d %H:%M:%S"


class Servers(msgspec.Struct, frozen=True):
    """One figure for each server; `whole`: what ais-bench would set as the result."""

    throughput: list[float]
    accuracy: list[float]
    whole: float | None
    quality: float | None


def write(runs: Sequence[RunDir], path: Path) -> list[Path]:
    out = Output(path)
    for run in runs:
        single = bool(run.manifest().plan.site.launcher_options.get("single_server"))
        done = rounds(run)
        for case in build(run).cases:
            own = [one for one in done if one.case.case == case.case and one.state is JobState.SUCCEEDED]
            folder = f"{run.id}/{own[0].case.id.dir_name()}" if own else ""
            if not own:
                continue
            found = servers(case, own, single)
            record, notes = train_result_info(case, own, found)
            notes += [f"note: {say(flag.reason)}" for flag in case.flags if flag.reason.code == EMULATED]
            out.write(f"{folder}/train_result_info.json", (json.dumps(record, indent=3) + "\n").encode())
            lines = [*report_lines(found), f"train_result_info: {json.dumps(record, indent=3)}", *notes]
            out.write(f"{folder}/report.log", ("\n".join(lines) + "\n").encode())
    return out.written


def report_lines(found: Servers) -> list[str]:
    lists = {"throughput": found.throughput, "accuracy": found.accuracy}
    return [f"report >> {name}_list:{values} average:{_mean(values)}" for name, values in lists.items()]


def servers(case: CaseReport, done: Sequence[Done], single: bool) -> Servers:
    """Of each server, the mean over rounds. Of the whole: single servers give their mean, a joint job its sum."""
    rates: dict[int, list[float]] = {}
    for one in done:
        read = columns.read(one.folder, one.case.world)
        for index, _, _ in one.nodes():
            own = [rank for rank in read.ranks if rank.rank in _ranks(one, index)]
            # As if the server had been alone.
            ranks = [msgspec.structs.replace(rank, rank=number) for number, rank in enumerate(own)]
            question = Question(world=len(ranks), window=one.case.window)
            speed = score_run(Columns(ranks, [], read.lines), (), question).figures["throughput"].value
            if speed is not None:
                rates.setdefault(index, []).append(speed)
    throughput = [_mean(rates[index]) for index in sorted(rates)]
    total = case.measurements["throughput"].value if "throughput" in case.measurements else None
    whole = _mean(throughput) if single and throughput else total
    accuracies: dict[int, list[float]] = {}
    for one in done:
        for index, _, folder in one.nodes():
            last = _last_accuracy(one, folder)
            if last is not None:
                accuracies.setdefault(index, []).append(last)
    accuracy = [_mean(accuracies[index]) for index in sorted(accuracies)]
    return Servers(throughput, accuracy, whole, _mean(accuracy) if accuracy else None)


def _ranks(one: Done, node: int) -> set[int]:
    if one.case.foreign_ranks:
        nproc = one.case.id.nproc
        return set(range(node * nproc, (node + 1) * nproc))
    return {rank.rank for rank in one.case.nodes[node].ranks}


def _last_accuracy(one: Done, folder: Path) -> float | None:
    found = None
    for event in one.heard(folder):
        if event.k == "EVALUATE" and isinstance(event.values, dict):
            values = [real(event.values[name]) for name in _ACCURACY if name in event.values]
            found = next((value for value in values if value is not None), found)
    return found


def train_result_info(case: CaseReport, done: Sequence[Done], found: Servers) -> tuple[dict[str, Any], list[str]]:
    """The record, with exactly its keys in their order, and a note for everything in it that is not known."""
    measured = {name: one.value for name, one in case.measurements.items()}
    per_sample, energy, busy = (measured.get(name) for name in ("energy_per_sample", "energy", "cpu_utilisation"))
    power = per_sample * found.whole if per_sample is not None and found.whole is not None else None
    times = _times(done)
    values: dict[str, Any] = {
        "accuracy": found.quality,
        "average_power": power,
        "dataload_end_time": times.get("dataload_end"),
        "dataload_start_time": times.get("dataload_start"),
        "efficientcy": 1 / per_sample if per_sample else None,
        "energy_consumption": energy,
        "max_power": _highest_power(done),
        "prepare_end_time": times.get("prepare_end"),
        "prepare_start_time": times.get("prepare_start"),
        "proc_end_time": times.get("proc_end"),
        "proc_start_time": times.get("proc_start"),
        "resource_util_ratio": None if busy is None else 100 * busy,
        "throughput_ratio": found.whole,
        "total_end_time": times.get("total_end"),
        "total_start_time": times.get("total_start"),
    }
    notes = [f"note: {name} is not known; 0 stands for that" for name, value in values.items() if value is None]
    return {name: _spelled(name, value) for name, value in values.items()}, notes


def _spelled(name: str, value: Any) -> Any:
    if name.endswith("_time"):
        moment = 0.0 if value is None else value
        return datetime.fromtimestamp(moment).astimezone().strftime(_TIME)
    if name in ("accuracy", "throughput_ratio"):
        return "0" if value is None else str(value)
    return 0 if value is None else value


def _times(done: Sequence[Done]) -> dict[str, float]:
    """Of the first round's start to the last round's end: seconds since the epoch, as the nodes' own clocks tell them.
    Data is loaded between the end of initialisation and the start of training."""
    marks = {
        "INIT_START": ("prepare_start", min),
        "INIT_END": ("prepare_end", max),
        "TRAIN_START": ("proc_start", min),
        "TRAIN_END": ("proc_end", max),
    }
    found: dict[str, float] = {}
    for one in done:
        for _, _, folder in one.nodes():
            result, clock = read_json(folder / RESULT), Clock()
            for name, key, choose in (("started", "total_start", min), ("ended", "total_end", max)):
                if isinstance(result, Mapping) and isinstance(result.get(name), int):
                    found[key] = choose(found.get(key, result[name] / 1e9), result[name] / 1e9)
            for event in one.heard(folder):
                clock.hear(event)
                if event.k in marks:
                    key, choose = marks[event.k]
                    moment = clock.ms(event.rank, event.t) / 1e3
                    found[key] = choose(found.get(key, moment), moment)
    if "prepare_end" in found and "proc_start" in found:
        found["dataload_start"] = min(found["prepare_end"], found["proc_start"])
        found["dataload_end"] = found["proc_start"]
    return found


def _highest_power(done: Sequence[Done]) -> float | None:
    """The highest of any round: the sum over nodes of each node's own. None where a node does not tell."""
    highest: float | None = None
    for one in done:
        peaks = [
            [power for sample in one.samples(folder) if (power := real(sample.get("power_w"))) is not None]
            for _, _, folder in one.nodes()
        ]
        if peaks and all(peaks):
            highest = max(highest or 0.0, sum(max(values) for values in peaks))
    return highest


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
