"""Runs as DLPerf would show them: its JSON, its table, and logs under the names it gives them."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.interop.dlperf.result import Speed, result
from trainmark.interop.reading.records import clean
from trainmark.interop.reading.writer import RAW
from trainmark.interop.writing.runs import Done
from trainmark.plan.records import CasePlan
from trainmark.report.make.dlperf import table
from trainmark.report.render.escape import flat
from trainmark.store import events, journal
from trainmark.store.files import write_whole
from trainmark.store.rundir import RunDir, node_dir, rank_log
from trainmark.store.state import RunState

# DLPerf's own words for them.
_MODELS = {"resnet50": "rn50"}


class _Log(msgspec.Struct, frozen=True):
    """One round as a log of DLPerf."""

    speed: Speed
    framework: str
    workload: str
    text: Path | None


def export(runs: Sequence[RunDir], path: Path) -> list[Path]:
    """Writes `<bzN>_result.json`, `<bzN>_result.md` for each batch size and dtype, and `logs…/`."""
    left_out: list[str] = []
    logs = _numbered([log for run in runs for log in _logs(run, left_out)])
    for text in left_out:
        sys.stderr.write(flat(f"left out: {text}") + "\n")
    if not logs:
        raise UserError(f"export dlperf: no round of {', '.join(run.id for run in runs)} has a speed and a `batch`")
    written: list[Path] = []
    try:
        path.mkdir(parents=True, exist_ok=True)
        for group, members in _groups(logs).items():
            content = result([log.speed for log in members], "time")
            written += _write(path / group, content)
            written += [file for log in members if (file := _log(path, log)) is not None]
    except OSError as error:
        raise UserError(f"--output {path}: cannot be written: {error.strerror}") from None
    return written


def _numbered(logs: list[_Log]) -> list[_Log]:
    """Rounds of one case in several runs are repeats of it: no two have one number, which is the name of a log."""
    seen: Counter[tuple[object, ...]] = Counter()
    found = []
    for log in logs:
        one = log.speed
        key = (one.model, one.case, one.batch, one.dtype, log.framework, log.workload)
        seen[key] += 1
        found.append(msgspec.structs.replace(log, speed=msgspec.structs.replace(one, repeat=seen[key])))
    return found


def _groups(logs: list[_Log]) -> dict[str, list[_Log]]:
    """By batch size, as DLPerf's folders; by framework and dtype too where several share one."""
    kinds = {(log.speed.batch, log.framework, log.speed.dtype) for log in logs}
    found: dict[str, list[_Log]] = {}
    for log in logs:
        alike = [kind for kind in kinds if kind[0] == log.speed.batch]
        extra = "" if len(alike) == 1 else f"_{log.framework}_{log.speed.dtype or 'dtype'}"
        found.setdefault(f"bz{log.speed.batch}{extra}", []).append(log)
    return found


def _write(base: Path, content: dict[str, Any]) -> list[Path]:
    data, page = base.with_name(f"{base.name}_result.json"), base.with_name(f"{base.name}_result.md")
    write_whole(data, msgspec.json.encode(content))
    write_whole(page, "\n".join(f"{model}\n\n{table(cells)}" for model, cells in content.items()).encode())
    return [data, page]


def _logs(run: RunDir, left_out: list[str]) -> Iterator[_Log]:
    plan = run.manifest().plan
    state = RunState.replay(plan, journal.read(run.path).records)
    for index, case in enumerate(plan.cases):
        batch = case.params.get("batch")
        if not isinstance(batch, int):
            left_out.append(f"{run.id} {case.id}: its `batch` is not known")
            continue
        counted = dict(state.counted(index))
        for ref in sorted(set(state.refs(index)) - set(counted)):
            last = state.rounds[ref].last()
            why = "it was not run" if last is None else f"{last.state.value}: {say(last.reason)}"
            left_out.append(f"{run.id} {case.id} round {ref.round}: {why}")
        for ref, attempt in counted.items():
            folder = run.attempt(case, ref, attempt.number)
            done = Done(case, ref.round, attempt.state, say(attempt.reason), folder)
            score = done.score()
            speed = score.value("throughput")
            if speed is None:
                left_out.append(f"{run.id} {case.id} round {ref.round}: it has no speed: {say(score.reason)}")
                continue
            # They become names of files: what came in with an import is not trusted to be one.
            model = clean(str(case.params.get("model", _MODELS.get(case.workload, case.workload))))
            dtype = clean(str(case.params["dtype"])) if "dtype" in case.params else None
            size = f"{case.id.nnodes}n{case.id.nproc}g"
            own = Speed(model, size, 1, batch, dtype, round(speed, 2))
            yield _Log(own, case.id.framework, case.id.workload, _text(run, folder, case))


def _text(run: RunDir, folder: Path, case: CasePlan) -> Path | None:
    """The log of a round: the imported file, or what rank 0 printed."""
    raw = next((found["raw"] for found in events.results(folder) if found.get("raw")), None)
    file = run.path / RAW / raw if raw else rank_log(node_dir(folder, case.nodes[0].host, 0), 0)
    return file if file.is_file() else None


def _log(path: Path, log: _Log) -> Path | None:
    """`logs_fp32/pytorch/resnet50/bz128/1n8g/rn50_b128_fp32_1.log`."""
    if log.text is None:
        return None
    speed = log.speed
    dtype = speed.dtype or "fp32"
    folder = path / f"logs_{dtype}" / log.framework / log.workload / f"bz{speed.batch}" / speed.case
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{speed.model}_b{speed.batch}_{dtype}_{speed.repeat}.log"
    shutil.copyfile(log.text, file)
    return file
