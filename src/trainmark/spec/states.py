"""The states of a round, an attempt and a run."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """Always shown with a reason when it is not SUCCEEDED."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PREEMPTED = "PREEMPTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    INVALID = "INVALID"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    LOST = "LOST"

    @property
    def ended(self) -> bool:
        return self not in (JobState.PENDING, JobState.RUNNING)
