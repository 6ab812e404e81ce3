"""Energy over a window, from counters at its edges; integrated power only where there is no counter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trainmark.reasons import Reason, reason
from trainmark.score.figures.contention import Times
from trainmark.score.records import Figure
from trainmark.spec.columns import NodeSamples, is_number

# Power is sampled once a second: shorter windows would rest on too few values.
LEAST_SECONDS = 60.0


def energy(nodes: Sequence[NodeSamples], times: Times) -> Figure:
    """Joules of the processor packages of all nodes (RAPL), and how they were found. A node that is missing means no
    total."""
    by_name = {samples.node: samples for samples in nodes}
    total, ways = 0.0, set[str]()
    for node, (begin, end) in sorted(times.items()):
        samples = by_name.get(node)
        if samples is None or not samples.records:
            return Figure(None, reason("on-host", host=node, why=reason("nothing-sampled")))
        way, joules = "counter", _counted(samples, begin, end)
        if joules is None:
            way, joules = "power", _integrated(samples, begin, end)
        if joules is None:
            return Figure(None, reason("on-host", host=samples.host, why=_why(samples, begin, end)))
        ways.add(way)
        total += joules
    if not times:
        return Figure(None, reason("no-window"))
    if len(ways) > 1:
        return Figure(total, how=reason("energy-by-counter-and-power"))
    return Figure(total, how=reason("energy-by-counter") if "counter" in ways else reason("energy-by-power"))


def _why(samples: NodeSamples, begin: int, end: int) -> Reason:
    if not any(is_number(record.get(name)) for record in samples.records for name in ("energy_uj", "power_w")):
        return reason("no-energy-counter")
    if (end - begin) * 1e-9 < LEAST_SECONDS:
        return reason("energy-window-short", seconds=LEAST_SECONDS)
    return reason("samples-end-early")


def _counted(samples: NodeSamples, begin: int, end: int) -> float | None:
    """From the counter's values at both edges, each between the two samples around it."""
    points = [(r["t"], r["energy_uj"]) for r in samples.records if is_number(r.get("energy_uj"))]
    early, late = _at(points, begin), _at(points, end)
    return (late - early) * 1e-6 if early is not None and late is not None and late >= early else None


def _at(points: Sequence[tuple[int, float]], t: int) -> float | None:
    for (before, low), (after, high) in pairwise(points):
        if before <= t <= after and after > before:
            return low + (high - low) * (t - before) / (after - before)
    return None


def _integrated(samples: NodeSamples, begin: int, end: int) -> float | None:
    """Each sample's power is the mean of the interval that it ends."""
    if (end - begin) * 1e-9 < LEAST_SECONDS:
        return None
    total, covered = 0.0, 0
    for before, after in pairwise(samples.records):
        since, until = max(begin, before["t"]), min(end, after["t"])
        if until > since and is_number(after.get("power_w")):
            total += after["power_w"] * (until - since) * 1e-9
            covered += until - since
    return total if covered >= 0.99 * (end - begin) else None
