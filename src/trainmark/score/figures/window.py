"""Which steps count, what is wrong with them, and what single steps in that window show. A window that is not steady
gives its figures all the same, with flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.figures import steady, steps
from trainmark.score.figures.definitions import PERCENTILES
from trainmark.score.figures.steps import NS, Grid
from trainmark.score.records import Figure, Flag, Outcome, Window
from trainmark.spec.rules import FixedWindow

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats, RankColumns

# A shorter window is flagged as short; one shorter than this share of it is a severe flaw.
LEAST_STEPS = 100
LEAST_SECONDS = 15.0
FAR_TOO_SHORT = 0.1
# Levels of a window that differ by more than this are a severe flaw.
FAR_APART = 0.25
# The steps that a device timed may differ from the host's time for all of them by this share: more is no noise.
DEVICE_APART = 0.2
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
    trend = steady.judge(series) if len(series) >= steady.LEAST_INTERVALS else None
    outcome: Outcome = trend.outcome if trend is not None else "too short"
    flags = [] if trend is None else _unsteady(trend, before, end, grid, first)
    if fixed is None:
        method = reason("repeated-split")
        short = _short(end - before, seconds, len(series))
        outcome = "too short" if short else outcome
        flags = [*short, *flags]
    else:
        method, outcome = reason("fixed-window", skip=fixed.skip, steps=fixed.steps), "fixed"
    window = Window(
        before=before,
        last=end,
        seconds=seconds,
        # The slowest rank's own duration: clocks of different ranks are never subtracted from each other.
        sustained_seconds=float(grid.span(first, last).max()),
        samples=int((grid.n[:, last] - grid.n[:, first]).sum()),
        outcome=outcome,
        method=method,
        flags=flags,
        slowest=trend.slowest if trend else 1.0,
        fastest=trend.fastest if trend else 1.0,
    )
    return FoundWindow(window, first, last, row, series)


def _short(steps: int, seconds: float, intervals: int) -> list[Flag]:
    found = []
    if steps < LEAST_STEPS or seconds < LEAST_SECONDS:
        far = steps < FAR_TOO_SHORT * LEAST_STEPS or seconds < FAR_TOO_SHORT * LEAST_SECONDS
        why = reason(
            "window-too-short",
            steps=steps,
            # Rounded down: 14.97 s must not read as the 15 s that are asked for.
            seconds=int(10 * seconds) / 10,
            least_steps=LEAST_STEPS,
            least_seconds=LEAST_SECONDS,
        )
        found.append(Flag("severe" if far else "warning", why))
    if intervals < steady.LEAST_INTERVALS:
        found.append(Flag("warning", reason("few-edges", count=intervals, least=steady.LEAST_INTERVALS)))
    return found


def _unsteady(found: steady.Trend, before: int, end: int, grid: Grid, first: int) -> list[Flag]:
    """What the tests of a window found, with how well the change is known."""
    if found.outcome == "steady":
        return []
    slower, sizes = found.change > 0, {"percent": 100 * abs(found.change), "error": 100 * found.error}
    if found.outcome == "drifting":
        code = "drifting-slower" if slower else "drifting-faster"
        why = reason(code, **sizes, first=before + 1, last=end)
    elif found.outcome == "two-level" and found.at is not None:
        code = "two-level-slower" if slower else "two-level-faster"
        why = reason(code, **sizes, step=int(grid.edges[first + found.at]) + 1)
    else:
        why = reason("unsteady", percent=100 * (found.fastest / found.slowest - 1))
    return [Flag("severe" if found.fastest / found.slowest > 1 + FAR_APART else "warning", why)]


def step_figures(grid: Grid, found: FoundWindow, ranks: Sequence[RankColumns]) -> dict[str, Figure]:
    names = [f"step_time_{name}" for name in PERCENTILES]
    net = grid.net(found.first, found.last)
    middle = steady.median(net)
    waited = float((grid.data[:, found.last] - grid.data[:, found.first]).max()) * NS
    series = single_steps(found, ranks)
    if isinstance(series, Reason):
        figures = dict.fromkeys(names, Figure(None, series))
    else:
        values = steady.quantiles(series, (0.5, 0.9, 0.99, 1.0))
        how = None if steps.exact(ranks) else reason("timed-by-device")
        figures = {name: Figure(value, how=how) for name, value in zip(names, values, strict=True)}
    spread = float(net.max()) / middle - 1 if middle > 0 else None
    figures["straggler"] = Figure(None, reason("single-rank"))
    if spread is not None and len(net) > 1:
        figures["straggler"] = Figure(spread, how=reason("slowest-rank", rank=grid.ranks[found.row]))
    figures["data_wait"] = Figure(waited / found.window.seconds)
    return figures


def single_steps(found: FoundWindow, ranks: Sequence[RankColumns]) -> Floats | Reason:
    """Seconds of each step of the slowest rank in the window, or why single steps cannot be spoken of."""
    if steps.exact(ranks):
        return found.series
    window = found.window
    series = steps.by_device(ranks[found.row], window.before, window.last)
    if series is None:
        return NOT_EXACT
    apart = steady.mean(series) * (window.last - window.before) / window.seconds - 1
    return series if abs(apart) <= DEVICE_APART else reason("device-times-differ", percent=100 * apart)


def step_histogram(found: FoundWindow, ranks: Sequence[RankColumns]) -> tuple[list[float], list[int]]:
    """Edges and counts of step times; empty where single steps cannot be spoken of."""
    import numpy as np

    series = single_steps(found, ranks)
    if isinstance(series, Reason):
        return [], []
    counts, edges = np.histogram(series, bins=BINS)
    return edges.tolist(), counts.tolist()
