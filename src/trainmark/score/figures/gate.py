"""The correctness gate: a run whose loss is not what it must be has no speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from trainmark.spec.band import Stretch

INSIDE, OUTSIDE = "inside", "outside"
# Fewer steps say nothing about where the loss goes.
LEAST_STEPS = 20
PART = 0.2  # of the steps, at the start and at the end, that are compared


class Judgement(msgspec.Struct, frozen=True):
    """`fault` is why the run is INVALID; empty when it is not."""

    fault: str = ""
    band: str = ""


def inside(losses: Mapping[int, float], stretches: Sequence[Stretch], since: int = 0) -> Judgement:
    """Whether the mean loss over each stretch of steps lies in its band. `losses`: by step, the mean over ranks.

    Steps up to `since` were made by an earlier attempt, of which not everything need be known."""
    wrong = _not_finite(losses)
    if wrong:
        return Judgement(wrong, OUTSIDE)
    for part in stretches:
        seen = [losses[step] for step in range(part.first, part.last + 1) if step in losses]
        where = f"over steps {part.first} to {part.last}"
        if not seen and part.first <= since:
            continue
        if not seen:
            return Judgement(f"no loss was told {where}, where the reference band needs one", OUTSIDE)
        mean = math.fsum(seen) / len(seen)
        if not part.low <= mean <= part.high:
            text = f"the mean loss {where} is {mean:.4g}; the reference band is {part.low:.4g} to {part.high:.4g}"
            return Judgement(text, OUTSIDE)
    return Judgement(band=INSIDE)


def falling(losses: Mapping[int, float], why: str, since: int = 0) -> Judgement:
    """Without a band: the loss must be a number, and lower at the end than at the start. `why` there is no band.

    Where nothing is known of the steps up to `since`, made by an earlier attempt, the start was not seen."""
    band = f"not applicable: {why}"
    wrong = _not_finite(losses)
    if wrong:
        return Judgement(wrong, band)
    if len(losses) < LEAST_STEPS or min(losses) > since > 0:
        return Judgement(band=band)
    values = [losses[step] for step in sorted(losses)]
    part = max(1, int(PART * len(values)))
    start, end = math.fsum(values[:part]) / part, math.fsum(values[-part:]) / part
    if end >= start:
        return Judgement(
            f"the loss does not fall: {start:.4g} over the first {part} steps, {end:.4g} over the last", band
        )
    return Judgement(band=band)


def _not_finite(losses: Mapping[int, float]) -> str:
    wrong = next((step for step in sorted(losses) if not math.isfinite(losses[step])), None)
    return "" if wrong is None else f"the loss is {losses[wrong]} at step {wrong}"
