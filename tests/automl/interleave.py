"""Functions of which one goes on at a time, switched at marked steps by a seeded draw: orders that can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import greenlet
from optuna.storages.journal import BaseJournalBackend


class Interleaving:
    """Runs functions so that a seeded draw decides at every `step` which goes on. One that raises `Killed` ends."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self._scheduler: greenlet.greenlet | None = None

    def step(self) -> None:
        """Another may go on here. Of no effect outside `run`."""
        if self._scheduler is not None:
            self._scheduler.switch()

    def run(self, functions: Sequence[Callable[[], None]]) -> None:
        alive = [greenlet.greenlet(self._guarded(function)) for function in functions]
        self._scheduler = greenlet.getcurrent()
        while alive:
            self._draw.choice(alive).switch()
            alive = [one for one in alive if not one.dead]
        self._scheduler = None

    @staticmethod
    def _guarded(function: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            try:
                function()
            except Killed:
                return

        return call


class Killed(BaseException):
    """The process ends here, as by kill -9."""


class Memory(BaseJournalBackend):
    """A journal in memory that several storages share; each read and each write is a step."""

    def __init__(self, logs: list[dict[str, Any]], step: Callable[[], None] = lambda: None) -> None:
        self._logs, self._step = logs, step

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        self._step()
        return self._logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._step()
        self._logs += logs
