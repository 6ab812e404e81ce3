"""Which steps count, and whether the run was steady over them. Only steady steps give a headline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

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


def find(grid: Grid, fixed: FixedWindow | None = None) -> Found | str:
    """The window, or why there is none."""
    if fixed is not None:
        return _fixed(grid, fixed)
    last = len(grid.edges) - 1
    first = steady.start(grid.series(grid.slowest(0, last)))
    return _measure(grid, first, last, steady.METHOD)


def _fixed(grid: Grid, fixed: FixedWindow) -> Found | str:
    import numpy as np

    need = f"the fixed window (skip {fixed.skip}, steps {fixed.steps})"
    ends = np.searchsorted(grid.edges, (fixed.skip, fixed.skip + fixed.steps)).tolist()
    if ends[1] >= len(grid.edges) or grid.edges[ends[1]] != fixed.skip + fixed.steps:
        return f"{need} ends after the last step that can be timed, {int(grid.edges[-1])}"
    if grid.edges[ends[0]] != fixed.skip:
        return f"{need} does not begin at a step that can be timed"
    return _measure(grid, ends[0], ends[1], f"fixed: skip {fixed.skip}, steps {fixed.steps}")


def _measure(grid: Grid, first: int, last: int, method: str) -> Found | str:
    row = grid.slowest(first, last)
    seconds = float(grid.net(first, last)[row])
    if seconds <= 0:
        return "the steps took no time"
    before, end = int(grid.edges[first]), int(grid.edges[last])
    series = grid.series(row)[first:last]
    outcome: Outcome = "fixed"
    reason = ""
    if method == steady.METHOD:
        outcome, reason = _judge(before, end, seconds, grid, first, series)
    window = Window(
        before=before,
        last=end,
        seconds=seconds,
        # The slowest rank's own duration: clocks of different ranks are never subtracted from each other.
        sustained_seconds=float(grid.span(first, last).max()),
        samples=int((grid.n[:, last] - grid.n[:, first]).sum()),
        outcome=outcome,
        method=method,
        reason=reason,
    )
    return Found(window, first, last, row, series)


def _judge(before: int, end: int, seconds: float, grid: Grid, first: int, series: Floats) -> tuple[Outcome, str]:
    if end - before < LEAST_STEPS or seconds < LEAST_SECONDS:
        # Rounded down: 9.97 s must not read as the 10 s that are asked for.
        return "too short", (
            f"{end - before} steps in {int(10 * seconds) / 10:.1f} s: "
            f"at least {LEAST_STEPS} steps and {LEAST_SECONDS:.0f} s are needed"
        )
    if len(series) < steady.LEAST_INTERVALS:
        return "too short", f"{len(series)} times between edges: at least {steady.LEAST_INTERVALS} are needed"
    found = steady.judge(series)
    size = f"{100 * abs(found.change):.1f} % {'slower' if found.change > 0 else 'faster'}"
    if found.outcome == "drifting":
        return "drifting", f"drifting: steps became {size} from step {before + 1} to step {end}"
    if found.outcome == "two-level" and found.at is not None:
        return "two-level", f"two-level: steps are {size} from step {int(grid.edges[first + found.at]) + 1} on"
    return "steady", ""
