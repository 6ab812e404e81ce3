"""How fast more nodes would be: a model of scaling over whole nodes, with a prediction interval. Pure.

Every doubling of nodes costs a share of the speed; the next one costs `fade` times as much (a ring's all-reduce over
N nodes takes (N − 1) ÷ N of its full time, which makes a fade of ½). The fade, and how far the truth lies from the
model, are taken from published tables: see `calibrate`. Losses are logarithms: 0.05 is 5 %.

Several nodes meet on a network that one node does not have. So nothing is predicted for them before a speed on two or
more nodes was measured, or at least how long the gradients take between two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from trainmark.errors import UserError
from trainmark.reasons import Reason, reason
from trainmark.score.records import Flag
from trainmark.score.stats.confidence import t_limit
from trainmark.score.stats.verdict import geometric_mean, variance
from trainmark.score.studies.published import COLUMNS, TABLES
from trainmark.score.studies.scaling import ScalePoint

# Of prediction intervals.
LEVEL = 0.90
# Tables tell of one doubling beyond what they begin with. More than this many times the nodes that were measured is far
# outside: whether losses go on to fade, or grow as Amdahl's law has it, is not known there.
FAR = 2.0
# Errors grow with the loss itself; this much loss is added, so that they do not vanish with it.
_FLOOR = 0.1


class Calibration(msgspec.Struct, frozen=True):
    """What published tables teach: the fade, and how far losses lay below and above it, in units of (loss + floor)."""

    fade: float
    below: float
    above: float
    rows: int


class Prediction(msgspec.Struct, frozen=True):
    """Throughput of `nodes` nodes, with the interval in which 90 % of such predictions hold."""

    nodes: int
    procs: int
    value: float
    low: float
    high: float
    efficiency: float
    method: list[Reason]
    notes: list[Reason] = []
    # What is wrong with it, though it is given.
    flags: list[Flag] = []


class Doubling(msgspec.Struct, frozen=True):
    """One row of a table: what the first doubling of nodes cost, and what the second did."""

    table: str
    row: str
    first: float
    second: float


def published() -> list[Doubling]:
    """Every published row with one, two and four full nodes."""
    full = [COLUMNS.index((nodes, 8)) for nodes in (1, 2, 4)]
    found = []
    for table, rows in TABLES.items():
        for name, row in rows.items():
            one, two, four = (row[index] for index in full)
            if one and two and four:
                found.append(Doubling(table, name, math.log(2 * one / two), math.log(2 * two / four)))
    return found


def calibrate(rows: Sequence[Doubling], level: float = LEVEL) -> Calibration:
    """The fade is the median of second ÷ first loss, weighted by the first; errors are quantiles of what is left."""
    shares = sorted((row.second / row.first, row.first) for row in rows if row.first > 0)
    half, seen, fade = sum(weight for _, weight in shares) / 2, 0.0, 0.0
    for share, weight in shares:
        seen, fade = seen + weight, share
        if seen >= half:
            break
    errors = [(row.second - fade * row.first) / _scale(row.first) for row in rows]
    tail = (1 - level) / 2
    return Calibration(fade, -_quantile([-error for error in errors], 1 - tail), _quantile(errors, 1 - tail), len(rows))


@cache
def calibration() -> Calibration:
    """From all published rows."""
    return calibrate(published())


def _scale(loss: float) -> float:
    return _FLOOR + max(0.0, loss)


def _quantile(values: Sequence[float], share: float) -> float:
    """So high that one more value lies below it with at least that chance."""
    ordered = sorted(values)
    return ordered[min(len(ordered), math.ceil((len(ordered) + 1) * share)) - 1]


def next_loss(first: float, found: Calibration) -> tuple[float, float, float]:
    """What the next doubling costs when the last one cost `first`: lowest, likely, highest."""
    likely = found.fade * first
    return likely + found.below * _scale(first), likely, likely + found.above * _scale(first)


def predict(
    points: Sequence[ScalePoint], nodes: int, all_reduce: float | None = None, found: Calibration | None = None
) -> Prediction:
    """Speed on `nodes` whole nodes, from the measured points of one study.

    `all_reduce`: seconds that the gradients take between two nodes, as a share of a step on one node. It may stand in
    for a speed on two nodes: the truth lies between hidden behind computing and not hidden at all.
    """
    found = found or calibration()
    whole, procs = _whole_nodes(points)
    counts = [point.nodes for point in whole]
    if nodes in counts:
        raise UserError(f"{nodes}x{procs} was measured; there is nothing to predict")
    if nodes < counts[-1]:
        raise UserError(
            f"{nodes} nodes lie below the largest measured {counts[-1]}x{procs}; only more can be predicted"
        )
    last = whole[-1]
    further, notes = math.log2(nodes / last.nodes), list[Reason]()
    if len(whole) >= 2:
        loss = _last_loss(whole, found)
        totals = _totals((loss, loss, loss), further, found)
        method = reason("loss-per-doubling", first=f"{whole[-2].nodes}x{procs}", second=f"{last.nodes}x{procs}")
    elif all_reduce is not None and last.nodes == 1:
        totals = _over_the_border(all_reduce, further, found)
        method = reason("all-reduce-share", percent=100 * all_reduce)
        notes.append(reason("two-nodes-not-measured"))
    else:
        raise UserError(_too_few(whole, procs))
    flags = []
    if nodes > FAR * last.nodes:
        totals = (totals[0], totals[1], max(totals[2], _amdahl(totals, last.nodes, nodes, found)))
        why = reason("far-outside", times=nodes / last.nodes, largest=f"{last.nodes}x{procs}")
        flags.append(Flag("severe" if nodes > 2 * FAR * last.nodes else "warning", why))
    spread, more = _spread(whole, further, found)
    notes += more
    base = math.log(geometric_mean(last.speeds)) + math.log(nodes / last.nodes)
    value, low, high = (math.exp(base - total) for total in (totals[1], totals[2] + spread, totals[0] - spread))
    single = whole[0]
    efficiency = value / nodes / (geometric_mean(single.speeds) / single.nodes)
    fade = reason("fade-from-tables", fade=found.fade, rows=found.rows)
    against = reason("efficiency-against", configuration=f"{single.nodes}x{procs}")
    return Prediction(nodes, procs, value, low, high, efficiency, [method, fade, against], notes, flags)


def _whole_nodes(points: Sequence[ScalePoint]) -> tuple[list[ScalePoint], int]:
    """Points with as many processes per node as the largest has: only those differ by nodes alone."""
    known = [point for point in points if point.speeds]
    if not known:
        raise UserError("not enough points: no configuration has a speed")
    procs = max(known, key=lambda point: (point.nodes, point.procs)).procs
    return sorted((point for point in known if point.procs == procs), key=lambda point: point.nodes), procs


def _too_few(whole: Sequence[ScalePoint], procs: int) -> str:
    seen = ", ".join(f"{point.nodes}x{point.procs}" for point in whole)
    if whole[-1].nodes == 1:
        return (
            f"not enough points: measured is {seen}, and what lies between nodes is not known from inside of one; "
            f"measure 2x{procs}, or how long the gradients take between two nodes (`trainmark peaks --site FILE`, or "
            "--all-reduce)"
        )
    return f"not enough points: measured is {seen}; measure {whole[-1].nodes // 2 or 1}x{procs} too"


def _last_loss(whole: Sequence[ScalePoint], found: Calibration) -> float:
    """What the last doubling cost. Between points that lie further apart, losses fade on the way."""
    before, last = whole[-2], whole[-1]
    doublings = math.log2(last.nodes / before.nodes)
    total = math.log(last.nodes / before.nodes) - math.log(geometric_mean(last.speeds) / geometric_mean(before.speeds))
    parts = [min(1.0, doublings - index) * found.fade**index for index in range(math.ceil(doublings))]
    return total / sum(parts) * found.fade ** (math.ceil(doublings) - 1)


def _totals(losses: Iterable[float], doublings: float, found: Calibration) -> tuple[float, float, float]:
    """All further doublings together: lowest, likely, highest. Errors of doublings are taken to go the same way."""
    low, likely, high = losses
    totals = [0.0, 0.0, 0.0]
    for index in range(math.ceil(doublings)):
        share = min(1.0, doublings - index)
        low, likely, high = next_loss(low, found)[0], next_loss(likely, found)[1], next_loss(high, found)[2]
        # More than linear may happen once; it does not go on.
        low = max(0.0, low) if index else low
        for place, loss in enumerate((low, likely, high)):
            totals[place] += share * loss
    return totals[0], totals[1], totals[2]


def _amdahl(totals: tuple[float, float, float], last: int, nodes: int, found: Calibration) -> float:
    """The loss up to `nodes` if the highest loss of the next doubling is that of a serial share: it does not fade."""
    # Of the highest totals, the first doubling's share.
    doublings = math.ceil(math.log2(nodes / last))
    fades = [found.fade**index for index in range(doublings)]
    first = max(0.0, min(totals[2] / sum(fades), 0.99 * math.log(2)))
    ratio = math.exp(first)
    serial = (ratio - 1) / (2 * last - 1 - ratio * (last - 1))
    return math.log((1 + serial * (nodes - 1)) / (1 + serial * (last - 1)))


def _over_the_border(all_reduce: float, doublings: float, found: Calibration) -> tuple[float, float, float]:
    """The first doubling costs nothing at best and the whole all-reduce at worst; the others follow from it."""
    exposed = math.log1p(all_reduce)
    first = (0.0, exposed / 2, exposed)
    rest = _totals(first, doublings - 1, found)
    share = min(1.0, doublings)
    return share * first[0] + rest[0], share * first[1] + rest[1], share * first[2] + rest[2]


def _spread(whole: Sequence[ScalePoint], doublings: float, found: Calibration) -> tuple[float, list[Reason]]:
    """What the runs' own spread adds to either side. Noise in the last point moves the loss and the start alike."""
    ends = whole[-2:]
    if any(len(point.speeds) < 2 for point in ends):
        return 0.0, [reason("one-run-at-a-point")]
    gain = sum(min(1.0, doublings - index) * found.fade ** (index + 1) for index in range(math.ceil(doublings)))
    weights = [1 + gain] if len(ends) == 1 else [gain, 1 + gain]
    total, freedom = 0.0, min(len(point.speeds) for point in ends) - 1
    for weight, point in zip(weights, ends, strict=True):
        total += weight**2 * variance([math.log(speed) for speed in point.speeds]) / len(point.speeds)
    return t_limit(freedom, LEVEL) * math.sqrt(total), []
