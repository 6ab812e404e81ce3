"""Steps read from what a program prints: a pattern over the lines of its output, live, written down as events."""

from __future__ import annotations

import os
import time

from trainmark.agent.lean import dumps, signals
from trainmark.agent.lines import Lines
from trainmark.agent.record import Appender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST = 4096  # characters of a line that are looked at
_PATIENCE = 0.2  # seconds for one line: a bad pattern may take for ever
_MOST_TIMEOUTS = 3
_MOST_STEPS = 100000  # between two lines
_COLOURS = r"\x1b\[[0-9;?]*[ -/]*[@-~]"


class _TooLong(Exception):
    """The pattern did not come to an end."""


def _give_up(*_: object) -> None:
    raise _TooLong


class Pattern:
    """What the node plan says: the expression, what its groups mean, and what the user said of a step."""

    def __init__(self, raw: dict[str, Any]) -> None:
        import re

        self.expression = re.compile(raw["regex"])
        self.colours = re.compile(_COLOURS)
        # Group → factor: milliseconds become seconds, thousands of samples become samples.
        self.scale: dict[str, float] = {str(name): float(value) for name, value in (raw.get("scale") or {}).items()}
        self.batch: int | None = raw.get("batch")
        self.steps: int | None = raw.get("steps")
        self.unit: str = raw.get("unit") or "samples"
        self.first_step: int = int(raw.get("first_step", 1))

    def read(self, line: str) -> dict[str, float]:
        """The figures in a line; empty when it tells no step."""
        match = self.expression.search(line)
        found: dict[str, float] = {}
        for name, text in match.groupdict().items() if match else ():
            try:
                found[name] = float(text.replace(",", "").replace("_", "")) * self.scale.get(name, 1.0)
            except (AttributeError, ValueError):
                continue
        return found


class Reader:
    """One process's output on its way to events of `rank`."""

    every = 0.05  # seconds between two looks: how late a line may be seen

    def __init__(self, pattern: Pattern, rank: int, log: str, spool_file: str) -> None:
        self._pattern = pattern
        self._rank = rank
        self._lines = Lines(log)
        self._out = Appender(spool_file)
        self._seq = 0
        self._step = 0  # steps told so far
        self._shown: int | None = None  # the program's own number of the last one
        self._clock: int | None = None
        self._timeouts = 0
        self._done = False
        signals.signal(signals.SIGALRM, _give_up)

    def look(self) -> None:
        """Reads what is new."""
        now = time.monotonic_ns()
        text = self._lines.take().decode("utf-8", "replace").replace("\r", "\n")
        for line in text.split("\n"):
            if self._done or self._timeouts >= _MOST_TIMEOUTS:
                return
            if line:
                self._one(line, now)

    def finish(self) -> list[str]:
        while True:
            self.look()
            if not self._lines.moved:
                break
        if self._seq and not self._done:
            self._say("TRAIN_END", time.monotonic_ns())
            self._say("FINISHED", time.monotonic_ns(), values={})
        self._out.close()
        self._lines.close()
        if self._timeouts:
            return ["the pattern took more than %g s for a line, which was left out" % _PATIENCE]
        return []

    def _one(self, line: str, now: int) -> None:
        signals.setitimer(signals.ITIMER_REAL, _PATIENCE)
        try:
            found = self._pattern.read(self._pattern.colours.sub("", line[:_LONGEST]))
        except _TooLong:
            self._timeouts += 1
            return
        finally:
            signals.setitimer(signals.ITIMER_REAL, 0)
        if found:
            self._tell(found, now)

    def _tell(self, found: dict[str, float], now: int) -> None:
        """A line may tell of several steps at once; all but its own time is spread over them."""
        count = self._steps_in(found)
        if not count:
            return
        seconds = self._seconds(found)
        samples = self._samples(found, seconds)
        if self._clock is None:
            self._begin(now - int(count * (seconds or 0) * 1e9))
        # The program's own clock is better than the moment at which a line came through its buffers.
        self._clock = now if seconds is None or self._clock is None else self._clock + int(count * seconds * 1e9)
        for index in range(count):
            self._step += 1
            more = {"loss": _plain(found["loss"])} if "loss" in found and index == count - 1 else {}
            self._say("STEP_END", self._clock, step=self._step, n=samples, **more)
        self._say("BLOCK", self._clock, step=self._step)
        if self._pattern.steps is not None and self._step >= self._pattern.steps:
            self._done = True
            self._say("TRAIN_END", self._clock)
            self._say("FINISHED", self._clock, values={"ended_after": self._step})

    def _begin(self, at: int) -> None:
        self._clock = at
        # Times of single steps are not known, only those of lines: as on a device that works behind the program.
        told = {"wall": time.time_ns(), "unit": self._pattern.unit, "timing": "host-enqueue", "world": 1}
        self._say("INIT_START", at, **told)
        self._say("TRAIN_START", at)

    def _steps_in(self, found: dict[str, float]) -> int:
        if "step" not in found:
            return 1
        shown = int(found["step"])
        before, self._shown = self._shown, shown
        if before is None or shown < before:  # the first line, or an epoch that counts from its own start
            before = min(shown, self._pattern.first_step) - 1
        return min(shown - before, _MOST_STEPS)

    def _seconds(self, found: dict[str, float]) -> float | None:
        """Of one step, as the program says."""
        if found.get("seconds", 0.0) > 0:
            return found["seconds"]
        samples = found.get("samples") or self._pattern.batch
        return samples / found["rate"] if samples and found.get("rate", 0.0) > 0 else None

    def _samples(self, found: dict[str, float], seconds: float | None) -> int:
        """Of one step; 0 when nothing tells."""
        if found.get("samples"):
            return round(found["samples"])
        if self._pattern.batch:
            return self._pattern.batch
        return round(found["rate"] * seconds) if found.get("rate") and seconds else 0

    def _say(self, kind: str, at: int, **more: Any) -> None:
        event = dict({"k": kind, "rank": self._rank, "seq": self._seq, "t": at}, **more)
        self._out.append((dumps(event) + "\n").encode())
        self._seq += 1


def _plain(value: float) -> float | str:
    """JSON has no word for what is not finite."""
    if value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def reader(raw: dict[str, Any], rank: int, log: str, spool: str) -> Reader:
    return Reader(Pattern(raw), rank, log, os.path.join(spool, "rank%d.jsonl" % rank))
