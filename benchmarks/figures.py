"""What a benchmark prints: one JSON object with each figure, the peer's, how they compare, and the bar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One line of the results. `value` is what the bar is held against."""

    figure: str
    unit: str
    ours: float
    peer: str | None
    theirs: float | None
    compared: str
    value: float
    bar: str
    met: bool


def times_less(figure: str, unit: str, ours: Sequence[float], peer: str, theirs: Sequence[float], bar: float) -> Figure:
    """The peer must take at least `bar` times as much: the median of ratios of repeats that were taken together."""
    ratio = median(peers / own for own, peers in zip(ours, theirs, strict=True))
    return Figure(
        figure, unit, median(ours), peer, median(theirs), "peer ÷ ours, paired", ratio, f"≥ {bar:g}", ratio >= bar
    )


def more(figure: str, unit: str, ours: float, peer: str, theirs: float, bar: float) -> Figure:
    """We may take at most `bar` more than the peer."""
    extra = ours - theirs
    return Figure(figure, unit, ours, peer, theirs, "ours − peer", extra, f"≤ {bar:g} {unit}", extra <= bar)


def beside(figure: str, unit: str, ours: float, peer: str, theirs: float, bar: float) -> Figure:
    """A figure of our own, and for its scale that of something simpler."""
    return Figure(figure, unit, ours, peer, theirs, "ours", ours, f"≤ {bar:g} {unit}", ours <= bar)


def at_most(figure: str, unit: str, ours: float, bar: float) -> Figure:
    """A figure of our own; no peer has one like it."""
    return Figure(figure, unit, ours, None, None, "ours", ours, f"≤ {bar:g} {unit}", ours <= bar)


def at_least(figure: str, unit: str, ours: float, bar: float) -> Figure:
    """A figure of our own that must be large."""
    return Figure(figure, unit, ours, None, None, "ours", ours, f"≥ {bar:g} {unit}", ours >= bar)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest, largest, number: so that a reader sees how noisy a figure was."""
    return {"median": median(values), "min": min(values), "max": max(values), "n": len(values)}


def show(benchmark: str, how: str, figures: Sequence[Figure], details: dict[str, Any]) -> None:
    """Prints the one JSON object of a benchmark."""
    rows = [asdict(figure) for figure in figures]
    record = {"benchmark": benchmark, "how": how, "figures": rows, "details": details}
    print(json.dumps(_rounded(record), ensure_ascii=False))


def _rounded(value: Any) -> Any:
    """Six significant digits: more would only pretend."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value
