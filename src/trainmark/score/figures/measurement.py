"""A figure that can be trusted: with its unit, how many runs stand behind it, and how it was made."""

from __future__ import annotations

import msgspec

SCORER_VERSION = 2


class Measurement(msgspec.Struct, frozen=True):
    """`value` is None when it is not known, and `reason` says why. An interval needs at least two runs."""

    name: str
    value: float | None
    unit: str
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    method: str = ""
    formula: str = ""
    inputs: list[float] = []
    reason: str = ""
    scorer: int = SCORER_VERSION
    seed: int | None = None
