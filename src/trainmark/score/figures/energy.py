"""Energy over a time, part by part: from counters at its edges; integrated power only where there is no counter.

The parts of a node are its processors (RAPL), each device that ranks had, the whole machine as its board tells (IPMI,
Redfish), and an external meter. A meter or a board sees everything; else processors and devices are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.figures.contention import Times
from trainmark.score.records import Figure
from trainmark.spec.columns import NodeSamples, is_number

# Power is sampled once a second: shorter windows would rest on too few values.
LEAST_SECONDS = 60.0
# Of a time that must have been sampled for its energy to be given.
LEAST_COVERAGE = 0.99
# Readings further apart than this many usual intervals leave a gap between them.
_GAP = 3.5
PROCESSORS, BOARD, METER, DEVICE = "processors", "board", "meter", "device"


class Reading(msgspec.Struct, frozen=True):
    """At a moment: power in watts, and joules of a counter, where there are such."""

    t: int
    power: float | None = None
    counter: float | None = None


class Account(msgspec.Struct, frozen=True):
    """The energy of one part of one node over a time. `way`: `counter`, or `power` that was integrated. `coverage` is
    the share of the time that readings cover, `rate` how many there are in a second, `gaps` how often some are
    missing."""

    node: str
    part: str
    way: str
    joules: float
    seconds: float
    coverage: float
    rate: float | None
    gaps: int
    mean: float
    highest: float | None

    @property
    def whole(self) -> bool:
        return self.coverage >= LEAST_COVERAGE


def parts(samples: NodeSamples) -> dict[str, list[Reading]]:
    """What a node was read of, by part: `processors`, `board`, `meter`, `device 0`, …"""
    found: dict[str, list[Reading]] = {}
    for record in samples.records:
        joules = record["energy_uj"] * 1e-6 if is_number(record.get("energy_uj")) else None
        _add(found, PROCESSORS, record["t"], record.get("power_w"), joules)
        for name in (BOARD, METER):
            at = record.get(f"{name}_t")
            _add(found, name, at if isinstance(at, int) else record["t"], record.get(f"{name}_w"), None)
        at = record.get("devices_t")
        devices = record.get("devices")
        for place, one in enumerate(devices if isinstance(devices, list) else []):
            index = one.get("index", place) if isinstance(one, Mapping) else None
            if index is not None and (samples.devices is None or index in samples.devices):
                when = at if isinstance(at, int) else record["t"]
                _add(found, f"{DEVICE} {index}", when, one.get("power_w"), one.get("energy_j"))
    return found


def _add(found: dict[str, list[Reading]], part: str, t: int, power: object, counter: object) -> None:
    watts = float(power) if is_number(power) else None
    joules = float(counter) if is_number(counter) else None
    if watts is not None or joules is not None:
        found.setdefault(part, []).append(Reading(t, watts, joules))


def account(node: str, part: str, readings: Sequence[Reading], begin: int, end: int) -> Account | None:
    """Over a time; None where nothing covers any of it."""
    seconds = (end - begin) * 1e-9
    if seconds <= 0:
        return None
    from statistics import median

    spans = [(late.t - early.t) * 1e-9 for early, late in pairwise(readings)]
    usual = median(spans) if spans else 0.0
    gaps = sum(
        1
        for (early, late), span in zip(pairwise(readings), spans, strict=True)
        if span > _GAP * usual and late.t > begin and early.t < end
    )
    powers = [one.power for one in readings if begin <= one.t <= end and one.power is not None]
    counted = _counted(readings, begin, end)
    if counted is not None:
        way, joules, covered = "counter", counted, 1.0
    else:
        way = "power"
        joules, sampled = _integrated(readings, begin, end, _GAP * usual, part == PROCESSORS)
        covered = min(1.0, sampled / seconds)
        if not covered:
            return None
    mean = joules / (seconds * covered)
    rate = 1.0 / usual if usual else None
    return Account(node, part, way, joules, seconds, covered, rate, gaps, mean, max(powers, default=None))


def _counted(readings: Sequence[Reading], begin: int, end: int) -> float | None:
    """From the counter's values at both edges, each between the two readings around it."""
    points = [(one.t, one.counter) for one in readings if one.counter is not None]
    if any(late < early for (_, early), (_, late) in pairwise(points)):
        return None  # it was set back: the driver was loaded again
    early, late = _at(points, begin), _at(points, end)
    return late - early if early is not None and late is not None else None


