"""One round of a FlagPerf run: the logs of its ranks, then what its monitors saw."""

from __future__ import annotations

import heapq
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainmark.interop.flagperf import monitors, perflog
from trainmark.interop.flagperf.paths import Log, Round, unit_of
from trainmark.interop.flagperf.perflog_events import EventMaker, Odd, Row, records, row
from trainmark.interop.flagperf.survey import Survey, factor, survey_log
from trainmark.interop.reading.patterns import LineReader
from trainmark.interop.reading.patterns import get as pattern
from trainmark.interop.reading.records import (
    UNKNOWN,
    Begin,
    Counted,
    End,
    Flag,
    Item,
    LoggedEvent,
    LoggedSample,
    Missing,
    number,
    tidy,
)
from trainmark.interop.reading.source import Lines
from trainmark.interop.reading.steps import Follower
from trainmark.interop.reading.steps import Odd as OddLine
from trainmark.spec.states import JobState

# What LLM cases print at their end.
_FIGURES = re.compile(
    r"\b(System tokens per second|Tokens/p/s|Theory TFLOPS|Tokens/TFLOPS|MFU)\s*:\s*([-+.\deE]+|nan|inf)"
)
_TWO_NUMBERS = re.compile(r"([\d.]+(?:[eE][-+]?\d+)?) ([\d.]+(?:[eE][-+]?\d+)?)")
_ITERATION = re.compile(r"iteration +(\d+)/ *(\d+) ")
_CAUSES = (
    ("out of memory", re.compile(r"out of memory|OutOfMemory|\bOOM\b", re.IGNORECASE)),
    ("a collective operation failed", re.compile(r"NCCL|ProcessGroup|collective", re.IGNORECASE)),
    ("an exception", re.compile(r"Traceback|Error\b")),
    ("it was killed", re.compile(r"\b[Kk]illed\b|SIGKILL")),
)


