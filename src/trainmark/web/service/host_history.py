"""One host: what it measures now, the jobs that it ran, and whether it is as fast as it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.run import control, machine
from trainmark.spec.columns import is_number
from trainmark.store.files import decode_line
from trainmark.store.logs import last_lines
from trainmark.store.rundir import SAMPLES, RunDir, node_files
from trainmark.web.server import Server
from trainmark.web.service import database, hosts, jobs
from trainmark.web.service.errors import NotFound
from trainmark.web.service.hosts import Host
from trainmark.web.service.records import Job, Principal
from trainmark.web.service.tables import jobs as table

_MOST_JOBS = 200


class DeviceReading(msgspec.Struct, frozen=True):
    """Shares, bytes, degrees Celsius, watts; None: not known."""

    index: int
    utilisation: float | None
    memory_used: float | None
    temperature: float | None
    power: float | None


class Reading(msgspec.Struct, frozen=True):
    """What the job that runs there measured last. `at`: when."""

    at: float
    cpu: float | None
    memory_used: float | None
    power: float | None
    devices: list[DeviceReading]


class Speed(msgspec.Struct, frozen=True):
    """A case that a job ran there alone. `relative`: to the median of this case there."""

    at: float
    job: str
    case: str
    value: float
    unit: str
    relative: float


class HostDetail(msgspec.Struct, frozen=True):
    host: Host
    reading: Reading | None
    jobs: list[Job]
    speeds: list[Speed]


def readings() -> dict[str, Reading]:
    """Of hosts that runs hold, by the newest samples of these. A run that cannot be read has none."""
    found: dict[str, Reading] = {}
    for claim in machine.claims():
        try:
            attempt = control.newest_attempt(RunDir(Path(claim.run)))
        except UserError:
            continue
        for file in node_files(attempt, SAMPLES) if attempt is not None else []:
            host = file.parent.name.rpartition("_noderank")[0]
            try:
                sample, at = _last(file), file.stat().st_mtime
            except OSError:
                continue  # the run is being removed
            if sample is not None:
                found[host] = _reading(at, sample)
    return found


def _last(file: Path) -> Mapping[str, Any] | None:
    for line in reversed(last_lines(file, 2)):
        found = decode_line(line)
        if isinstance(found, dict) and "t" in found:  # not the first line, which tells the units
            return found
    return None


def _reading(at: float, sample: Mapping[str, Any]) -> Reading:
    listed = sample.get("devices")
    devices = [
        DeviceReading(
            index if isinstance(index := one.get("index"), int) else place,
            *(_number(one.get(name)) for name in ("utilisation", "memory_used", "temperature_c", "power_w")),
        )
        for place, one in enumerate(listed if isinstance(listed, list) else [])
        if isinstance(one, dict)
    ]
    cpu, memory, power = (_number(sample.get(name)) for name in ("cpu", "mem_used", "power_w"))
    return Reading(at, cpu, memory, power, devices)


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def detail(server: Server, asker: Principal, name: str) -> HostDetail:
    """Jobs and speeds as far as the asker may see the jobs."""
    host = next((one for one in hosts.listed(server, asker) if one.name == name), None)
    if host is None:
        raise NotFound(f"no host `{name[:60]}`")
    asked = jobs.visible(asker).where(table.c.needs.contains(f'"{name}"', autoescape=True))
    asked = asked.order_by(table.c.number.desc()).limit(_MOST_JOBS)
    with database.reading(server.engine) as connection:
        rows = list(connection.execute(asked).mappings())
    alone = [jobs.record(row) for row in rows if len(jobs.needs_of(row)) == 1]
    return HostDetail(host, readings().get(name), [jobs.record(row) for row in rows], _speeds(server, alone))


def _speeds(server: Server, found: list[Job]) -> list[Speed]:
    """As far as their figures have been read."""
    known = server.figures.known()
    by_case: dict[str, list[Speed]] = {}
    for job in reversed(found):
        for row in known.get(job.run or "", ()):
            at = job.ended or job.created
            by_case.setdefault(row.case, []).append(Speed(at, job.id, row.case, row.value, row.unit, 1.0))
    return [
        msgspec.structs.replace(one, relative=one.value / middle)
        for group in by_case.values()
        for middle in [median(one.value for one in group)]
        for one in group
        if len(group) > 1
    ]
