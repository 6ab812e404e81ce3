"""Why a step takes as long as it does: classes with intervals over rounds, and the few causes worth naming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.diagnosis import breakdown, collectives
from trainmark.score.diagnosis import spans as intervals
from trainmark.score.diagnosis.breakdown import (
    CLASSES,
    COMPUTE,
    COPIES,
    DATA,
    HOST,
    LAUNCH,
    TRANSFER,
    UNEXPLAINED,
    WAITING,
)
from trainmark.score.records import Cause, Diagnosis, Value
from trainmark.score.stats.confidence import plain_t

if TYPE_CHECKING:
    from trainmark.spec.columns import Trace

LEAST_ROUNDS = 3
MOST_CAUSES = 3
# A cause that would win less than this share of a step is not worth naming.
LEAST_SHARE = 0.01
DISAGREEMENT = 0.10
# Training without communication tells how much there is of it only where its interval is no wider, to either side.
PRECISE = 0.25
# An optimizer takes a few hundredths of a step; from this share on it is named.
OPTIMIZER_SHARE = 0.10
OPTIMIZER = "optimizer"


class RoundTrace(msgspec.Struct, frozen=True):
    """What the traces of one round say, in seconds per step."""

    # Rank → class → seconds.
    classes: dict[int, dict[str, float]]
    # Rank that waited → "last rank, what made it late" → seconds.
    waited: dict[int, dict[tuple[int, str], float]]
    overlap: float | None
    step: float
    operators: dict[str, float]
    largest_collective: str
    unmatched: int = 0
    graphs: bool = False
    # Seconds inside the optimizer's step, mean over ranks.
    optimizer: float = 0.0


class Observed(msgspec.Struct, frozen=True):
    """One block of diagnostic rounds. None: that round did not succeed, or has not all it should have."""

    trace: RoundTrace | None
    # Rank → seconds per step, untraced, and without sharing gradients.
    plain: dict[int, float] | None = None
    alone: dict[int, float] | None = None


def read_round(traces: Sequence[Trace]) -> RoundTrace:
    """The traces of all ranks of one round."""
    timelines = {trace.rank: breakdown.timeline(trace) for trace in traces}
    waits = collectives.waits(traces, timelines)
    classes, waited = {}, {}
    for rank, found in timelines.items():
        parts = breakdown.per_step(found, waits.of(rank))
        classes[rank] = {name: float(times.mean()) for name, times in parts.items()}
        waited[rank] = {
            key: intervals.length(intervals.both(found.exposed, spans)) / found.count
            for key, spans in waits.spans[rank].items()
        }
    overlaps = [value for found in timelines.values() if (value := found.overlap) is not None]
    steps = [sum(parts.values()) for parts in classes.values()]
    return RoundTrace(
        classes=classes,
        waited=waited,
        overlap=sum(overlaps) / len(overlaps) if overlaps else None,
        step=sum(steps) / len(steps),
        operators=_operators(traces),
        largest_collective=_largest(traces),
        unmatched=waits.unmatched,
        graphs=any(trace.graphs for trace in traces),
        optimizer=sum(trace.optimizer / len(trace.steps) for trace in traces) / len(traces),
    )


def _operators(traces: Sequence[Trace]) -> dict[str, float]:
    """Seconds per step of each operator, mean over ranks."""
    found: dict[str, float] = {}
    for trace in traces:
        for name, (seconds, _) in trace.operators.items():
            found[name] = found.get(name, 0.0) + seconds / len(trace.steps) / len(traces)
    return found


def _largest(traces: Sequence[Trace]) -> str:
    """The kind of call that took most time."""
    totals: dict[str, float] = {}
    for trace in traces:
        for one in trace.collectives:
            totals[one.group] = totals.get(one.group, 0.0) + intervals.length(one.spans)
    return max(totals, key=lambda name: totals[name]) if totals else ""


def diagnose(
    case: str, blocks: Sequence[Observed], hosts: Mapping[int, str], remarks: Sequence[Reason] = ()
) -> Diagnosis:
    """`hosts`: where each rank runs."""
    traces = [block.trace for block in blocks if block.trace is not None]
    classes = {name: _class(traces, name) for name in CLASSES}
    exposed = _over([_mean(one, TRANSFER) + _mean(one, WAITING) for one in traces])
    plain = _duration([_average(block.plain) for block in blocks if block.plain is not None])
    ablation = _ablation(blocks)
    both = [(block.trace.step, _average(block.plain)) for block in blocks if block.trace and block.plain]
    ranks = sorted({rank for one in traces for rank in one.classes})
    slowed = _average(dict(enumerate(traced - untraced for traced, untraced in both))) if both else 0.0
    causes, uncertain = list[Cause](), list[Cause]()
    if len(traces) >= LEAST_ROUNDS:
        causes, uncertain = _causes(traces, _communication(exposed, ablation, max(0.0, slowed)), exposed, hosts)
    return Diagnosis(
        case=case,
        rounds=len(traces),
        classes=classes,
        traced_step=_duration([one.step for one in traces]),
        plain_step=plain,
        slow_down=_over([traced / untraced - 1 for traced, untraced in both]),
        overlap=_over([one.overlap for one in traces if one.overlap is not None], reason("nothing-communicated")),
        by_trace=exposed,
        by_ablation=ablation,
        disagreement=_disagreement(exposed, ablation),
        causes=causes,
        uncertain=uncertain,
        ranks={str(rank): {name: _of_rank(traces, rank, name) for name in CLASSES} for rank in ranks},
        operators=_mean_operators(traces),
        remarks=[*remarks, *_remarks(traces)],
    )


def _over(values: Sequence[float], otherwise: Reason | None = None) -> Value:
    if not values:
        return Value(None, reason=otherwise or reason("in-no-round"))
    found = plain_t(values)
    if found is None or len(values) < LEAST_ROUNDS:
        return Value(None, reason=reason("few-rounds", rounds=len(values), least=LEAST_ROUNDS))
    return Value(*found)


def _duration(values: Sequence[float]) -> Value:
    """Cutting an interval at what cannot be keeps its coverage."""
    found = _over(values)
    return found if found.low is None else msgspec.structs.replace(found, low=max(0.0, found.low))


def _average(times: Mapping[int, float]) -> float:
    return sum(times.values()) / len(times)


def _mean(one: RoundTrace, name: str) -> float:
    return sum(parts[name] for parts in one.classes.values()) / len(one.classes)


def _of_rank(traces: Sequence[RoundTrace], rank: int, name: str) -> float:
    values = [one.classes[rank][name] for one in traces if rank in one.classes]
    return sum(values) / len(values)


def _class(traces: Sequence[RoundTrace], name: str) -> Value:
    if name in (HOST, LAUNCH, UNEXPLAINED) and any(one.graphs for one in traces):
        return Value(None, reason=reason("graphs-replayed"))
    return _duration([_mean(one, name) for one in traces])


def _ablation(blocks: Sequence[Observed]) -> Value:
    """Paired in each block: an untraced step minus one without communication, mean over ranks."""
    found = [
        _average({rank: block.plain[rank] - block.alone[rank] for rank in block.plain if rank in block.alone})
        for block in blocks
        if block.plain and block.alone and set(block.plain) & set(block.alone)
    ]
    return _over(found, reason("not-all-left-out"))


def _disagreement(trace: Value, ablation: Value) -> Reason | None:
    """More than a tenth between the two, and more than chance gives."""
    if trace.value is None or ablation.value is None or trace.low is None or trace.high is None:
        return None
    if ablation.low is None or ablation.high is None:
        return None
    larger = max(abs(trace.value), abs(ablation.value))
    apart = trace.low > ablation.high or ablation.low > trace.high
    if not larger or abs(trace.value - ablation.value) <= DISAGREEMENT * larger or not apart:
        return None
    share = abs(trace.value - ablation.value) / larger
    return reason(
        "trace-and-ablation-differ", trace_ms=1000 * trace.value, ablation_ms=1000 * ablation.value, percent=100 * share
    )


def _communication(exposed: Value, ablation: Value, slowed: float) -> float | None:
    """Seconds of communication that is not hidden. Training without it says how much a step would win; but a noisy
    ablation says nothing, and a call that stays in it is not seen by it. So what the trace shows is lowered by no more
    than tracing itself slowed the steps down."""
    if exposed.value is None or ablation.value is None or ablation.low is None or ablation.high is None:
        return exposed.value
    if ablation.high - ablation.low > 2 * PRECISE * abs(ablation.value):
        return exposed.value
    return max(ablation.value, exposed.value - slowed)


def _causes(
    traces: Sequence[RoundTrace], communication: float | None, exposed: Value, hosts: Mapping[int, str]
) -> tuple[list[Cause], list[Cause]]:
    """What all ranks lose, each by itself; what sending takes; what one rank makes the others lose; the optimizer where
    it takes a large share. Those that are certain, and those that may be nothing, the largest first."""
    step = sum(one.step for one in traces) / len(traces)
    found = [
        _cause(kind, [min(parts[kind] for parts in one.classes.values()) for one in traces], step, place)
        for kind, place in (
            (DATA, reason("in-data-loader")),
            (HOST, reason("in-host-program")),
            (COPIES, reason("in-copies")),
            (LAUNCH, reason("in-operator-starts")),
        )
        if kind not in (HOST, LAUNCH) or not any(one.graphs for one in traces)
    ]
    # The trace says how it divides.
    scale = communication / exposed.value if communication is not None and exposed.value else 1.0
    places = sorted(set(hosts.values()))
    where = reason("in-communication", ranks=len(hosts), hosts=places[:4])
    if traces[0].largest_collective:
        where = reason("in-collective", call=traces[0].largest_collective, ranks=len(hosts), hosts=places[:4])
    found.append(_cause(TRANSFER, [scale * _mean(one, TRANSFER) for one in traces], step, where))
    for rank in sorted({last for one in traces for waits in one.waited.values() for last, _ in waits}):
        found.append(_straggler(traces, rank, step, hosts))
    optimizer = _cause(OPTIMIZER, [one.optimizer for one in traces], step, reason("in-optimizer"))
    found += [optimizer] if optimizer.share >= OPTIMIZER_SHARE else []
    worth = sorted((one for one in found if one.share >= LEAST_SHARE), key=lambda one: -(one.seconds.value or 0.0))
    certain = [one for one in worth if one.seconds.low is not None and one.seconds.low > 0]
    return certain[:MOST_CAUSES], [one for one in worth if one not in certain][:MOST_CAUSES]


def _straggler(traces: Sequence[RoundTrace], rank: int, step: float, hosts: Mapping[int, str]) -> Cause:
    """The longest that any other rank waited for this one, and what made it late most of the time."""
    times, reasons = [], dict.fromkeys((COMPUTE, DATA, HOST, COPIES), 0.0)
    for one in traces:
        waits = [{why: s for (last, why), s in waited.items() if last == rank} for waited in one.waited.values()]
        longest = max(waits, key=lambda by_reason: sum(by_reason.values()))
        times.append(sum(longest.values()))
        for why, seconds in longest.items():
            reasons[why] += seconds
    why = max(reasons, key=lambda name: reasons[name])
    host = hosts.get(rank, "?")
    place = {
        COMPUTE: reason("late-by-computing", rank=rank, host=host),
        DATA: reason("late-by-data", rank=rank, host=host),
        HOST: reason("late-by-host-program", rank=rank, host=host),
        COPIES: reason("late-by-copies", rank=rank, host=host),
    }[why]
    return _cause(WAITING, times, step, place)


def _cause(kind: str, values: Sequence[float], step: float, place: Reason) -> Cause:
    found = _over(values)
    return Cause(kind, found, (found.value or 0.0) / step if step else 0.0, place)


def _mean_operators(traces: Sequence[RoundTrace]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in traces:
        for name, seconds in one.operators.items():
            found[name] = found.get(name, 0.0) + seconds / len(traces)
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def _remarks(traces: Sequence[RoundTrace]) -> list[Reason]:
    unmatched = sum(one.unmatched for one in traces)
    return [reason("collectives-unmatched", calls=unmatched)] if unmatched else []
