"""Rounds on several sets of nodes: rounds on the same nodes say less of other nodes than rounds on others do."""

from __future__ import annotations

import math
from collections.abc import Sequence


def by_set(values: Sequence[float], sets: Sequence[object], *, logs: bool) -> list[float]:
    """One value for each set of nodes: the mean of its rounds, of logarithms where `logs` says so. The values as they
    are where all rounds ran on the same nodes, or each on others, or where that is not known."""
    distinct = list(dict.fromkeys(sets))
    if len(sets) != len(values) or len(distinct) in (0, 1, len(values)):
        return list(values)
    found = []
    for one in distinct:
        own = [value for value, at in zip(values, sets, strict=True) if at == one]
        geometric = logs and min(own) > 0
        found.append(math.exp(sum(map(math.log, own)) / len(own)) if geometric else sum(own) / len(own))
    return found
