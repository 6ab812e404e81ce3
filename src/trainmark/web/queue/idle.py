"""How long a job that runs has used nothing of what it holds: neither its devices nor, without any, its processors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from trainmark.store.rundir import RunDir
from trainmark.web.service import samples

# Of a device, or of one core: whoever waits for work uses less.
_USED = 0.02
# Seconds between two looks at a job; and pieces of a node's samples that one look reads at most, for the queue waits.
_EVERY, _MOST_PIECES = 20.0, 8


class _Device(msgspec.Struct):
    index: int | None = None
    utilisation: float | None = None


class _Rank(msgspec.Struct):
    cpu: float | None = None


class _Sample(msgspec.Struct):
    devices: list[_Device] | None = None
    ranks: dict[str, _Rank] | None = None


def used(sample: Any, own: frozenset[int] = frozenset()) -> bool:
    """Whether a node was used in one sample of it. `own`: the numbers of the job's devices; empty: all are."""
    try:
        found = msgspec.convert(sample, _Sample)
    except msgspec.ValidationError:
        return True  # a job's account may have written anything there; nobody is stopped for what cannot be read
    if found.devices:
        numbers = [place if one.index is None else one.index for place, one in enumerate(found.devices)]
        mine = [one for number, one in zip(numbers, found.devices, strict=True) if not own or number in own]
        return any((one.utilisation or 0.0) >= _USED for one in mine)
    return sum(one.cpu or 0.0 for one in (found.ranks or {}).values()) >= _USED


class _Seen:
    def __init__(self, now: float, run: RunDir) -> None:
        self.used, self.looked = now, now
        self.attempt, self.read = samples.end(run)


class IdleWatch:
    """Counts from when it first saw a job: after a restart of the server no job is idle at once."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Seen] = {}

    def seconds(self, job: str, run: RunDir, now: float, own: frozenset[int] = frozenset()) -> float:
        """That the job has used nothing. Samples are read from where they were read last."""
        seen = self._jobs.get(job)
        if seen is None:
            seen = self._jobs[job] = _Seen(now, run)
        if now - seen.looked >= _EVERY:
            seen.looked = now
            for _ in range(_MOST_PIECES):
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
