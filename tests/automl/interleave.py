"""Threads of which one runs at a time, switched at marked steps by a schedule: an interleaving that can be repeated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from optuna.storages.journal import BaseJournalBackend


class Interleaving:
    """Runs functions so that a seeded draw decides at every `step` who goes on. One that raises `Killed` just ends."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self._turns: dict[int, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self._errors: list[BaseException] = []

    def step(self) -> None:
        """Another may go on here. Of no effect outside `run`."""
        turn = self._turns.get(threading.get_ident())
        if turn is not None:
            self._back.release()
            turn.acquire()

    def run(self, functions: Sequence[Callable[[], None]]) -> None:
        alive = []
        for function in functions:
            turn = threading.Semaphore(0)
            thread = threading.Thread(target=self._call, args=(function, turn), daemon=True)
            alive.append((thread, turn))
            thread.start()
            self._back.acquire()
        while alive:
            thread, turn = self._draw.choice(alive)
            turn.release()
            self._back.acquire()
            alive = [one for one in alive if one[1] in self._turns.values()]
        if self._errors:
            raise self._errors[0]

    def _call(self, function: Callable[[], None], turn: threading.Semaphore) -> None:
        self._turns[threading.get_ident()] = turn
        self.step()
        try:
            function()
        except Killed:
            pass
        except BaseException as error:
            self._errors.append(error)
        finally:
            del self._turns[threading.get_ident()]
            self._back.release()


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
