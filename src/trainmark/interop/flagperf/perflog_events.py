"""PerfLog records → events. One `EventMaker` follows the log of one rank."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from trainmark.interop.flagperf.perflog import MARK, UNKNOWN
from trainmark.interop.reading.records import LoggedEvent, number, tidy

MS = 1_000_000
# A time, a step or a number of samples beyond these is a broken number.
MOST_MS = 9_000_000_000_000
MOST = 10**12
PLAIN_EVENTS = ("INIT_END", "TRAIN_START", "TRAIN_END", "EPOCH_BEGIN", "EPOCH_END")
EVALUATIONS = ("INIT_EVALUATION", "EVALUATE")
_JSON = json.JSONDecoder()

# How samples are known: a running total, a number with each step, a batch given by the user, or not at all.
Counting = Literal["total", "n", "batch", "steps"]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One STEP_END."""

    step: int
    t_ms: int
    total: int
    n: int
    loss: float


class Odd(Exception):
    """A record that is not taken, and why."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text, self.line = kind, text, 0


def records(payload: bytes) -> list[dict[str, Any]]:
    """The objects behind the marks of one line. Text after an object is what another process wrote into the line."""
    found = []
    for part in payload.split(MARK):
        text = part.decode(errors="replace").strip()
        try:
            record, _ = _JSON.raw_decode(text)
        except (ValueError, RecursionError):
            raise Odd("broken line", text[:80]) from None
        if not isinstance(record, dict) or not isinstance(record.get("event"), str):
            raise Odd("broken line", f"no event: {text[:80]}")
        found.append(record)
    return found


def row(record: dict[str, Any]) -> Row:
    """A STEP_END that was read with patience."""
    raw = record.get("value")
    value = raw if isinstance(raw, dict) else {}
    step = _whole(value, "global_steps", "step")
    loss = value.get("loss")
    good = isinstance(loss, int | float) and not isinstance(loss, bool) and abs(loss) < 1e300
    real = float(loss) if good else math.nan  # type: ignore[arg-type]
    return Row(step, time_ms(record), _whole(value, "num_trained_samples"), _whole(value, "samples"), real)


def time_ms(record: dict[str, Any]) -> int:
    metadata = record.get("metadata")
    return _whole(metadata, "time_ms") if isinstance(metadata, dict) else UNKNOWN


def _whole(values: dict[str, Any], *names: str) -> int:
    for name in names:
        value = values.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 62:
            return int(value)
    return UNKNOWN


class EventMaker:
    """Turns the records of one rank's log into events of the rank that speaks for the round.

    `leads`: the log is that rank's own. Others repeat it; only their FINISHED is kept, as a note called `aside`.
    """

    def __init__(
        self, rank: int, node: int, leads: bool, counting: Counting, factor: float, aside: str = "FINISHED"
    ) -> None:
        self.finished: dict[str, Any] | None = None
        self.first_t: int | None = None
        self.repeated = 0
        self.step = 0
        self._rank, self._node = rank, node
        self._leads, self._counting, self._factor = leads, counting, factor
        self._aside = aside
        self._total, self._t = 0, -1

    def step_end(self, one: Row, told_loss: Any = None) -> Iterator[LoggedEvent]:
        """`told_loss`: a loss that is told and no finite number."""
        if not 0 < one.t_ms < MOST_MS or not 0 < one.step < MOST:
            raise Odd("odd number", f"step {one.step} at {one.t_ms} ms")
        t = one.t_ms * MS
        if not self._leads:
            self.repeated += 1
            return
        if one.step <= self.step:
            raise Odd("step backwards", f"step {one.step} after step {self.step}")
        if t < self._t:
            raise Odd("time backwards", f"{(self._t - t) / 1e9:g} s before the line above")
        samples = self._samples(one)
        if not 1 <= samples <= MOST:
            raise Odd("odd number", f"{samples} samples in {one.step - self.step} step(s)")
        self._total, self.step = one.total, one.step
        more: dict[str, Any] = {"step": one.step, "n": samples}
        if told_loss is not None:
            more["loss"] = told_loss
        elif one.loss == one.loss:
            more["loss"] = number(one.loss)
        yield self._told("STEP_END", t, more)
        yield self._told("BLOCK", t, {"step": one.step})

    def _samples(self, one: Row) -> int:
        if self._counting == "total":
            return round((one.total - self._total) * self._factor) if one.total != UNKNOWN else 0
        if self._counting == "n":
            return one.n
        return round((one.step - self.step) * self._factor)

    def other(self, record: dict[str, Any]) -> Iterator[LoggedEvent]:
        """Every event but a step."""
        event, when = record["event"], time_ms(record)
        t = when * MS if 0 < when < MOST_MS else max(self._t, 0)
        if event == "FINISHED":
            yield from self._finish(t, record.get("value"))
        elif not self._leads:
            self.repeated += 1
        elif event == "INIT_START":
            if self.step or self.finished is not None:
                raise Odd("second run", "training begins anew in the same file; import its part by itself")
            if self.first_t is None:
                yield self._told(event, t)
        elif event in PLAIN_EVENTS:
            epoch = record.get("epoch")
            yield self._told(event, t, {"epoch": epoch} if isinstance(epoch, int) and abs(epoch) < MOST else {})
        elif event in EVALUATIONS:
            yield from self._evaluation(event, t, record.get("value"))
        else:
            rest = {key: value for key, value in record.items() if key not in ("event", "metadata")}
            yield self._told("NOTE", t, {"name": f"perflog {tidy(event[:80])}", "value": tidy(rest)})

    def _finish(self, t: int, value: Any) -> Iterator[LoggedEvent]:
        if self.finished is not None:
            raise Odd("second FINISHED", "this rank had finished already")
        self.finished = value if isinstance(value, dict) else {}
        if self._leads:
            yield self._told("FINISHED", t, {"values": tidy(self.finished)})
        else:
            yield self._told("NOTE", t, {"name": self._aside, "value": tidy(self.finished)})

    def _evaluation(self, event: str, t: int, value: Any) -> Iterator[LoggedEvent]:
        values = value if isinstance(value, dict) else {}
        took = values.get("time")
        if event == "EVALUATE" and isinstance(took, int | float) and 0 < took < MOST_MS / 1000:
            # Only how long it took is told, not when it began.
            yield self._told("PHASE_BEGIN", max(self._t, t - round(took * 1e9), 0), {"name": "evaluate"})
            yield self._told("PHASE_END", t, {"name": "evaluate"})
        step = _whole(values, "global_steps")
        told = {key: inner for key, inner in values.items() if key != "global_steps"}
        yield self._told(event, t, {"step": step if step >= 0 else self.step, "values": tidy(told)})

    def _told(self, kind: str, t: int, more: dict[str, Any] | None = None) -> LoggedEvent:
        if self.first_t is None:
            self.first_t = t
        self._t = max(self._t, t)
        return LoggedEvent(kind, t, more or {}, self._rank, self._node)
