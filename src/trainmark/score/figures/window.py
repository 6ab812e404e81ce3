"""Which steps count, and whether the run was steady over them. Only steady steps give a headline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.figures import steady
from trainmark.score.figures.steps import Grid
from trainmark.score.records import Outcome, Window
from trainmark.spec.rules import FixedWindow

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats

LEAST_STEPS = 30
LEAST_SECONDS = 10.0


class Found(msgspec.Struct, frozen=True, eq=False):
    """A window, the positions of its edges in the grid, and the rank (row) that was slowest in it."""

    window: Window
    first: int
    last: int
    row: int
    # Seconds per step of that rank.
    series: Floats


def find(grid: Grid, fixed: FixedWindow | None = None) -> Found | Reason:
    """The window, or why there is none."""
    if fixed is not None:
        return _fixed(grid, fixed)
    last = len(grid.edges) - 1
    first = steady.start(grid.series(grid.slowest(0, last)))
    return _measure(grid, first, last, None)


def _fixed(grid: Grid, fixed: FixedWindow) -> Found | Reason:
    import numpy as np

    ends = np.searchsorted(grid.edges, (fixed.skip, fixed.skip + fixed.steps)).tolist()
    if ends[1] >= len(grid.edges) or grid.edges[ends[1]] != fixed.skip + fixed.steps:
        return reason("window-ends-late", skip=fixed.skip, steps=fixed.steps, last=int(grid.edges[-1]))
    if grid.edges[ends[0]] != fixed.skip:
        return reason("window-begins-between", skip=fixed.skip, steps=fixed.steps)
    return _measure(grid, ends[0], ends[1], fixed)


def _measure(grid: Grid, first: int, last: int, fixed: FixedWindow | None) -> Found | Reason:
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
    return Found(window, first, last, row, series)


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
