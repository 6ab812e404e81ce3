"""Waits for signals (through a pipe), descriptors and time in one call."""

from __future__ import annotations

import os
import select
import signal
from typing import Any


def _nothing(number: int, frame: Any) -> None:
    """A handler only has to exist: the interpreter then writes the number into the pipe."""


class Wakeup:
    """Turns SIGCHLD, SIGTERM and SIGINT into bytes to be read; SIGHUP is ignored (a closed terminal ends nothing)."""

    def __init__(self) -> None:
        self._watched: set[int] = set()
        self.renew()
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _nothing)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def renew(self) -> None:
        """A pipe of its own for this process; called again in a forked one that goes on as an agent."""
        self._read, write = os.pipe()
        for end in (self._read, write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)

    def watch(self, descriptor: int) -> None:
        self._watched.add(descriptor)
        self._poll.register(descriptor, select.POLLIN)

    def forget(self, descriptor: int) -> None:
        self._watched.discard(descriptor)
        self._poll.unregister(descriptor)

    def forget_all(self) -> None:
        """Watches only signals from now on."""
        while self._watched:
            self._poll.unregister(self._watched.pop())

    def wait(self, seconds: float) -> tuple[list[int], list[int]]:
        """Signals that arrived and watched descriptors that are readable, after `seconds` at the latest."""
        numbers: list[int] = []
        ready: list[int] = []
        for descriptor, _ in self._poll.poll(max(0, int(seconds * 1000 + 0.999))):
            if descriptor == self._read:
                numbers = list(os.read(self._read, 4096))
            else:
                ready.append(descriptor)
        return numbers, ready


def forget_signals() -> None:
    """For a forked child: its signals must not reach the parent's pipe."""
    signal.set_wakeup_fd(-1)
