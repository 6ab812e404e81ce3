"""What changes over a round, as curves that a screen can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainmark.report.records import Curve, RunSeries
from trainmark.score import convergence
from trainmark.score.steps import grid
from trainmark.spec.columns import Columns, NodeSamples, RankColumns, is_number

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats

MOST_POINTS = 400
_SAMPLED = (("cpu", "fraction"), ("mem_used", "bytes"), ("power_w", "W"))


def curves_of(read: Columns, nodes: Sequence[NodeSamples]) -> RunSeries:
    ranks = read.ranks
    made = [rank for rank in ranks if rank.steps is not None]
    return RunSeries(
        step_time=_step_time(ranks) if made else None,
        loss=_loss(made) if made else None,
        evaluations=_evaluations(ranks),
        utilisation=[curve for samples in nodes for curve in _sampled(samples, ranks)],
    )


def thin(x: Sequence[float], y: Sequence[float | None]) -> tuple[list[float], list[float | None]]:
    """At most MOST_POINTS of the points; of each stretch its lowest and its highest stay."""
    if len(x) <= MOST_POINTS:
        return list(x), list(y)
    stretches = MOST_POINTS // 2
    kept: list[int] = []
    for number in range(stretches):
        stretch = range(number * len(x) // stretches, (number + 1) * len(x) // stretches)
        known = [(value, at) for at in stretch if (value := y[at]) is not None]
        kept += sorted({min(known)[1], max(known)[1]}) if known else [stretch[0]]
    return [x[at] for at in kept], [y[at] for at in kept]


def _curve(name: str, unit: str, x: Sequence[float], y: Sequence[float | None]) -> Curve:
    known = [float(value) if value is not None and is_number(value) else None for value in y]
    return Curve(name, unit, *thin([float(value) for value in x], known))


def _step_time(ranks: Sequence[RankColumns]) -> Curve | None:
    found = grid(ranks)
    if found is None:
        return None
    values = found.series(found.slowest(0, len(found.edges) - 1))
    return _curve("step time", "s", found.edges[1:].tolist(), values.tolist())


def _loss(ranks: Sequence[RankColumns]) -> Curve | None:
    """The mean over ranks, at the steps of the rank that made most."""
    import numpy as np

    parts = [rank.steps for rank in ranks if rank.steps is not None]
    base = max(parts, key=lambda part: len(part.step)).step
    total: Floats = np.zeros(len(base))
    count = np.zeros(len(base))
    for part in parts:
        told = ~np.isnan(part.loss)
        at = np.minimum(np.searchsorted(base, part.step[told]), len(base) - 1)
        same = base[at] == part.step[told]
        total[at[same]] += part.loss[told][same]
        count[at[same]] += 1
    known = np.flatnonzero(count)
    if not len(known):
        return None
    return _curve("loss", "loss", base[known].tolist(), (total[known] / count[known]).tolist())


def _evaluations(ranks: Sequence[RankColumns]) -> list[Curve]:
    events = convergence.evaluations(ranks)
    names = sorted({name for event in events for name, value in event.values.items() if is_number(value)})
    return [
        _curve(name, name, [float(event.step or 0) for event in events], [event.values.get(name) for event in events])
        for name in names
    ]


def _sampled(samples: NodeSamples, ranks: Sequence[RankColumns]) -> list[Curve]:
    """By seconds since the first event of the node's own ranks: clocks of two nodes have nothing in common."""
    begin = min((rank.first for rank in ranks if rank.node == samples.node), default=None)
    if begin is None:
        return []
    x = [(record["t"] - begin) * 1e-9 for record in samples.records]
    found = []
    for name, unit in _SAMPLED:
        y = [record.get(name) for record in samples.records]
        if any(map(is_number, y)):
            found.append(_curve(f"{samples.host} {name}", unit, x, y))
    return found