def _at(points: Sequence[tuple[int, float]], t: int) -> float | None:
    for (before, low), (after, high) in pairwise(points):
        if before <= t <= after and after > before:
            return low + (high - low) * (t - before) / (after - before)
    return None


def _integrated(
    readings: Sequence[Reading], begin: int, end: int, longest: float, of_interval: bool
) -> tuple[float, float]:
    """Joules, and the seconds they are of. `of_interval`: power is the mean of the interval that a reading ends; else
    it is that of the moment, and between two of them a straight line."""
    joules, covered = 0.0, 0.0
    for before, after in pairwise(readings):
        since, until = max(begin, before.t), min(end, after.t)
        span = (after.t - before.t) * 1e-9
        if until <= since or after.power is None or (span > longest > 0):
            continue
        if of_interval or before.power is None:
            height = after.power
        else:
            middle = ((since + until) / 2 - before.t) / (after.t - before.t)
            height = before.power + (after.power - before.power) * middle
        joules += height * (until - since) * 1e-9
        covered += (until - since) * 1e-9
    return joules, covered


def accounts(nodes: Sequence[NodeSamples], times: Times) -> list[Account]:
    """Every part of every node over its time, in order."""
    found = []
    for samples in nodes:
        if samples.node in times:
            for part, readings in parts(samples).items():
                one = account(samples.node, part, readings, *times[samples.node])
                if one is not None:
                    found.append(one)
    return found


def energy(nodes: Sequence[NodeSamples], times: Times, *, least: float = LEAST_SECONDS) -> Figure:
    """Joules of all nodes, and how they were found. A node, or a part of one, that is missing means no total."""
    by_name = {samples.node: samples for samples in nodes}
    total, ways, scopes = 0.0, set[str](), set[str]()
    for node, (begin, end) in sorted(times.items()):
        samples = by_name.get(node)
        if samples is None or not samples.records:
            return Figure(None, reason("on-host", host=node, why=reason("nothing-sampled")))
        chosen = _scope(samples, begin, end, least)
        if isinstance(chosen, Reason):
            return Figure(None, reason("on-host", host=samples.host, why=chosen))
        for one in chosen:
            total += one.joules
            ways.add(one.way)
            scopes.add(one.part.partition(" ")[0])
    if not times:
        return Figure(None, reason("no-window"))
    return Figure(total, how=_how(ways, scopes))


def _scope(samples: NodeSamples, begin: int, end: int, least: float) -> list[Account] | Reason:
    """The accounts that are added up for a node, or why none are."""
    known = parts(samples)
    made = {part: account(samples.node, part, readings, begin, end) for part, readings in known.items()}
    good = {
        part: one
        for part, one in made.items()
        if one is not None and one.whole and (one.way == "counter" or one.seconds >= least)
    }
    for part in (METER, BOARD):
        if part in good:
            return [good[part]]
    wanted = [part for part in known if part == PROCESSORS or part.startswith(DEVICE)]
    if samples.devices and not any(part.startswith(DEVICE) for part in wanted):
        return reason("no-device-energy")
    if not wanted:
        return reason("no-energy-counter")
    if all(part in good for part in wanted):
        return [good[part] for part in wanted]
    if (end - begin) * 1e-9 < least:
        return reason("energy-window-short", seconds=least)
    return reason("samples-end-early")


def _how(ways: set[str], scopes: set[str]) -> Reason:
    if scopes == {PROCESSORS}:
        if len(ways) > 1:
            return reason("energy-by-counter-and-power")
        return reason("energy-by-counter") if "counter" in ways else reason("energy-by-power")
    way = reason("energy-way-both")
    if len(ways) == 1:
        way = reason("energy-way-counter") if "counter" in ways else reason("energy-way-power")
    if METER in scopes:
        return reason("energy-of-meter", way=way)
    if BOARD in scopes:
        return reason("energy-of-board", way=way)
    if PROCESSORS in scopes:
        return reason("energy-of-devices-and-processors", way=way)
    return reason("energy-of-devices", way=way)


def highest_power(nodes: Sequence[NodeSamples], times: Times) -> float | None:
    """The largest sum, over nodes, of what each drew at its own highest: an upper bound of what all drew at once."""
    total = 0.0
    for node, (begin, end) in times.items():
        samples = next((one for one in nodes if one.node == node), None)
        chosen = None if samples is None else _scope(samples, begin, end, 0.0)
        if chosen is None or isinstance(chosen, Reason) or any(one.highest is None for one in chosen):
            return None
        total += sum(one.highest or 0.0 for one in chosen)
    return total if times else None
