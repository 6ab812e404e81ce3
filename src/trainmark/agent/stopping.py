"""Stopping in steps: some time to end alone, SIGTERM, some time to obey, SIGKILL."""

from __future__ import annotations


class Stopping:
    """Knows when which step is due; it sends nothing itself."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._ask_at: float | None = None
        self._kill_at: float | None = None
        self.asked = False  # SIGTERM was sent: what ends from now on ended because of it

    @property
    def begun(self) -> bool:
        return self._ask_at is not None

    def begin(self, now: float, delay: float = 0.0) -> None:
        """Asks the ranks to end after `delay`; an earlier call that is due sooner stands."""
        if self._ask_at is None or now + delay < self._ask_at:
            self._ask_at = now + delay
            self._kill_at = self._ask_at + self._patience

    def hurry(self, now: float) -> None:
        """No more patience."""
        self.begin(now)
        self._kill_at = now

    def due(self, now: float) -> str | None:
        """'kill', 'ask' (once) or None."""
        if self._kill_at is not None and now >= self._kill_at:
            return "kill"
        if self._ask_at is not None and now >= self._ask_at and not self.asked:
            self.asked = True
            return "ask"
        return None

    def next(self) -> float | None:
        """When something is due next."""
        return self._kill_at if self.asked else self._ask_at
