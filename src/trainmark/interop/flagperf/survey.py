"""A first look into a log, before it is read: what kind it is, and what its beginning and end tell of the rest."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from trainmark.interop.flagperf.perflog import MARK, UNKNOWN
from trainmark.interop.flagperf.perflog_events import Counting, Odd, records, row
from trainmark.interop.reading import source
from trainmark.interop.reading.patterns import LineReader
from trainmark.interop.reading.patterns import get as pattern
from trainmark.interop.reading.records import Kept

_EDGE = 1 << 18
_CHUNK = 1 << 20
_LAST_LINES = 20
# Of the LLM cases, which write no PerfLog.
_TEXTS = ("megatron-lm", "deepspeed", "paddlenlp", "mindformers", "nemo", "torchtitan")


class Survey(msgspec.Struct):
    perflog: bool = False
    steps: bool = False
    # Name of the pattern of a text log.
    pattern: str = ""
    finished: dict[str, Any] = {}
    # Names of what its steps tell, and the last running total of samples.
    keys: list[str] = []
    counting: Counting = "steps"
    last_total: int = 0
    # Its last lines that are no PerfLog.
    ending: list[str] = []


def survey_log(file: Kept) -> Survey:
    found = Survey(finished={}, keys=[], ending=[])
    head, tail = _edges(file, found)
    for edge in (head, tail):
        for line in edge.split(b"\n"):
            at = line.find(MARK)
            if at >= 0:
                _learn(found, line[at + len(MARK) :])
    found.ending = [line.decode(errors="replace")[:200] for line in tail.split(b"\n") if line and MARK not in line]
    found.ending = found.ending[-_LAST_LINES:]
    if not found.perflog:
        found.pattern = _recognise(head)
        found.steps = bool(found.pattern)
    return found


def _edges(file: Kept, found: Survey) -> tuple[bytes, bytes]:
    """The first and last part of a log; on the way, whether it holds PerfLog lines and steps."""
    head = tail = carried = b""
    try:
        packed = source.is_packed(file.path)
        with source.opened(file.path) as stream:
            while data := stream.read(_CHUNK):
                seen = carried + data
                found.perflog = found.perflog or MARK in seen
                found.steps = found.steps or (found.perflog and b'"STEP_END"' in seen)
                carried = data[-16:]
                head = head or data[:_EDGE]
                tail = (tail + data)[-_EDGE:]
                if found.steps and file.size > 4 * _CHUNK and not packed:
                    # All that is left to know stands at the end.
                    stream.seek(max(stream.tell(), file.size - _EDGE - 16))
    except (EOFError, OSError, zlib.error):
        pass  # Said when it is read.
    # The first line of the tail may be a half.
    return head, tail.partition(b"\n")[2] if len(tail) == _EDGE else tail


def _learn(found: Survey, payload: bytes) -> None:
    try:
        told = records(payload)
    except Odd:
        return
    for record in told:
        value = record.get("value")
        if record["event"] == "FINISHED" and isinstance(value, dict):
            found.finished = found.finished or value
        elif record["event"] == "STEP_END" and isinstance(value, dict):
            step = row(record)
            if not found.keys:
                found.keys = [str(key) for key in value][:64]
                found.counting = "total" if step.total != UNKNOWN else "n" if step.n != UNKNOWN else "steps"
            found.last_total = max(found.last_total, step.total)


def _recognise(head: bytes) -> str:
    readers = [LineReader(pattern(name)) for name in _TEXTS]
    for line in head.decode(errors="replace").splitlines():
        for reader in readers:
            if reader.read(line) is not None:
                return reader.pattern.name
    return ""


def factor(survey: Survey, world: int) -> int:
    """`world` where the running total counts the samples of one device only (BERT), else 1."""
    values, last = survey.finished, survey.last_total
    totals = [values.get("num_trained_samples")]
    rate = next((value for key, value in values.items() if key.endswith("sequences_per_second")), None)
    spent = values.get("raw_train_time", values.get("train_time"))
    if isinstance(rate, int | float) and isinstance(spent, int | float):
        totals.append(rate * spent)
    for total in totals:
        if isinstance(total, int | float) and last > 0 and world > 1 and abs(total / last / world - 1) < 0.2:
            return world
    return 1
