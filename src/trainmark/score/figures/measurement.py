"""A figure that can be trusted: with its unit, how many runs stand behind it, and how it was made."""

from __future__ import annotations

import msgspec

from trainmark.reasons import Reason
from trainmark.spec.workload import Target

SCORER_VERSION = 2


class Measurement(msgspec.Struct, frozen=True):
    """`value` is None when it is not known, and `reason` says why. An interval needs at least two runs."""

    name: str
    value: float | None
    unit: str
    n: int
    ci_low: float | None = None
    ci_high: float | None = None
    # How the values of runs made one, and how they were found themselves.
    method: list[Reason] = []
    # In English; `report.i18n` has it in other languages, by the name of the figure.
    formula: str = ""
    inputs: list[float] = []
    reason: list[Reason] = []
    scorer: int = SCORER_VERSION
    seed: int | None = None
    # Of a figure that says how long or how far it was to a target.
    target: Target | None = None
