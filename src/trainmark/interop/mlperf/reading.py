"""`:::MLLOG` → events. Each log is one round; rounds of one benchmark on one system are one case."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from trainmark.interop.reading.records import (
    UNKNOWN,
    Begin,
    CaseFields,
    End,
    Flag,
    Item,
    Kept,
    LoggedEvent,
    Missing,
    clean,
    tidy,
)
from trainmark.interop.reading.source import Lines
from trainmark.spec.case_id import CaseId
from trainmark.spec.states import JobState

MARK = ":::MLLOG"
_ANY = ":::ML"  # of any version
# Of version 0.7 and later; of 0.6; of 0.5, which tells the benchmark in every line.
_NEW = re.compile(r":::MLLOG (.*)")
_MLL = re.compile(r":::MLL (\d+(?:\.\d+)?) ([\w.]+):? ?(.*)")
_MLP = re.compile(r":::MLPv[\d.]+ (\S+) (\d+(?:\.\d+)?) \([^)]*\) ([\w.]+):? ?(.*)")
# A value of 0.5 that is told after its key: `[id][time][value]`; its first line says `DEFERRED`.
_DEFERRED = re.compile(r":::MLPv[\d.]+ \[[\w-]+\]\[[\d.]+\]\[")
# What version 0.5 calls otherwise.
_OLD_KEYS = {"input_batch_size": "global_batch_size", "train_epoch": "epoch_start"}
_MS = 1_000_000
_MOST_MS = 9_000_000_000_000
_MOST = 10**15
_JSON = json.JSONDecoder()
# Their names of benchmarks and ours.
WORKLOADS = {"resnet": "resnet50"}
_UNITS = {"resnet": "images", "ssd": "images", "retinanet": "images", "bert": "sequences"}
_STEPS = ("block_stop", "epoch_stop")
_NOT_TOLD = ("times of single steps", "device memory, power and utilisation", "package versions")


def read(files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
    systems: dict[str, dict[str, Any]] = {}
    for file in files:
        if file.name.endswith(".json"):
            yield from _system(file, systems)
    for file in files:
        if not file.name.endswith(".json"):
            yield from _LogReader(file, systems, options).items()
    for what in _NOT_TOLD:
        yield Missing(what)


def _system(file: Kept, systems: dict[str, dict[str, Any]]) -> Iterator[Item]:
    if file.size > 1 << 20:
        yield Flag("system description", file.name, "larger than any description can be")
        return
    try:
        found = msgspec.json.decode(file.path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        yield Flag("system description", file.name, f"no JSON: {error}")
        return
    if isinstance(found, dict):
        stem = file.name.rpartition("/")[2].removesuffix(".json")
        systems[stem] = found
        systems.setdefault(str(found.get("system_name", stem)), found)


class _LogReader:
    def __init__(self, file: Kept, systems: Mapping[str, dict[str, Any]], options: Mapping[str, Any]) -> None:
        self._file, self._systems, self._options = file, systems, options
        # The last value of every key that stands alone.
        self._said: dict[str, Any] = {}
        self._samples, self._step, self._t = 0.0, 0, 0
        self._status = ""
        self._waiting: list[LoggedEvent] = []
        self._begun = False
        self._started: int | None = None
        self._second = False

    def items(self) -> Iterator[Item]:
        lines = Lines(self._file)
        for _, text in lines:
            at = text.find(_ANY)
            if at < 0:
                continue
            if _DEFERRED.match(text, at):
                lines.take()
                continue
            record = _record(text[at:])
            wrong = record if isinstance(record, str) else self._odd(record)
            if isinstance(record, str):
                lines.flag("broken line", record)
            elif wrong:
                lines.flag(*wrong)
            else:
                lines.take()
                yield from self._take(record)
            yield from lines.said()
        if not self._begun and self._waiting:
            yield from self._begin()
        yield from lines.said()
        yield lines.counted()
        if self._begun:
            yield self._end()
        else:
            yield Flag("no log", self._file.name, "no line of MLLOG in it")

    def _odd(self, record: dict[str, Any]) -> tuple[str, str] | None:
        """Why a record is not taken: kind and text."""
        key, t = record["key"], record["time_ms"] * _MS
        if self._second or (self._status and key in ("init_start", "run_start", "submission_benchmark")):
            self._second = True
            return "second run", "training begins anew in the same file; import its part by itself"
        if key == "run_start":
            self._started = t
        late = key in ("run_stop", *_STEPS)
        if late and self._started is not None and t < max(self._started, self._t):
            return (
                "time backwards",
                f"{key} lies {(max(self._started, self._t) - t) / 1e9:g} s before what came before it",
            )
        value = record.get("value")
        if key == "global_batch_size" and (_real(value) or 0) <= 0:
            return "odd number", f"a batch of {tidy(value)} samples"
        return None

    def _take(self, record: dict[str, Any]) -> Iterator[Item]:
        key, value, t = record["key"], record.get("value"), record["time_ms"] * _MS
        raw = record.get("metadata")
        metadata = raw if isinstance(raw, dict) else {}
        if isinstance(record.get("benchmark"), str):
            self._said.setdefault("submission_benchmark", record["benchmark"])
        if isinstance(value, str | int | float | bool) and len(str(value)) < 1000:
            self._said.setdefault(key, value)
        told = list(self._told(key, value, t, metadata))
        if self._begun:
            yield from told
        else:
            # What the case is may be told after the first events.
            self._waiting += told
            if key == "run_start" or len(self._waiting) > 1000:
                yield from self._begin()

    def _begin(self) -> Iterator[Item]:
        self._begun = True
        yield Begin(self._case(), self._file.name, "log", raw=self._file.sha256)
        yield from self._waiting
        self._waiting = []

    def _told(self, key: str, value: Any, t: int, metadata: dict[str, Any]) -> Iterator[LoggedEvent]:
        simple = {"init_stop": "INIT_END", "run_start": "TRAIN_START"}
        if key == "init_start":
            # Settings may be logged before it; a rank's first event is this one.
            if not self._begun and not (self._waiting and self._waiting[0].k == "INIT_START"):
                self._waiting.insert(0, LoggedEvent("INIT_START", t))
        elif key in simple:
            yield LoggedEvent(simple[key], t)
        elif key == "eval_start":
            yield LoggedEvent("PHASE_BEGIN", t, {"name": "evaluate"})
        elif key == "eval_stop":
            yield LoggedEvent("PHASE_END", t, {"name": "evaluate"})
        elif key == "eval_accuracy":
            figure = _real(value)
            yield LoggedEvent(
                "EVALUATE", t, {"step": self._step, "values": {} if figure is None else {"accuracy": figure}}
            )
        elif key in _STEPS:
            yield from self._block(t, metadata)
        elif key == "run_stop":
            self._status = str(metadata.get("status", ""))[:80] or "unknown"
            yield LoggedEvent("TRAIN_END", t)
            yield LoggedEvent(
                "FINISHED", t, {"values": {"converged": self._status == "success", "status": self._status}}
            )
        elif key == "tracked_stats":
            yield LoggedEvent("NOTE", t, {"name": "tracked_stats", "value": tidy([value, metadata])})
        else:
            yield LoggedEvent("NOTE", t, {"name": tidy(key[:80]), "value": tidy(value)})

    def _block(self, t: int, metadata: dict[str, Any]) -> Iterator[LoggedEvent]:
        """The steps of a block, when how many samples it had is told."""
        samples, batch = self._until(metadata), _real(self._said.get("global_batch_size"))
        if samples is None or not self._samples < samples < _MOST or t < self._t:
            return
        size = batch if batch and batch > 0 else max(1.0, samples - self._samples)
        step = max(self._step + 1, round(samples / size))
        yield LoggedEvent("STEP_END", t, {"step": step, "n": max(1, round(samples - self._samples))})
        yield LoggedEvent("BLOCK", t, {"step": step})
        self._samples, self._step, self._t = samples, step, t

    def _until(self, metadata: dict[str, Any]) -> float | None:
        """Samples trained when a block or epoch ends."""
        if (count := _real(metadata.get("samples_count"))) is not None:
            return count
        each = _real(self._said.get("train_samples"))
        last = _real(metadata.get("epoch_num"))
        if last is None and (first := _real(metadata.get("first_epoch_num"))) is not None:
            last = first + (_real(metadata.get("epoch_count")) or 1) - 1
        return each * last if each is not None and last is not None else None

    def _case(self) -> CaseFields:
        if self._options.get("case"):
            found = CaseId.parse(self._options["case"])
            return CaseFields(found.workload, found.framework_text, found.nnodes, found.nproc, found.device)
        benchmark = str(self._said.get("submission_benchmark", UNKNOWN))
        platform = str(self._said.get("submission_platform", UNKNOWN))
        folders = self._file.name.split("/")
        system = self._systems.get(platform) or next(
            (self._systems[name] for name in reversed(folders[:-1]) if name in self._systems), {}
        )
        device = str(system.get("accelerator_model_name") or platform)
        framework = re.split(r"[\s,]", str(system.get("framework") or UNKNOWN).strip())[0].lower()
        batch = _real(self._said.get("global_batch_size"))
        params: dict[str, Any] = {"batch": int(batch)} if batch and 0 < batch < _MOST else {}
        # Systems with the same accelerators are still different systems, and so are those of other submitters.
        params |= self._place(folders, platform)
        fields = CaseFields(
            clean(WORKLOADS.get(benchmark, benchmark)),
            clean(framework).replace("_", "-"),
            _count(system.get("number_of_nodes")),
            _count(system.get("accelerators_per_node")),
            clean(device),
            _UNITS.get(benchmark, "samples"),
            params,
        )
        return CaseFields(UNKNOWN, UNKNOWN, 1, 1) if fields.trouble() else fields

    def _place(self, folders: list[str], platform: str) -> dict[str, str]:
        """Whose system it was: <submitter>/results/<system>/<benchmark>/, else what the log says."""
        found = {"submitter": str(self._said.get("submission_org", "")), "system": platform}
        if "results" in folders[:-2]:
            at = len(folders) - 1 - folders[::-1].index("results")
            found["system"] = folders[at + 1]
            found["submitter"] = folders[at - 1] if at else self._file.above or found["submitter"]
        named = {name: clean(value)[:60] for name, value in found.items() if value}
        return {name: value for name, value in named.items() if value != UNKNOWN}

    def _end(self) -> End:
        if self._status == "success":
            return End(JobState.SUCCEEDED)
        reason = f"run_stop with status `{tidy(self._status)}`" if self._status else "no run_stop"
        return End(JobState.FAILED, reason)


def _record(text: str) -> dict[str, Any] | str:
    """The record of a line of any version, or why it is none."""
    if old := _MLL.match(text) or _MLP.match(text):
        *benchmark, seconds, key, rest = old.groups()
        found: Any = _old(key, rest, benchmark[0] if benchmark else None)
        when: Any = float(seconds) * 1000
    else:
        new = _NEW.match(text)
        try:
            found, _ = _JSON.raw_decode(new[1].strip()) if new else ([], 0)
        except (ValueError, RecursionError):
            return text[:80]
        if not isinstance(found, dict) or not isinstance(found.get("key"), str):
            return f"no key: {text[:80]}"
        when = found.get("time_ms")
    if isinstance(when, bool) or not isinstance(when, int | float) or not 0 < when < _MOST_MS:
        return f"no time_ms: {text[:80]}"
    return {**found, "time_ms": int(when)}


def _old(key: str, rest: str, benchmark: str | None) -> dict[str, Any]:
    """A record of version 0.5 or 0.6, as later ones have it."""
    try:
        value, _ = _JSON.raw_decode(rest.strip())
    except (ValueError, RecursionError):
        value = rest.strip() or None
    metadata: dict[str, Any] = {}
    if isinstance(value, dict):
        told = value.get("metadata")
        metadata = {**value, **(told if isinstance(told, dict) else {})}
        value = value.get("value")
    if "epoch" in metadata:
        metadata.setdefault("epoch_num", metadata["epoch"])
    if benchmark is not None:
        key = _OLD_KEYS.get(key, key)
        if key == "run_stop" and "success" in metadata:
            metadata["status"] = "success" if metadata["success"] else "aborted"
    found = {"key": key, "value": value, "metadata": metadata}
    return {**found, "benchmark": benchmark} if benchmark is not None else found


def _real(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
    return float(value) if good else None


def _count(value: Any) -> int:
    """A number in a description, where all values are texts."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 7 and int(text) > 0 else 1
