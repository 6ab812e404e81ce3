"""Runs as DLPerf would show them: its JSON, its table, and logs under the names it gives them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.interop.dlperf import own_log
from trainmark.interop.dlperf.result import Speed, result
from trainmark.interop.reading.records import clean
from trainmark.interop.reading.writer import RAW
from trainmark.interop.writing.runs import Done, rounds
from trainmark.report.build import build
from trainmark.report.figures import flag_codes
from trainmark.report.make.dlperf import table
from trainmark.report.records import RunReport
from trainmark.report.render.escape import flat
from trainmark.store import events
from trainmark.store.files import write_whole
from trainmark.store.rundir import RunDir

# DLPerf's own words for them.
_MODELS = {"resnet50": "rn50"}


class _Log(msgspec.Struct, frozen=True):
    """One round as a log of DLPerf."""

    speed: Speed
    framework: str
    workload: str
    text: bytes | None


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
    write_whole(
        page, "\n".join(f"{model}\n\n{table(cells)}{_marks(cells)}" for model, cells in content.items()).encode()
    )
    return [data, page]


def _marks(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """What the report says against figures of the table, below it."""
    marked = [f"- {case}: {one['flags']}\n" for case, one in cells.items() if one.get("flags")]
    return "".join(["\n", *marked]) if marked else ""


def _logs(run: RunDir, left_out: list[str]) -> Iterator[_Log]:
    """Speeds and flags are the report's: what it withholds is left out, what it marks is marked."""
    shown = {case.case: case for case in build(run).cases}
    for done in rounds(run):
        case = done.case
        batch = case.params.get("batch")
        if not isinstance(batch, int):
            left_out.append(f"{run.id} {case.id}: its `batch` is not known")
            continue
        report = shown[case.case]
        found = next((one for one in report.runs if one.round == done.round), None)
        if found is None or found.throughput is None:
            why = say(found.reason if found and found.reason else None) or done.fault or done.reason
            left_out.append(f"{run.id} {case.id} round {done.round}: it has no speed: {why}")
            continue
        # They become names of files: what came in with an import is not trusted to be one.
        model = clean(str(case.params.get("model", _MODELS.get(case.workload, case.workload))))
        dtype = clean(str(case.params["dtype"])) if "dtype" in case.params else None
        size = f"{case.id.nnodes}n{case.id.nproc}g"
        own = Speed(model, size, 1, batch, dtype, round(found.throughput, 2), flags=flag_codes(report.flags))
        yield _Log(own, case.id.framework, case.id.workload, _text(run, done, found))


def _text(run: RunDir, done: Done, found: RunReport) -> bytes | None:
    """The log of a round: the imported file, or one made of its events."""
    raw = next((one["raw"] for one in events.results(done.folder) if one.get("raw")), None)
    if raw:
        file = run.path / RAW / raw
        return file.read_bytes() if file.is_file() else None
    if found.window_first is None or found.window_last is None:
        return None
    made = own_log.text(done, found.window_first, found.window_last, flag_codes(found.flags))
    return None if made is None else made.encode()


def _log(path: Path, log: _Log) -> Path | None:
    """`logs_fp32/pytorch/resnet50/bz128/1n8g/rn50_b128_fp32_1.log`."""
    if log.text is None:
        return None
    speed = log.speed
    dtype = speed.dtype or "fp32"
    folder = path / f"logs_{dtype}" / log.framework / log.workload / f"bz{speed.batch}" / speed.case
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{speed.model}_b{speed.batch}_{dtype}_{speed.repeat}.log"
    file.write_bytes(log.text)
    return file