class RoundReader:
    """Gives the items of one round."""

    def __init__(self, one: Round, options: Mapping[str, Any]) -> None:
        self._round = one
        self._options = options
        self._fields = one.fields
        self._finished: list[tuple[str, dict[str, Any]]] = []
        self._first_t: int | None = None
        # Rank and node of the log whose steps are the round's: one record speaks for all ranks.
        self._speaker = (0, 0)
        # Whether the last iteration that was planned was done; None where a log does not say.
        self._whole: bool | None = None
        self._ending: tuple[str, ...] = ()

    def items(self) -> Iterator[Item]:
        fields = self._round.fields
        if trouble := fields.trouble():
            for log in self._round.logs:
                yield Flag("no case", log.file.name, f"not read: {trouble}")
            return
        logs, world = [], fields.nnodes * fields.nproc
        for log in self._round.logs:
            if log.node >= fields.nnodes or (log.rank or 0) >= world:
                size = f"{fields.nnodes} node(s) of {fields.nproc}"
                yield Flag("outside the case", log.file.name, f"the case has {size}; not read")
            else:
                logs.append(log)
        programs = sorted((log for log in logs if not log.monitor), key=lambda log: (log.node, self._rank_of(log)))
        ranked = [(log, survey_log(log.file)) for log in programs]
        if self._round.key == UNKNOWN and len(programs) == len(logs) and not any(_speaks(one) for _, one in ranked):
            for log in programs:
                yield Flag("no log", log.file.name, "no line of a training in it, and its path names no case")
            return
        lead = next((index for index, (_, survey) in enumerate(ranked) if survey.steps), 0)
        if ranked:
            self._speaker = self._rank_of(ranked[lead][0]), ranked[lead][0].node
        begin = self._begin(ranked[lead][1] if ranked else Survey(), logs)
        yield msgspec.structs.replace(begin, raw=ranked[lead][0].file.sha256 if ranked else "")
        for index, (log, survey) in enumerate(ranked):
            self._ending = self._ending or tuple(survey.ending)
            yield from self._rank(log, survey, index == lead)
        yield from self._sampled([log for log in logs if log.monitor])
        yield from self._agreement()
        yield self._end(bool(ranked))

    def _begin(self, survey: Survey, logs: list[Log]) -> Begin:
        hosts = {log.node: log.host for log in logs}
        unit = "steps"
        if survey.counting != "steps" or survey.pattern or self._options.get("batch"):
            unit = unit_of(self._fields.workload, [*survey.keys, *survey.finished])
        self._fields = msgspec.structs.replace(self._fields, unit=unit)
        named = tuple(hosts.get(node, f"node{node}") for node in range(self._fields.nnodes))
        timing = "derived" if survey.pattern and pattern(survey.pattern).clock == "rate" else "log"
        return Begin(self._fields, self._round.label, timing, hosts=named)

    def _rank_of(self, log: Log) -> int:
        return log.rank if log.rank is not None else log.node * self._fields.nproc

    def _rank(self, log: Log, survey: Survey, leads: bool) -> Iterator[Item]:
        if not survey.perflog:
            yield from self._text(log, survey, leads)
            return
        batch = self._options.get("batch")
        counting, scale = survey.counting, 1.0
        if counting == "steps" and batch:
            counting, scale = "batch", float(batch)
        elif counting == "total":
            scale = factor(survey, self._fields.nnodes * self._fields.nproc)
        if leads and counting == "steps" and survey.steps:
            yield Missing("samples of a step (say --batch): speeds are in steps")
        if leads and not survey.steps:
            yield Missing("steps: only FlagPerf's own figures, in the event FINISHED")
        if leads and scale > 1 and counting == "total":
            text = "its steps count the samples of one device, FINISHED those of all: multiplied"
            yield Flag("samples per device", log.file.name, text)
        events = EventMaker(*self._speaker, leads, counting, scale, f"FINISHED of rank {self._rank_of(log)}")
        yield from _perflog(log, events)
        self._hear(events.first_t)
        if events.finished is not None:
            self._finished.append((log.file.name, events.finished))

    def _hear(self, t: int | None) -> None:
        if t is not None and (self._first_t is None or t < self._first_t):
            self._first_t = t

    def _text(self, log: Log, survey: Survey, leads: bool) -> Iterator[Item]:
        """A log without PerfLog: lines of the training program, and the figures it prints at its end."""
        chosen = pattern(survey.pattern or "megatron-lm")
        reader, follower, lines = LineReader(chosen), Follower(chosen, self._options.get("batch")), Lines(log.file)
        figures: dict[str, Any] = {}
        own, at = log.file.name.endswith("flagscale_main.log.txt"), 0
        for _, text in lines:
            if found := _FIGURES.search(text):
                lines.take()
                figures[found[1]] = number(_real(found[2]))
            elif own and (two := _TWO_NUMBERS.fullmatch(text)):
                lines.take()
                figures.update(ave_steptime=number(_real(two[1])), tps=number(_real(two[2])))
            elif survey.pattern and (reading := reader.read(text)) is not None:
                taken = follower.take(reading) if leads else OddLine("other rank", "the steps of another log repeated")
                if isinstance(taken, OddLine):
                    lines.flag(taken.kind, taken.text)
                else:
                    lines.take()
                    at = round(taken.at * 1e9)
                    self._hear(at)
                    more = {"step": taken.step, "n": taken.samples}
                    told_loss = {} if taken.loss is None else {"loss": number(taken.loss)}
                    yield LoggedEvent("STEP_END", at, {**more, **told_loss}, *self._speaker)
                    yield LoggedEvent("BLOCK", at, {"step": taken.step}, *self._speaker)
                    self._count(text)
            yield from lines.said()
        yield from lines.said()
        yield lines.counted()
        if figures:
            self._finished.append((log.file.name, figures))
            yield LoggedEvent("FINISHED", at, {"values": tidy(figures)}, *self._speaker)

    def _count(self, text: str) -> None:
        if planned := _ITERATION.search(text):
            self._whole = planned[1] == planned[2]

    def _sampled(self, logs: list[Log]) -> Iterator[Item]:
        if not logs:
            yield Missing("power, memory and utilisation of devices")
        for log in logs:
            if not monitors.readable(log.monitor):
                yield Flag(
                    "monitor not read", log.file.name, f"`{log.monitor}` has no line format that can be relied on"
                )
        good = [log for log in logs if monitors.readable(log.monitor)]
        for node in sorted({log.node for log in good}):
            read = [(log, Lines(log.file)) for log in good if log.node == node]
            series = [monitors.read(log.monitor, lines) for log, lines in read]
            yield from self._node_samples(node, heapq.merge(*series, key=lambda seen: seen.seconds))
            for _, lines in read:
                yield from lines.said()
                yield lines.counted()

    def _node_samples(self, node: int, seen: Iterator[monitors.Seen]) -> Iterator[LoggedSample]:
        ahead: float | None = None
        second = 0
        values: dict[str, Any] = {}
        for one in seen:
            if ahead is None:
                ahead = self._ahead(one.seconds)
            if values and one.seconds != second:
                yield LoggedSample(round((second - ahead) * 1e9), values, node)
                values = {}
            second, values = one.seconds, {**values, **one.values}
        if values and ahead is not None:
            yield LoggedSample(round((second - ahead) * 1e9), values, node)

    def _ahead(self, first: int) -> float:
        """Seconds from the clock of the events to that of the monitors, which names no zone."""
        if self._first_t is None:
            return 0.0
        begun = self._first_t / 1e9
        return monitors.zone(first, begun) if begun > 1e8 else first - begun

    def _agreement(self) -> Iterator[Flag]:
        """Every node writes FINISHED: the first one counts, the others must say the same."""
        if not self._finished:
            return
        place, values = self._finished[0]
        if values.get("converged") is False:
            yield Flag("not converged", place, "FINISHED says that the target was not reached")
        for other, told in self._finished[1:]:
            if "converged" in values and told.get("converged") != values["converged"]:
                yield Flag("nodes disagree", other, f"converged is {told.get('converged')!r}, in {place} it is not")

    def _end(self, ranked: bool) -> End:
        if self._finished or self._whole:
            return End(JobState.SUCCEEDED)
        if not ranked:
            return End(JobState.FAILED, "no log of a rank")
        last = self._ending
        cause = next((what for what, sign in _CAUSES if any(sign.search(line) for line in last)), "")
        return End(JobState.FAILED, "no FINISHED" + (f": {cause}, by its last lines" if cause else ""), last)


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _perflog(log: Log, events: EventMaker) -> Iterator[Item]:
    """A log with PerfLog lines; every line is counted once."""
    place = log.file.name
    lines = taken = other = flagged = 0
    try:
        for block in perflog.blocks(log.file.path):
            bad: list[Flag] = []
            for item in _block(block, events):
                if isinstance(item, Odd):
                    bad.append(Flag(item.kind, f"{place}:{lines + item.line}" if item.line else place, item.text, 1))
                else:
                    yield item
            bad += [Flag("long line", f"{place}:{lines + at}", "too long, left out", 1) for at in block.long]
            yield from bad
            lines += block.lines
            other += block.other
            flagged += len(bad)
            taken += block.lines - block.other - len(bad)
    except (EOFError, zlib.error, OSError) as error:
        yield Flag("cut off", f"{place}:{lines}", f"the file ends early or is broken: {error}")
    if events.repeated:
        text = f"{events.repeated} record(s) of a rank that repeats what another tells of all: counted once"
        yield Flag("other rank", place, text)
    yield Counted(place, lines, taken, other, flagged)


