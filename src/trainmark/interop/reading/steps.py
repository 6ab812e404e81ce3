"""From readings, line by line, to steps on one clock: how many samples, and when."""

from __future__ import annotations

import msgspec

from trainmark.interop.reading.patterns import Reading
from trainmark.spec.log_lines import Clock, Pattern

DAY = 86400.0
# A step, a batch or a duration beyond these is a broken number.
MOST_STEPS = 10**12
# Ranks that print the same steps are never further apart than this.
NEAR = 50
MOST_SAMPLES = 10**12
MOST_SECONDS = 1e8
# Nanoseconds of it are the largest that fit into 63 bits.
MOST_STAMP = 9e9


class Progress(msgspec.Struct, frozen=True):
    """The steps since the last record: their last one, how many they are, their samples, and the time at their end."""

    step: int
    steps: int
    samples: int
    # Seconds since any moment; None in `seconds` for the first record of a clock that only stamps.
    at: float
    seconds: float | None
    rate: float | None = None
    loss: float | None = None


class Odd(msgspec.Struct, frozen=True):
    """A record that is not taken, and why."""

    kind: str
    text: str


class Follower:
    """Follows one log. `batch` is the number of samples in a step of all devices, where the lines do not tell it."""

    def __init__(self, pattern: Pattern, batch: float | None = None, devices: int = 1) -> None:
        self.clock: Clock | None = None
        self.midnights = 0
        self.repeats = 0
        self.step = 0
        self._pattern = pattern
        self._batch = batch
        self._devices = devices
        self._epoch: int | None = None
        self._base = 0
        self._at = 0.0
        self._started = False

    @property
    def timing(self) -> str:
        """`log` for times the log holds, `derived` for times computed from its rates."""
        return "derived" if self.clock == "rate" else "log"

    def take(self, found: Reading) -> Progress | Odd:
        step = self._number(found)
        if isinstance(step, Odd):
            return step
        steps = step - self.step if self._started else min(step, self._pattern.every)
        clock = self.clock or _clock(self._pattern, found)
        if clock is None:
            return Odd("no time", "the line holds neither a time nor a rate")
        # A first stamp begins the clock: how long the steps before it took is not known.
        samples = self._samples(found, steps, clock)
        if samples is None:
            return Odd("no batch", "how many samples a step has is told neither by the line nor by the user")
        taken = self._time(found, steps, samples, clock)
        if isinstance(taken, Odd):
            return taken
        if taken[0] >= MOST_STAMP:
            return Odd("odd number", "later than any clock can tell")
        if clock == "stamp" and found.samples is None and self._batch is None and taken[1] is not None:
            samples = (self._rate(found) or 0) * taken[1]
        if not 0.5 <= samples <= MOST_SAMPLES:
            return Odd("odd number", f"{samples:g} samples in {steps} step(s)")
        self.clock, self._started, self.step, self._at = clock, True, step, taken[0]
        self._epoch = found.epoch if found.epoch is not None else self._epoch
        return Progress(step, steps, round(samples), taken[0], taken[1], self._rate(found), found.loss)

    def _number(self, found: Reading) -> int | Odd:
        """The step's number over all epochs. A log that prints none is counted."""
        if found.step is None:
            return self.step + self._pattern.every
        new_epoch = found.epoch is not None and self._epoch is not None and found.epoch > self._epoch
        if new_epoch and not self._pattern.product and self._base + found.step <= self.step:
            self._base = self.step
        step = self._base + found.step
        if step == self.step or (self._devices > 1 and 0 < self.step - step < NEAR):
            self.repeats += 1
            return Odd("other rank", f"step {step} after step {self.step}: a line of another rank")
        if not 0 < step < MOST_STEPS or step < self.step:
            return Odd("step backwards", f"step {step} after step {self.step}")
        return step

    def _rate(self, found: Reading) -> float | None:
        """Samples per second of all devices, as printed."""
        if found.rate is None:
            return None
        return found.rate * (self._devices if self._pattern.per_device else 1)

    def _samples(self, found: Reading, steps: int, clock: Clock) -> float | None:
        if found.samples is not None:
            return found.samples * steps
        if self._batch is not None:
            return self._batch * steps
        rate = self._rate(found)
        if rate is None or clock == "rate":
            return None
        if clock == "seconds" and found.seconds is not None:
            return rate * found.seconds * (1 if self._pattern.whole else steps)
        return 1.0

    def _time(self, found: Reading, steps: int, samples: float, clock: Clock) -> tuple[float, float | None] | Odd:
        """(time at the end, seconds it took)."""
        if clock == "stamp":
            return self._stamped(found)
        if clock == "seconds":
            seconds = found.seconds
            if seconds is not None and not self._pattern.whole:
                seconds *= steps
        elif found.steps_per_second is not None:
            seconds = steps / found.steps_per_second if found.steps_per_second > 0 else None
        else:
            rate = self._rate(found)
            seconds = samples / rate if rate is not None and rate > 0 else None
        if seconds is None or not 0 < seconds < MOST_SECONDS:
            return Odd("odd number", "no time can be taken from it")
        return self._at + seconds, seconds

    def _stamped(self, found: Reading) -> tuple[float, float | None] | Odd:
        at = found.stamp
        if at is None or not 0 <= at < MOST_STAMP:
            return Odd("no time", "the line has no time stamp that can be")
        if not self._started:
            return at, None
        if not found.day:
            at += self.midnights * DAY
            if at < self._at - DAY / 2:
                # Past midnight: the clock shows no date.
                self.midnights += 1
                at += DAY
        if not self._at <= at < self._at + MOST_SECONDS:
            return Odd("time backwards", f"{self._at - at:g} s before the line above")
        return at, at - self._at


def _clock(pattern: Pattern, found: Reading) -> Clock | None:
    has: dict[Clock, bool] = {
        "stamp": found.stamp is not None,
        "seconds": found.seconds is not None,
        "rate": found.rate is not None or found.steps_per_second is not None,
    }
    order: tuple[Clock, ...] = (pattern.clock, "stamp", "seconds", "rate")
    return next((clock for clock in order if has[clock]), None)
