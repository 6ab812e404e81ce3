"""The files that show a running round: status.json, samples.jsonl, facts.json."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trainmark.agent.events.reader import EventStream
from trainmark.agent.external_ranks import ExternalRank, present
from trainmark.agent.files import Appender, replace_json, to_json
from trainmark.agent.ranks import Rank
from trainmark.agent.reasons import Reason
from trainmark.agent.result import Context
from trainmark.devices.cpu import node as host

if TYPE_CHECKING:
    from trainmark.agent.device_watch import DeviceWatch

_RATE_SECONDS, _SHORTEST_RATE = 5.0, 0.5
_SHORTEST_SAMPLE = 0.25


class StatusWriter:
    """Writes the state each second and samples at their own interval."""

    def __init__(self, context: Context, ranks: list[Rank], streams: dict[int, EventStream]) -> None:
        """`streams` may grow: external ranks are shown from their first event on."""
        self._context = context
        self._ranks = ranks
        self._streams = streams
        self._began_ns = time.monotonic_ns()
        self._history: list[tuple[float, int]] = []
        self._facts = host.detect(context.proc.fd)
        replace_json(context.plan.file("facts.json"), self._facts)
        self._watch: DeviceWatch | None = None
        self._last: list[dict[str, Any]] = []
        self._every = context.plan.sample_seconds
        self._sampler: host.Sampler | None = None
        self._samples = Appender(context.plan.file("samples.jsonl"))
        self._samples.append((to_json({"schema": 1, "units": _units(context)}) + "\n").encode())
        self._sampled_at = 0.0
        self.count = 0
        self.next_sample: float | None = None

    def devices(self, watch: DeviceWatch, facts: dict[str, Any] | None) -> None:
        """From now on samples have what the watch reads."""
        self._watch = watch
        if facts is None:
            return
        replace_json(self._context.plan.file("facts.json"), dict(self._facts, accelerators=facts))

    def last_devices(self) -> None:
        """Keeps what was read last, before the watch ends."""
        self._last = self._watch.last() if self._watch is not None else []
        self._watch = None

    def quiet(self, stream: EventStream) -> float:
        """Seconds since the rank's last event, or since the ranks were started: no event is older than that."""
        return (time.monotonic_ns() - max(stream.last_ns or 0, self._began_ns)) / 1e9

    def status(self, state: str, epoch: int) -> None:
        now = time.monotonic()
        record = {
            "t": time.monotonic_ns(),
            "wall": time.time_ns(),
            "state": state,
            "uptime": round(now - self._context.started, 3),
            "epoch": epoch,
            "ranks": [self._rank(rank) for rank in present(self._ranks, self._streams)],
            "rate": self._rate(now),
        }
        replace_json(self._context.plan.file("status.json"), record)

    def _rank(self, rank: Rank | ExternalRank) -> dict[str, Any]:
        stream = self._streams[rank.rank]
        return {
            "rank": rank.rank,
            "pid": rank.pid,
            "state": "running" if rank.running else "exited",
            "step": stream.step,
            "phase": stream.phase,
            "samples": stream.samples,
            "silent": round(self.quiet(stream), 3),
        }

    def _rate(self, now: float) -> float | None:
        """Samples per second of all local ranks over the last seconds."""
        self._history.append((now, sum(stream.samples for stream in self._streams.values())))
        while len(self._history) > 2 and now - self._history[1][0] >= _RATE_SECONDS:
            del self._history[0]
        first, last = self._history[0], self._history[-1]
        if last[0] - first[0] < _SHORTEST_RATE or not last[1]:
            return None
        return round((last[1] - first[1]) / (last[0] - first[0]), 3)

    def begin(self, now: float) -> None:
        """Takes the first readings, which later samples are compared with; does nothing when called again."""
        if self._sampler is None and self._every > 0:
            self._sampler = host.Sampler(self._context.proc.fd)
            self._sampled_at = now
            self.next_sample = now + self._every

    def sample(self, now: float) -> None:
        """Takes a sample when one is due."""
        if self._sampler is not None and self.next_sample is not None and now >= self.next_sample:
            self._take(self._sampler, now)
            self.next_sample = max(self.next_sample + self._every, now)

    def _take(self, sampler: host.Sampler, now: float) -> None:
        pids = {rank.rank: rank.pid for rank in self._ranks if rank.running and rank.pid is not None}
        record = sampler.sample(pids)
        # How far the ranks were by this clock: a second account of their speed, beside their own events.
        record["steps"] = {str(rank): stream.step for rank, stream in self._streams.items() if stream.step}
        read = self._watch.records() if self._watch is not None else self._last
        # Nothing new since the sample before: a gap, and no old value. Several: each but the last has its own line.
        for older in read[:-1]:
            self._samples.append((to_json(dict(older, t=older["devices_t"])) + "\n").encode())
        record.update(read[-1] if read else {})
        self._samples.append((to_json(record) + "\n").encode())
        self._sampled_at = now
        self.count += 1

    def finish(self) -> list[Reason]:
        """Takes a last sample unless one was just taken. Never has warnings."""
        now = time.monotonic()
        if self._sampler is not None and (self._last or now - self._sampled_at >= _SHORTEST_SAMPLE):
            self._take(self._sampler, now)
        self._samples.close()
        return []


def _units(context: Context) -> dict[str, str]:
    if context.plan.device.get("vendor") == "cpu" and not context.plan.board:
        return host.UNITS
    from trainmark.devices.node_side.readings import UNITS

    return dict(host.UNITS, **UNITS)
