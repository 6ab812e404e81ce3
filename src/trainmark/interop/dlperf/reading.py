"""One log of DLPerf: recognised, read once, and given both as events and as a speed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainmark.errors import UserError
from trainmark.interop.dlperf import names, own_log
from trainmark.interop.dlperf.meter import Meter
from trainmark.interop.dlperf.result import Speed
from trainmark.interop.dlperf.scripts import BY_SCRIPT, TABLE, Crash, DlPerfJob, Script
from trainmark.interop.reading.patterns import LineReader
from trainmark.interop.reading.records import (
    UNKNOWN,
    Begin,
    CaseFields,
    End,
    Flag,
    Item,
    Kept,
    LoggedEvent,
    Verbatim,
    clean,
    number,
    tidy,
    wrong_loss,
)
from trainmark.interop.reading.source import Lines
from trainmark.interop.reading.steps import Follower, Odd, Progress
from trainmark.spec.case_id import Value
from trainmark.spec.states import JobState

# A log that shows no record in so many lines is of no kind we know.
_LOOK = 20_000
_ENOUGH = 2
_AUC = re.compile(r"AUC: *(\d+\.?\d*)")
_MODELS = ("arcface", "partialfc", "insightface", "wide-deep")


def recognise(file: Kept, model: str) -> Script | None:
    """The kind of a log, told from its first records; twins that read the same lines are told by their first name."""
    readers = {script.name: LineReader(script.pattern) for script in TABLE if not script.name.endswith("-time")}
    seen = dict.fromkeys(readers, 0)
    # hugectr-losses reads the lines of hugectr-wdl: only by name.
    del readers["hugectr-losses"]
    for at, text in Lines(file):
        for name, reader in readers.items():
            found = reader.read(text)
            if found is not None and (found.step is not None or not reader.pattern.context):
                seen[name] += 1
                if seen[name] >= _ENOUGH:
                    return BY_SCRIPT[name]
        if at > _LOOK:
            break
    best = max(seen, key=lambda name: (seen[name], BY_SCRIPT[name].workload[:2] == model[:2]))
    return BY_SCRIPT[best] if seen[best] else None


class Window:
    """Our own speed: all samples of the window ÷ all its time."""

    def __init__(self, warmup: int, train: int) -> None:
        self._warmup, self._train = warmup, train
        self._samples, self._seconds = 0, 0.0

    def add(self, one: Progress) -> None:
        if one.seconds is not None and one.step - one.steps >= self._warmup and one.step <= self._train:
            self._samples += one.samples
            self._seconds += one.seconds

    def speed(self) -> float | None:
        return round(self._samples / self._seconds, 2) if self._seconds > 0 else None


class LogReader:
    """Gives the items of one log; `speed` is there when they are all taken."""

    def __init__(self, file: Kept, options: Mapping[str, Any], told: set[str]) -> None:
        self.speed: Speed | None = None
        self.group = ""
        self.verbatim: list[Verbatim] = []
        self._file, self._options, self._told = file, options, told
        self._own: own_log.Head | None = None
        # Of HugeCTR: each evaluation's AUC with the loss before it.
        self._pairs: list[tuple[str, str]] = []
        # Where a loss first was no finite number.
        self._wrong: str | None = None

    def items(self) -> Iterator[Item]:
        name = names.parse(self._file, self._options)
        if isinstance(name, str):
            yield Flag("no case", self._file.name, name)
            return
        self.group = name.group
        self._own = self._head()
        script = self._own.script() if self._own else self._script(name.model)
        if script is None:
            yield Flag("unknown log", self._file.name, "no line of a known kind in it; name it with --variant")
            return
        if name.batch is None:
            text = "its name is not MODEL_bN_DTYPE_REPEAT.log; say --batch-size-per-device"
            yield Flag("no batch", self._file.name, text)
            return
        job = DlPerfJob(name.batch, name.nodes, name.cards, self._own.samples if self._own else None)
        case = self._case(name, script, job)
        if trouble := case.trouble():
            yield Flag("no such case", self._file.name, trouble)
            return
        yield from self._about(script)
        yield from self._round(name, script, job, case)

    def _head(self) -> own_log.Head | None:
        """Of a log that `export dlperf` wrote, unless another kind is asked for."""
        first = next((text for _, text in Lines(self._file)), "")
        return None if self._options.get("variant") else own_log.head_of(first)

    def _script(self, model: str) -> Script | None:
        chosen = self._options.get("variant")
        return BY_SCRIPT[chosen] if chosen else recognise(self._file, model)

    def _about(self, script: Script) -> Iterator[Flag]:
        """Once for each kind: that it has a twin."""
        twin = f"{script.name}-time"
        if twin in BY_SCRIPT and not self._options.get("variant") and twin not in self._told:
            self._told.add(twin)
            text = f"read as `{script.name}`; DLPerf has also `{twin}` for such logs, to be named with --variant"
            yield Flag("twin", self._file.name, text)

    def _edges(self, script: Script) -> tuple[int, int]:
        warmup, train = self._options.get("warmup_batches"), self._options.get("train_batches")
        warmup, train = script.warmup if warmup is None else warmup, script.train if train is None else train
        if not 0 <= warmup < train:
            allowed = "the first must be 0 or more and below the second"
            raise UserError(f"--warmup-batches {warmup} --train-batches {train}: {allowed}")
        return warmup, train

    def _round(self, name: names.Name, script: Script, job: DlPerfJob, case: CaseFields) -> Iterator[Item]:
        warmup, train = self._edges(script)
        meter, window = Meter(script, warmup, train, job), Window(warmup + script.shift, train + script.shift)
        train += script.shift
        follower, reader, lines = (
            Follower(script.pattern, job.samples, job.ranks),
            LineReader(script.pattern),
            Lines(self._file),
        )
        begun, at, loss = False, 0, None
        last: list[str] = []
        for _, text in lines:
            meter.line(text)
            found = reader.read(text)
            if found is None and begun and self._own and (edge := own_log.phase_of(text)):
                lines.take()
                yield edge
                continue
            if found is None:
                last = [*last[-4:], text[:200]]
                if begun and script.result == "losses" and (auc := _AUC.search(text)):
                    lines.take()
                    self._pairs.append((str(loss), auc[1]))
                    yield LoggedEvent("EVALUATE", at, {"step": follower.step, "values": {"auc": float(auc[1])}})
                continue
            taken = follower.take(found) if not lines.torn else Odd("torn line", "the last line has no end")
            if isinstance(taken, Odd):
                lines.flag(taken.kind, taken.text)
                yield from lines.said()
                continue
            lines.take()
            if not begun:
                begun = True
                yield Begin(case, self._file.name, follower.timing, raw=self._file.sha256)
            window.add(taken)
            at, loss = round(taken.at * 1e9), taken.loss
            for event in _told(taken, at):
                self._wrong = self._wrong or wrong_loss(event)
                yield event
        yield from lines.said()
        yield lines.counted()
        if not begun:
            yield Flag("no steps", self._file.name, f"no record of `{script.name}` in it")
            return
        yield from self._remarks(follower)
        yield self._end(script, follower, train, last)
        yield from self._measure(name, script, meter, window, follower.step >= train)

    def _case(self, name: names.Name, script: Script, job: DlPerfJob) -> CaseFields:
        params: dict[str, Value] = {"batch": job.batch}
        if name.speaking_dtype:
            params["dtype"] = name.speaking_dtype
        if script.workload in _MODELS:
            params["model"] = name.model
        device = self._options.get("device") or UNKNOWN
        unit = {"unit": clean(self._own.unit)} if self._own else {}
        return CaseFields(script.workload, script.framework, name.nodes, name.cards, device, params=params, **unit)

    def _remarks(self, follower: Follower) -> Iterator[Flag]:
        place = self._file.name
        if self._own and self._own.flags:
            yield Flag("marked", place, f"the report that it comes from says: {tidy(self._own.flags)}")
        if follower.midnights:
            text = "the log passes midnight and holds no dates; DLPerf's own number for it is negative"
            yield Flag("midnight", place, text)
        if follower.repeats:
            text = (
                f"{follower.repeats} line(s) of steps already seen: several ranks print; DLPerf may count them as steps"
            )
            yield Flag("mixed ranks", place, text)

    def _end(self, script: Script, follower: Follower, train: int, last: list[str]) -> End:
        if follower.step >= train or script.result != "speed":
            return End(JobState.SUCCEEDED)
        reason = f"truncated log: its last step is {follower.step}, the window ends at {train}"
        return End(JobState.FAILED, reason, tuple(last))

    def _measure(self, name: names.Name, script: Script, meter: Meter, window: Window, whole: bool) -> Iterator[Flag]:
        place, theirs = self._file.name, None
        try:
            theirs = meter.speed()
        except Crash as crash:
            yield Flag("truncated log", place, f"DLPerf's script ends with an error here: {crash}")
        else:
            if script.result == "speed" and (not whole or theirs is None or not theirs > 0):
                shown = "passes it over" if theirs is None else f"records {theirs} for it"
                yield Flag("truncated log", place, f"the window is not all there; DLPerf's script {shown}")
        if theirs is not None and not math.isfinite(theirs):
            theirs = None
        stem = place.rpartition("/")[2].partition(".")[0]
        if script.result == "latency":
            self.verbatim.append(Verbatim(f"{stem}_latency.json", {"latency": theirs}, f"{stem} latency {theirs} ms\n"))
        elif script.result == "losses":
            text = "".join(f"{loss} {auc}\n" for loss, auc in self._pairs)
            self.verbatim.append(Verbatim(f"{stem}.losses_aucs", self._pairs, text))
        if script.result != "speed":
            return
        if self._wrong:
            yield Flag("wrong result", place, f"{self._wrong}: it has no speed, though DLPerf's script records one")
        ours = window.speed() if whole else None
        speed = None if self._wrong else theirs if self._options.get("method") == "dlperf" else ours
        self.speed = Speed(name.model, name.case, name.repeat, name.batch, name.speaking_dtype, speed, script.digits)


def _told(one: Progress, at: int) -> Iterator[LoggedEvent]:
    more: dict[str, Any] = {"step": one.step, "n": one.samples}
    if one.loss is not None:
        more["loss"] = number(one.loss)
    if one.rate is not None:
        more["rate"] = number(one.rate)
    yield LoggedEvent("STEP_END", at, more)
    # Where the clock can be trusted; single steps between two such lines have no times of their own.
    yield LoggedEvent("BLOCK", at, {"step": one.step})
