"""Arithmetic of spans of time. A set of spans is an array of rows (begin, end), in order and apart from each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trainmark.spec.columns import Floats


def empty() -> Floats:
    import numpy as np

    return np.empty((0, 2))


def union(spans: Floats) -> Floats:
    """Any rows as a set: in order, and joined where they touch."""
    import numpy as np

    spans = spans[spans[:, 1] > spans[:, 0]]
    if len(spans) < 2:
        return spans.reshape(-1, 2).astype(np.float64)
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(spans[:, 1])
    first = np.concatenate(([True], spans[1:, 0] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.column_stack((spans[first, 0], reach[last]))


def join(several: Iterable[Floats]) -> Floats:
    """All of them as one set."""
    import numpy as np

    return union(np.concatenate([empty(), *several]))


def both(one: Floats, other: Floats) -> Floats:
    """What is in both sets."""
    return _select(one, other, wanted=True)


def without(one: Floats, other: Floats) -> Floats:
    """What is in the first set and not in the second."""
    return _select(one, other, wanted=False)


def length(spans: Floats) -> float:
    return float((spans[:, 1] - spans[:, 0]).sum())


def until(spans: Floats, times: Floats) -> Floats:
    """How much of the set lies before each time."""
    import numpy as np

    total = np.concatenate(([0.0], np.cumsum(spans[:, 1] - spans[:, 0])))
    index = np.searchsorted(spans[:, 0], times, side="right")
    over = np.where(index > 0, spans[np.maximum(index - 1, 0), 1] - times, 0.0) if len(spans) else np.zeros(len(times))
    found: Floats = total[index] - np.maximum(over, 0.0)
    return found


def within(spans: Floats, rows: Floats) -> Floats:
    """How much of the set lies in each row; rows may overlap."""
    return until(spans, rows[:, 1]) - until(spans, rows[:, 0])


def _select(one: Floats, other: Floats, *, wanted: bool) -> Floats:
    import numpy as np

    edges = np.unique(np.concatenate((one.ravel(), other.ravel())))
    if len(edges) < 2:
        return empty()
    middles = (edges[:-1] + edges[1:]) / 2
    kept = _inside(one, middles) & (_inside(other, middles) == wanted)
    return union(np.column_stack((edges[:-1][kept], edges[1:][kept])))


def _inside(spans: Floats, times: Floats) -> NDArray[np.bool_]:
    import numpy as np

    if not len(spans):
        return np.zeros(len(times), dtype=bool)
    index = np.searchsorted(spans[:, 0], times, side="right") - 1
    found: NDArray[np.bool_] = (index >= 0) & (times < spans[np.maximum(index, 0), 1])
    return found
