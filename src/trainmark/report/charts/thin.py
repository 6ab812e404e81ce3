"""Fewer points that look the same: of each stretch the lowest and the highest are kept."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 400


def thin(
    xs: Sequence[float], ys: Sequence[float | None], most: int = MOST
) -> tuple[Sequence[float], Sequence[float | None]]:
    """At most `most` points. Peaks stay, so that no stall vanishes; a stretch without values stays a gap."""
    size = min(len(xs), len(ys))
    if size <= most:
        return xs, ys
    stretches = max(1, most // 2)
    kept: list[int] = []
    for part in range(stretches):
        start, end = part * size // stretches, (part + 1) * size // stretches
        seen = [(value, index) for index, value in enumerate(ys[start:end], start) if value is not None]
        kept.extend(sorted({min(seen)[1], max(seen)[1]}) if seen else [start])
    return [xs[index] for index in kept], [ys[index] for index in kept]
