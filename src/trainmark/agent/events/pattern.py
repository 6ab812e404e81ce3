"""Makes events of what a program prints: a regular expression finds steps in the lines of its output as they come.

The node plan has the expression and the meaning of its groups. Where a line says how long its steps took, that is their
time; otherwise it is the time at which the line came.
"""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any

from trainmark.agent.events.reader import LineReader
from trainmark.agent.files import Appender, to_json
from trainmark.agent.reasons import Reason, reason

_LONGEST = 2048  # characters of a line that is looked at
_PATIENCE = 0.2  # seconds for one line: a bad expression may not end
_MOST_TIMEOUTS = 3
_MOST_STEPS = 100000  # between two lines
_MOST_SAMPLES = 1e12
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class _TooLong(Exception):
    """The expression did not come to an end."""


def _give_up(*_: object) -> None:
    raise _TooLong


class Pattern:
    """The expression of the node plan, and what the user said about a step."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._expression = re.compile(raw["regex"])
        self._context = re.compile(raw["context"]) if raw.get("context") else None
        self._needs: list[str] = list(raw.get("needs") or ())
        self._zero = bool(raw.get("zero"))
        self._product = bool(raw.get("product"))
        self._devices: int = int(raw.get("devices") or 1) if raw.get("per_device") else 1
        self._before: dict[str, Any] = {}  # groups of an earlier line that belong to this one
        self.every = max(1, int(raw.get("every") or 1))
        self.whole = bool(raw.get("whole"))
        self.batch: int | None = raw.get("batch")
        self.steps: int | None = raw.get("steps")
        self.unit: str = raw.get("unit") or "samples"

    def read(self, line: str) -> dict[str, float]:
        """The figures in a line; empty when it has no step."""
        context = self._context.search(line) if self._context is not None else None
        if context:
            self._before = context.groupdict()
            return {}
        match = self._expression.search(line) if all(need in line for need in self._needs) else None
        groups = dict(self._before, **match.groupdict()) if match else {}
        found = _figures(groups)
        if groups.get("step") is not None and "step" not in found:
            return {}  # a step whose number is not readable
        if "ms" in found:
            found["seconds"] = found.pop("ms") / 1000
        if "rate" in found:
            found["rate"] *= self._devices
        if "step" in found:
            found["step"] = found["step"] * (found.get("epoch") or 1 if self._product else 1) + self._zero
        return found


def _figures(groups: dict[str, Any]) -> dict[str, float]:
    found = {}
    for name, text in groups.items():
        try:
            value = float(text.replace(",", ""))
        except (AttributeError, ValueError):
            continue  # the group did not match, or is not a number
        if value - value == 0 or name == "loss":  # only a loss may really be NaN
            found[name] = value
    return found


class PatternReader:
    """Turns the output of one process into events of `rank`."""

    look_seconds = 0.05  # between two looks: how late a line may be seen

    def __init__(self, pattern: Pattern, rank: int, log: str, spool_file: str) -> None:
        self._pattern = pattern
        self._rank = rank
        self._lines = LineReader(log)
        self._out = Appender(spool_file)
        self._seq = 0
        self._step = 0  # steps written so far
        self._shown: int | None = None  # the program's number of the last step, and its epoch
        self._epoch = 0.0
        self._start = 0  # the program's first number
        self._interval = 0  # from the first number to the second
        self._strays = 0  # lines with a step before the last one
        self._jumps = 0  # lines with a step too far after it
        self._first: tuple[dict[str, float], int] | None = None  # how many steps it covers is known at the second line
        self._clock: int | None = None
        self._timeouts = 0
        self._done = False
        signal.signal(signal.SIGALRM, _give_up)

    def look(self) -> None:
        """Reads what is new."""
        now = time.monotonic_ns()
        text = self._lines.take().decode("utf-8", "replace").replace("\r", "\n")
        for line in text.split("\n"):
            if self._done or self._timeouts >= _MOST_TIMEOUTS:
                return
            if line and len(line) <= _LONGEST:
                self._one(line, now)

    def finish(self) -> list[Reason]:
        """Reads the rest. Warns of lines that were left out."""
        self.look()
        while self._lines.moved:
            self.look()
        if self._first is not None:
            self._write_first(self._pattern.every)
        if self._seq and not self._done:
            self._end({})
        self._out.close()
        self._lines.close()
        return self._left_out()

    def _left_out(self) -> list[Reason]:
        found: list[Reason] = []
        if self._timeouts:
            found.append(reason("pattern-too-slow", seconds=_PATIENCE))
        if self._strays:
            found.append(reason("pattern-earlier-steps", count=self._strays))
        if self._jumps:
            found.append(reason("pattern-later-steps", count=self._jumps, steps=_MOST_STEPS))
        return found

    def _one(self, line: str, now: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        try:
            found = self._pattern.read(_COLOURS.sub("", line))
        except _TooLong:
            self._timeouts += 1
            return
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if "step" not in found:
            self._write_steps(found, self._pattern.every if found else 0, now)
        elif self._shown is None:
            self._shown, self._epoch = int(found["step"]), found.get("epoch", 0.0)
            self._start = self._shown
            self._first = found, now
        else:
            self._numbered(found, now)

    def _numbered(self, found: dict[str, float], now: int) -> None:
        shown, before = int(found["step"]), self._shown or 0
        epoch = found.get("epoch", self._epoch)
        anew = self._counts_anew(shown, before, epoch if "epoch" in found else None)
        if epoch < self._epoch or (shown < before and not anew):
            self._strays += 1
            return
        # The same number in the same epoch is the line of another rank: no new steps.
        count = max(shown, 1) if anew else shown - before
        self._shown, self._epoch = shown, epoch
        if count > _MOST_STEPS:
            self._jumps += 1
            return
        self._interval = self._interval or count
        if count and self._first is not None:
            self._write_first(count)
        self._write_steps(found, count, now)

    def _counts_anew(self, shown: int, before: int, epoch: float | None) -> bool:
        """Whether a number that did not grow begins a new epoch; otherwise it comes from a slower rank."""
        if epoch is not None:
            return epoch > self._epoch and shown <= before
        return shown <= max(self._start, self._interval) and before - shown >= 2 * max(self._interval, 1)

    def _write_first(self, interval: int) -> None:
        """The first line covers as many steps as the second, if there were so many."""
        if self._first is not None:
            (found, now), self._first = self._first, None
            self._write_steps(found, max(1, min(int(found["step"]), interval)), now)

    def _write_steps(self, found: dict[str, float], count: int, now: int) -> None:
        """`count` steps ended with a line; its figures are spread over them."""
        if not count or self._done:
            return
        seconds = self._seconds(found, count)
        samples = self._samples(found, seconds, count, now)
        if self._clock is None:
            self._begin(now - int(count * (seconds or 0.0) * 1e9))
        begun = self._clock if self._clock is not None else now
        self._clock = now if seconds is None else begun + int(count * seconds * 1e9)
        for index in range(1, count + 1):
            self._step += 1
            more: dict[str, Any] = {"loss": _plain(found["loss"])} if "loss" in found and index == count else {}
            if samples:
                more["n"] = samples * index // count - samples * (index - 1) // count
            self._write("STEP_END", self._clock, step=self._step, **more)
        self._write("BLOCK", self._clock, step=self._step)
        if self._pattern.steps is not None and self._step >= self._pattern.steps:
            self._done = True
            self._end({"ended_after": self._step})

    def _begin(self, at: int) -> None:
        self._clock = at
        # Only the times of lines are known, not of single steps: as on a device that runs behind the program.
        fields = {"wall": time.time_ns(), "unit": self._pattern.unit, "timing": "host-enqueue", "world": 1}
        self._write("INIT_START", at, **fields)
        self._write("TRAIN_START", at)

    def _end(self, values: dict[str, Any]) -> None:
        at = self._clock or time.monotonic_ns()
        self._write("TRAIN_END", at)
        self._write("FINISHED", at, values=values)

    def _seconds(self, found: dict[str, float], count: int) -> float | None:
        """Seconds of one step, as the program says."""
        seconds: float | None = None
        per_step = found.get("samples") or self._pattern.batch
        if found.get("seconds", 0.0) > 0:
            seconds = found["seconds"] / (count if self._pattern.whole else 1)
        elif found.get("steps_per_second", 0.0) > 0:
            seconds = 1 / found["steps_per_second"]
        elif per_step and found.get("rate", 0.0) > 0:
            seconds = per_step / found["rate"]
        return seconds if seconds is not None and seconds < 1e6 else None

    def _samples(self, found: dict[str, float], seconds: float | None, count: int, now: int) -> int:
        """Samples of all steps of a line; 0 when not known."""
        per_step = found.get("samples") or self._pattern.batch
        samples = (per_step or 0) * count
        if not per_step and found.get("rate"):
            lasted = count * seconds if seconds is not None else (now - (self._clock or now)) / 1e9
            samples = found["rate"] * lasted
        return round(samples) if 0 < samples < _MOST_SAMPLES else 0

    def _write(self, kind: str, at: int, **more: Any) -> None:
        event = dict({"k": kind, "rank": self._rank, "seq": self._seq, "t": at}, **more)
        self._out.append((to_json(event) + "\n").encode())
        self._seq += 1


def _plain(value: float) -> float | str:
    """JSON has no numbers that are not finite."""
    if value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def reader(raw: dict[str, Any], rank: int, log: str, spool: str) -> PatternReader:
    return PatternReader(Pattern(raw), rank, log, os.path.join(spool, "rank%d.jsonl" % rank))
