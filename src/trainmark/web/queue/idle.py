"""How long a job that runs has used nothing of what it holds: neither its devices nor, without any, its processors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainmark.store.rundir import RunDir
from trainmark.web.service import samples

# Of a device, or of one core: whoever waits for work uses less.
_USED = 0.02
# Seconds between two looks at a job.
_EVERY = 20.0


def used(sample: Mapping[str, Any], own: frozenset[int] = frozenset()) -> bool:
    """Whether a node was used in one sample of it. `own`: the numbers of the job's devices; empty: all are."""
    devices = sample.get("devices")
    if devices:
        mine = [one for place, one in enumerate(devices) if not own or one.get("index", place) in own]
        return any((one.get("utilisation") or 0.0) >= _USED for one in mine)
    return sum(one.get("cpu") or 0.0 for one in (sample.get("ranks") or {}).values()) >= _USED


class _Seen:
    def __init__(self, now: float) -> None:
        self.used, self.looked = now, 0.0
        self.attempt, self.read = "", dict[int, int]()


class IdleWatch:
    """Counts from when it first saw a job: after a restart of the server no job is idle at once."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Seen] = {}

    def seconds(self, job: str, run: RunDir, now: float, own: frozenset[int] = frozenset()) -> float:
        """That the job has used nothing. Samples are read from where they were read last."""
        seen = self._jobs.setdefault(job, _Seen(now))
        if now - seen.looked >= _EVERY:
            seen.looked = now
            while True:
                seen.attempt, found = samples.following(run, seen.attempt, seen.read)
                if any(used(one["sample"], own) for one in found):
                    seen.used = now
                if not found:
                    break
        return now - seen.used

    def keep(self, jobs: Iterable[str]) -> None:
        """Forgets all others."""
        wanted = set(jobs)
        self._jobs = {job: seen for job, seen in self._jobs.items() if job in wanted}
