"""Figures of the steps in a window: how long single steps take, who is late, who waits for data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from trainmark.reasons import reason
from trainmark.score.figures import steady
from trainmark.score.figures import steps as grids
from trainmark.score.figures.definitions import PERCENTILES
from trainmark.score.figures.figure import Figure
from trainmark.score.figures.steps import NS, Grid
from trainmark.score.figures.window import Found
from trainmark.spec.columns import RankColumns

BINS = 30
NOT_EXACT = reason("steps-not-timed")


def figures(grid: Grid, found: Found, ranks: Sequence[RankColumns]) -> dict[str, Figure]:
    names = [f"step_time_{name}" for name in PERCENTILES]
    net = grid.net(found.first, found.last)
    middle = steady.median(net)
    waited = float((grid.data[:, found.last] - grid.data[:, found.first]).max()) * NS
    figures = dict.fromkeys(names, Figure(None, NOT_EXACT))
    if grids.exact(ranks):
        values = steady.quantiles(found.series, (0.5, 0.9, 0.99, 1.0))
        figures = {name: Figure(value) for name, value in zip(names, values, strict=True)}
    spread = float(net.max()) / middle - 1 if middle > 0 else None
    figures["straggler"] = Figure(None, reason("single-rank"))
    if spread is not None and len(net) > 1:
        figures["straggler"] = Figure(spread, how=reason("slowest-rank", rank=grid.ranks[found.row]))
    figures["data_wait"] = Figure(waited / found.window.seconds)
    return figures


def histogram(found: Found, ranks: Sequence[RankColumns]) -> tuple[list[float], list[int]]:
    """Edges and counts of step times; empty where single steps cannot be spoken of."""
    if not grids.exact(ranks):
        return [], []
    # (As `np.histogram` does it, which takes three times as long.)
    ordered = np.sort(found.series)
    low, high = float(ordered[0]), float(ordered[-1])
    edges = np.linspace(low, high, BINS + 1) if low < high else np.linspace(low - 0.5, high + 0.5, BINS + 1)
    below = [0, *ordered.searchsorted(edges[1:-1]).tolist(), len(ordered)]
    return edges.tolist(), [after - before for before, after in pairwise(below)]
