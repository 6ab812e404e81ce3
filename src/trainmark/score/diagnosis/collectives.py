"""Collectives matched over ranks: the shortest duration is the transfer, the rest is waiting for the last rank.

Only durations are compared, never clocks of different ranks: all end together, so the rank that was in it for the
shortest time came last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from trainmark.score.diagnosis import spans as intervals
from trainmark.score.diagnosis.breakdown import HOST, Timeline

if TYPE_CHECKING:
    from trainmark.spec.columns import Collectives, Floats, Trace


class Matched(msgspec.Struct, frozen=True, eq=False):
    """One call: its span on every rank that took part, and who came last."""

    spans: dict[int, tuple[float, float]]
    transfer: float
    last: int


class Waits(msgspec.Struct, frozen=True, eq=False):
    """When each rank waited, for whom and why: (last rank, what made it late) → spans apart from each other."""

    spans: dict[int, dict[tuple[int, str], Floats]]
    unmatched: int = 0

    def of(self, rank: int) -> Floats:
        return intervals.join(self.spans.get(rank, {}).values())


def waits(traces: Sequence[Trace], timelines: Mapping[int, Timeline]) -> Waits:
    matched, unmatched = match(traces)
    causes = _causes(matched, timelines)
    found: dict[int, dict[tuple[int, str], list[tuple[float, float]]]] = {trace.rank: {} for trace in traces}
    for trace in traces:
        reached = float("-inf")
        mine = [(one, why) for one, why in zip(matched, causes, strict=True) if trace.rank in one.spans]
        for one, why in sorted(mine, key=lambda pair: pair[0].spans[trace.rank]):
            begin, end = one.spans[trace.rank]
            until = end - one.transfer
            # Calls run side by side: time that an earlier one has taken is not taken twice.
            if one.last != trace.rank and until > max(begin, reached):
                found[trace.rank].setdefault((one.last, why), []).append((max(begin, reached), until))
                reached = until
    import numpy as np

    return Waits(
        {rank: {key: intervals.union(np.array(rows)) for key, rows in waits.items()} for rank, waits in found.items()},
        unmatched,
    )


def match(traces: Sequence[Trace]) -> tuple[list[Matched], int]:
    """Calls by process group and order, and how many have no counterpart."""
    groups: dict[str, dict[int, Floats]] = {}
    for trace in traces:
        low, high = float(trace.steps[0, 0]), float(trace.steps[-1, 1])
        for one in trace.collectives:
            if one.joint:
                groups.setdefault(one.group, {})[trace.rank] = _in_order(one, low, high)
    matched: list[Matched] = []
    unmatched = 0
    for ranks in groups.values():
        counts = [len(spans) for spans in ranks.values()]
        unmatched += sum(counts) - len(counts) * min(counts)
        if len(ranks) > 1:
            matched += [_matched(ranks, index) for index in range(min(counts))]
    return matched, unmatched


def _in_order(one: Collectives, low: float, high: float) -> Floats:
    spans = one.spans[(one.spans[:, 0] >= low) & (one.spans[:, 0] < high)]
    ordered: Floats = spans[spans[:, 0].argsort(kind="stable")]
    return ordered


def _matched(ranks: Mapping[int, Floats], index: int) -> Matched:
    spans = {rank: (float(rows[index, 0]), float(rows[index, 1])) for rank, rows in ranks.items()}
    last = min(spans, key=lambda rank: spans[rank][1] - spans[rank][0])
    return Matched(spans, spans[last][1] - spans[last][0], last)


def _causes(matched: Sequence[Matched], timelines: Mapping[int, Timeline]) -> list[str]:
    """What the last rank did longer than the others since the call before; while calls run side by side, as before."""
    import numpy as np

    spent = {rank: _spent(matched, rank, found) for rank, found in timelines.items()}
    causes = [HOST] * len(matched)
    former = HOST
    for index in sorted(range(len(matched)), key=lambda i: matched[i].spans[matched[i].last]):
        one = matched[index]
        others = [spent[rank] for rank in one.spans if rank != one.last]
        excess = {
            name: float(times[index]) - float(np.median([other[name][index] for other in others]))
            for name, times in spent[one.last].items()
        }
        largest = max(excess, key=lambda name: excess[name])
        former = causes[index] = largest if excess[largest] > 0 else former
    return causes


def _spent(matched: Sequence[Matched], rank: int, found: Timeline) -> dict[str, Floats]:
    """What the rank did between the end of all earlier calls and each call, in seconds; NaN where it took no part."""
    import numpy as np

    rows = np.full((len(matched), 2), np.nan)
    reached = float(found.steps[0, 0])
    for index in sorted(
        (i for i, one in enumerate(matched) if rank in one.spans), key=lambda i: matched[i].spans[rank]
    ):
        begin, end = matched[index].spans[rank]
        rows[index] = reached, max(reached, begin)
        reached = max(reached, end)
    return {name: intervals.within(spans, rows) for name, spans in found.local().items()}
