"""A device that runs behind its program, in time that only tests see: work that is given to it ends later, events are
put into its queue, and what is read before it is done is an error. Nothing sleeps, so every figure is known exactly."""

from __future__ import annotations

NS = 1_000_000_000


class LateDevice:
    """`now()` is the clock of the host, in ns, which takes `enqueue` seconds to give work to the device."""

    def __init__(self, start: float = 1000.0, enqueue: float = 1e-4) -> None:
        self._host, self._done, self._enqueue = start, start, enqueue
        self.waits = 0

    def now(self) -> int:
        return round(self._host * NS)

    def work(self, seconds: float) -> None:
        """Give it work; returns at once."""
        self._host += self._enqueue
        self._done = max(self._done, self._host) + seconds

    def pause(self, seconds: float) -> None:
        """The host does something else."""
        self._host += seconds

    def synchronize(self) -> None:
        self.waits += 1
        self._host = max(self._host, self._done)

    def event(self) -> LateEvent:
        return LateEvent(self, self._done)

    def is_done(self, at: float) -> bool:
        return at <= self._host


class LateEvent:
    """In the queue behind all work that was given before it."""

    def __init__(self, device: LateDevice, at: float) -> None:
        self._device, self._at = device, at

    def elapsed_time(self, later: LateEvent) -> float:
        """Milliseconds, as PyTorch has it."""
        if not self._device.is_done(later._at):
            raise RuntimeError("an event was read that the device has not come to")
        return 1000 * (later._at - self._at)
