"""Was the machine the run's own? Samples of a node over a time → reasons why it was not.

A disturbed round still counts: the reasons and the number of such rounds stand beside the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.reasons import Reason, reason
from trainmark.spec.columns import NodeSamples, is_number

# Shares of the time. Above them a reader must know; docs/metrics.md says why these.
STEAL_LIMIT = 0.02
PSI_CPU_LIMIT = 0.10
PSI_MEMORY_LIMIT = 0.02
PSI_IO_LIMIT = 0.25
# Processors at work for others than the ranks and the agent: this many, or this share of the node if that is more.
FOREIGN_CORES = 0.25
FOREIGN_SHARE = 0.05
# The clock's tenth lowest per cent against its tenth highest.
CLOCK_DROP = 0.10
LEAST_CLOCKS = 5
_SHARES = ("steal", "psi_cpu", "psi_memory", "psi_io")

Times = Mapping[str, tuple[int, int]]


def disturbed(nodes: list[NodeSamples], times: Times) -> list[Reason]:
    """Reasons, each naming its node, over the given time of each node (on its own clock)."""
    found = []
    for samples in nodes:
        if samples.node in times:
            begin, end = times[samples.node]
            beside = [other for other in nodes if other is not samples and samples.machine == other.machine != ""]
            found += [reason("on-host", host=samples.host, why=why) for why in _node(samples, begin, end, beside)]
    return found


def _node(samples: NodeSamples, begin: int, end: int, beside: list[NodeSamples]) -> list[Reason]:
    """`beside`: nodes of the same run on the same machine. Their work, and waiting for it, is the run's own."""
    found = []
    foreign = foreign_cores(samples, begin, end, beside)
    limit = max(FOREIGN_CORES, FOREIGN_SHARE * (samples.cores or 0))
    own_waiting = bool(beside) and foreign is not None and foreign <= limit
    steal, cpu, memory, disks = (samples.mean(name, begin, end) or 0.0 for name in _SHARES)
    if steal > STEAL_LIMIT:
        found.append(reason("stolen-time", percent=100 * steal, limit=100 * STEAL_LIMIT))
    if cpu > PSI_CPU_LIMIT and not own_waiting:
        found.append(reason("waited-for-processor", percent=100 * cpu, limit=100 * PSI_CPU_LIMIT))
    if memory > PSI_MEMORY_LIMIT:
        found.append(reason("waited-for-memory", percent=100 * memory, limit=100 * PSI_MEMORY_LIMIT))
    if disks > PSI_IO_LIMIT:
        found.append(reason("waited-for-disks", percent=100 * disks, limit=100 * PSI_IO_LIMIT))
    if foreign is not None and foreign > limit:
        found.append(reason("other-programs", processors=foreign, limit=limit))
    return found + _clock(samples, begin, end)


def foreign_cores(samples: NodeSamples, begin: int, end: int, beside: Sequence[NodeSamples] = ()) -> float | None:
    """Processors at work for others: all that were busy, less those of the ranks and agents of this run."""
    if samples.cores is None:
        return None
    values = []
    for record in samples.within(begin, end):
        own = _own(record)
        if own is not None and is_number(record.get("cpu")):
            values.append(record["cpu"] * samples.cores - own)
    if not values:
        return None
    neighbours = [[own for record in other.within(begin, end) if (own := _own(record)) is not None] for other in beside]
    beside_us = sum(sum(loads) / len(loads) for loads in neighbours if loads)
    return float(sum(values) / len(values) - beside_us)


def _own(record: dict[str, Any]) -> float | None:
    """Processors at work for a node's ranks and agent. A rank's first sample has nothing to be compared with."""
    ranks = record.get("ranks")
    own = [rank.get("cpu") for rank in ranks.values()] if isinstance(ranks, dict) else []
    loads = [*own, record.get("agent_cpu")]
    return float(sum(loads)) if own and all(map(is_number, loads)) else None


def _clock(samples: NodeSamples, begin: int, end: int) -> list[Reason]:
    clocks = sorted(r["freq_mhz"] for r in samples.within(begin, end) if is_number(r.get("freq_mhz")))
    if len(clocks) < LEAST_CLOCKS:
        return []
    low, high = clocks[len(clocks) // 10], clocks[-1 - len(clocks) // 10]
    if high <= 0 or low >= (1 - CLOCK_DROP) * high:
        return []
    return [reason("clock-fell", high=high, low=low, limit=100 * CLOCK_DROP)]
