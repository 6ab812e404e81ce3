"""Which steps count, whether the run was steady over them, and what single steps in that window show. Only steady steps
give a headline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.figures import steady, steps
from trainmark.score.figures.definitions import PERCENTILES
from trainmark.score.figures.steps import NS, Grid
from trainmark.score.records import Figure, Outcome, Window
from trainmark.spec.rules import FixedWindow

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats, RankColumns

LEAST_STEPS = 30
LEAST_SECONDS = 10.0
# Of the histogram of step times.
BINS = 30
NOT_EXACT = reason("steps-not-timed")


class FoundWindow(msgspec.Struct, frozen=True, eq=False):
    """A window, the positions of its edges in the grid, and the rank (row) that was slowest in it."""

    window: Window
    first: int
    last: int
    row: int
    # Seconds per step of that rank.
    series: Floats


def find(grid: Grid, fixed: FixedWindow | None = None) -> FoundWindow | Reason:
    """The window, or why there is none."""
    if fixed is not None:
        return _fixed(grid, fixed)
    last = len(grid.edges) - 1
    first = steady.start(grid.series(grid.slowest(0, last)))
    return _measure(grid, first, last, None)


def _fixed(grid: Grid, fixed: FixedWindow) -> FoundWindow | Reason:
    import numpy as np

    ends = np.searchsorted(grid.edges, (fixed.skip, fixed.skip + fixed.steps)).tolist()
    if ends[1] >= len(grid.edges) or grid.edges[ends[1]] != fixed.skip + fixed.steps:
        return reason("window-ends-late", skip=fixed.skip, steps=fixed.steps, last=int(grid.edges[-1]))
    if grid.edges[ends[0]] != fixed.skip:
        return reason("window-begins-between", skip=fixed.skip, steps=fixed.steps)
    return _measure(grid, ends[0], ends[1], fixed)


def _measure(grid: Grid, first: int, last: int, fixed: FixedWindow | None) -> FoundWindow | Reason:
    row = grid.slowest(first, last)
    seconds = float(grid.net(first, last)[row])
    if seconds <= 0:
        return reason("steps-took-no-time")
    before, end = int(grid.edges[first]), int(grid.edges[last])
    series = grid.series(row)[first:last]
    outcome: Outcome = "fixed"
    if fixed is None:
        method = reason("repeated-split")
        outcome, flaw = _judge(before, end, seconds, grid, first, series)
    else:
        method, flaw = reason("fixed-window", skip=fixed.skip, steps=fixed.steps), None
    window = Window(
        before=before,
        last=end,
        seconds=seconds,
        # The slowest rank's own duration: clocks of different ranks are never subtracted from each other.
        sustained_seconds=float(grid.span(first, last).max()),
        samples=int((grid.n[:, last] - grid.n[:, first]).sum()),
        outcome=outcome,
        method=method,
        reason=flaw,
    )
    return FoundWindow(window, first, last, row, series)


def _judge(
    before: int, end: int, seconds: float, grid: Grid, first: int, series: Floats
) -> tuple[Outcome, Reason | None]:
    if end - before < LEAST_STEPS or seconds < LEAST_SECONDS:
        # Rounded down: 9.97 s must not read as the 10 s that are asked for.
        return "too short", reason(
            "window-too-short",
            steps=end - before,
            seconds=int(10 * seconds) / 10,
            least_steps=LEAST_STEPS,
            least_seconds=LEAST_SECONDS,
        )
    if len(series) < steady.LEAST_INTERVALS:
        return "too short", reason("few-edges", count=len(series), least=steady.LEAST_INTERVALS)
    found = steady.judge(series)
    percent, slower = 100 * abs(found.change), found.change > 0
    if found.outcome == "drifting":
        if slower:
            return "drifting", reason("drifting-slower", percent=percent, first=before + 1, last=end)
        return "drifting", reason("drifting-faster", percent=percent, first=before + 1, last=end)
    if found.outcome == "two-level" and found.at is not None:
        since = int(grid.edges[first + found.at]) + 1
        if slower:
            return "two-level", reason("two-level-slower", percent=percent, step=since)
        return "two-level", reason("two-level-faster", percent=percent, step=since)
    return "steady", None


def step_figures(grid: Grid, found: FoundWindow, ranks: Sequence[RankColumns]) -> dict[str, Figure]:
    names = [f"step_time_{name}" for name in PERCENTILES]
    net = grid.net(found.first, found.last)
    middle = steady.median(net)
    waited = float((grid.data[:, found.last] - grid.data[:, found.first]).max()) * NS
    figures = dict.fromkeys(names, Figure(None, NOT_EXACT))
    if steps.exact(ranks):
        values = steady.quantiles(found.series, (0.5, 0.9, 0.99, 1.0))
        figures = {name: Figure(value) for name, value in zip(names, values, strict=True)}
    spread = float(net.max()) / middle - 1 if middle > 0 else None
    figures["straggler"] = Figure(None, reason("single-rank"))
    if spread is not None and len(net) > 1:
        figures["straggler"] = Figure(spread, how=reason("slowest-rank", rank=grid.ranks[found.row]))
    figures["data_wait"] = Figure(waited / found.window.seconds)
    return figures


def step_histogram(found: FoundWindow, ranks: Sequence[RankColumns]) -> tuple[list[float], list[int]]:
    """Edges and counts of step times; empty where single steps cannot be spoken of."""
    import numpy as np

    if not steps.exact(ranks):
        return [], []
    counts, edges = np.histogram(found.series, bins=BINS)
    return edges.tolist(), counts.tolist()
