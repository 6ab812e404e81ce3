"""What goes wrong on purpose: calls that fail or are slow, answers that are lost, a worker that is lost."""

from __future__ import annotations

import random
import threading
from typing import Literal

import msgspec


class Faults(msgspec.Struct, frozen=True):
    """`fail`: status → share of calls. `drop`: share of connections that break, half of them before the call is done
    and half after. `lose_creates`: so many jobs are made without an answer. `lose_node`: a worker, and after how many
    seconds. `hide`: output files with this in their name never reach the store."""

    fail: dict[int, float] = {}
    drop: float = 0.0
    slow: float = 0.0
    lose_creates: int = 0
    lose_node: tuple[int, float] | None = None
    hide: str = ""
    seed: int = 1


What = Literal["", "before", "after"]


class Dice:
    """Decides call by call; the same seed and calls give the same faults."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._random = random.Random(faults.seed)  # noqa: S311 - faults, not secrets
        self._lock = threading.Lock()
        self._creates_to_lose = faults.lose_creates
        self.failed = self.dropped = 0

    def status(self) -> int | None:
        """The status of a call that is to fail; None for one that is not."""
        with self._lock:
            for status, share in self.faults.fail.items():
                if self._random.random() < share:
                    self.failed += 1
                    return status
        return None

    def break_connection(self) -> What:
        with self._lock:
            if self._random.random() >= self.faults.drop:
                return ""
            self.dropped += 1
            return "before" if self._random.random() < 0.5 else "after"

    def lose_create(self) -> bool:
        with self._lock:
            self._creates_to_lose -= 1
            return self._creates_to_lose >= 0