def _block(block: perflog.Block, events: EventMaker) -> Iterator[LoggedEvent | Odd]:
    """Rows and other records in the order of the log."""
    columns, done = block.columns(), 0
    for before, line, payload in block.rare:
        yield from _rows(columns, done, before, events)
        done = before
        try:
            yield from _patiently(payload, events)
        except Odd as odd:
            odd.line = line
            yield odd
    yield from _rows(columns, done, len(columns[0]), events)


def _rows(columns: perflog.Columns, start: int, stop: int, events: EventMaker) -> Iterator[LoggedEvent | Odd]:
    for values in zip(*(column[start:stop] for column in columns), strict=True):
        try:
            yield from events.step_end(Row(*values))
        except Odd as odd:
            yield odd


def _patiently(payload: bytes, events: EventMaker) -> Iterator[LoggedEvent]:
    for record in records(payload):
        if record["event"] == "STEP_BEGIN":
            continue
        if record["event"] != "STEP_END":
            yield from events.other(record)
            continue
        value = record.get("value")
        loss = value.get("loss") if isinstance(value, dict) else None
        strange = isinstance(loss, float) and loss - loss != 0
        yield from events.step_end(row(record), number(loss) if strange else None)  # type: ignore[arg-type]


def _speaks(survey: Survey) -> bool:
    return survey.perflog or bool(survey.pattern)
