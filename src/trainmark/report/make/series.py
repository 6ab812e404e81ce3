"""What changes over a round, as curves that a screen can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainmark.report.charts.axes import thin
from trainmark.report.charts.records import Curve, RankCurve
from trainmark.report.records import RunSeries
from trainmark.score.figures import convergence
from trainmark.score.figures.steps import grid
from trainmark.spec.band import Stretch
from trainmark.spec.columns import Columns, NodeSamples, RankColumns, is_number

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats

_SAMPLED = (("cpu", "fraction"), ("mem_used", "bytes"), ("power_w", "W"), ("board_w", "W"))
_OF_DEVICES = (("utilisation", "fraction"), ("memory_used", "bytes"), ("power_w", "W"), ("temperature_c", "°C"))

# Ranks whose own curves are shown.
_MOST_RANKS = 16


def curves_of(read: Columns, nodes: Sequence[NodeSamples], band: Sequence[Stretch]) -> RunSeries:
    ranks = read.ranks
    made = [rank for rank in ranks if rank.steps is not None]
    steps, losses = _losses(made) if made else ([], [])
    return RunSeries(
        step_time=_step_time(ranks) if made else None,
        loss=_curve("loss", "loss", steps, losses) if steps else None,
        evaluations=_evaluations(ranks),
        band_low=_edge("lowest", band, [part.low for part in band]),
        band_high=_edge("highest", band, [part.high for part in band]),
        band_means=_means(band, dict(zip(steps, losses, strict=True))),
        utilisation=[curve for samples in nodes for curve in _sampled(samples, ranks)],
    )


def curves_of_ranks(read: Columns) -> list[RankCurve]:
    """Of each of the first ranks, by step: how long it took, how long it waited for data, and its loss. Where a rank's
    host does not know when a step ends, its times are those of blocks, and not shown."""
    import numpy as np

    found = []
    for rank in read.ranks[:_MOST_RANKS]:
        own = rank.steps
        if own is None or len(own.step) < 2:
            continue
        x = own.step[1:].astype(float).tolist()
        shown: list[tuple[str, str, Floats]] = []
        if rank.timing == "host":
            shown.append(("step time", "s", np.diff(own.t).astype(np.float64) * 1e-9))
        if own.data.any():
            shown.append(("data wait", "s", own.data[1:].astype(np.float64) * 1e-9))
        if not np.isnan(own.loss[1:]).all():
            shown.append(("loss", "loss", own.loss[1:]))
        for name, unit, values in shown:
            made = _curve(name, unit, x, [None if value != value else value for value in values.tolist()])
            found.append(RankCurve(made.name, made.unit, made.x, made.y, rank.rank))
    return found


def _edge(name: str, band: Sequence[Stretch], values: Sequence[float]) -> Curve | None:
    """One edge of the reference band: level over each stretch of steps."""
    if not band:
        return None
    x = [float(step) for part in band for step in (part.first, part.last)]
    return Curve(name, "", x, [value for value in values for _ in range(2)])


def _means(band: Sequence[Stretch], losses: dict[float, float]) -> Curve | None:
    """As the correctness gate takes them; a stretch without losses is left out."""
    x, y = list[float](), list[float | None]()
    for part in band:
        seen = [losses[step] for step in range(part.first, part.last + 1) if step in losses]
        if seen:
            x += [float(part.first), float(part.last)]
            y += [sum(seen) / len(seen)] * 2
    return Curve("mean", "", x, y) if x else None


def _curve(name: str, unit: str, x: Sequence[float], y: Sequence[float | None]) -> Curve:
    known = [float(value) if value is not None and is_number(value) else None for value in y]
    xs, ys = thin([float(value) for value in x], known)
    return Curve(name, unit, list(xs), list(ys))


def _step_time(ranks: Sequence[RankColumns]) -> Curve | None:
    found = grid(ranks)
    if found is None:
        return None
    values = found.series(found.slowest(0, len(found.edges) - 1))
    return _curve("step time", "s", found.edges[1:].tolist(), values.tolist())


def _losses(ranks: Sequence[RankColumns]) -> tuple[list[float], list[float]]:
    """Steps, and the mean loss over ranks at each, at the steps of the rank that made most."""
    import numpy as np

    parts = [rank.steps for rank in ranks if rank.steps is not None]
    base = max(parts, key=lambda part: len(part.step)).step
    total: Floats = np.zeros(len(base))
    count = np.zeros(len(base))
    for part in parts:
        known_loss = ~np.isnan(part.loss)
        at = np.minimum(np.searchsorted(base, part.step[known_loss]), len(base) - 1)
        same = base[at] == part.step[known_loss]
        total[at[same]] += part.loss[known_loss][same]
        count[at[same]] += 1
    known = np.flatnonzero(count)
    return base[known].astype(float).tolist(), (total[known] / count[known]).tolist()


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
    return [*found, *_of_devices(samples, begin)]


def _of_devices(samples: NodeSamples, begin: int) -> list[Curve]:
    """The devices that ranks had, by the moments at which they were read."""
    read: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for record in samples.records:
        devices = record.get("devices")
        at = record["devices_t"] if isinstance(record.get("devices_t"), int) else record["t"]
        for place, one in enumerate(devices if isinstance(devices, list) else []):
            index = one.get("index", place) if isinstance(one, dict) else None
            if index is None or (samples.devices is not None and index not in samples.devices):
                continue
            for name, _ in _OF_DEVICES:
                if is_number(one.get(name)):
                    read.setdefault((name, index), []).append(((at - begin) * 1e-9, float(one[name])))
    return [
        _curve(f"{samples.host} {index} device_{name}", unit, [x for x, _ in points], [y for _, y in points])
        for name, unit in _OF_DEVICES
        for (of, index), points in sorted(read.items())
        if of == name
    ]
