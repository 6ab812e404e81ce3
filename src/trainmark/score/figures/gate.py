"""The correctness gate: a run whose loss is not what it must be has no speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.spec.band import Stretch

INSIDE, OUTSIDE = reason("band-inside"), reason("band-outside")
# Fewer steps say nothing about where the loss goes.
LEAST_STEPS = 20
PART = 0.2  # of the steps, at the start and at the end, that are compared


class Judgement(msgspec.Struct, frozen=True):
    """`fault` is why the run is INVALID, if it is; `band` how its loss lies to the reference band."""

    fault: Reason | None
    band: Reason


def in_band(
    losses: Mapping[int, float], stretches: Sequence[Stretch], since: int = 0, ended_at: int | None = None
) -> Judgement:
    """Whether the mean loss over each stretch of steps lies in its band. `losses`: by step, the mean over ranks.

    Steps up to `since` were made by an earlier attempt, of which not everything need be known. A machine that is too
    slow for the recipe stopped at `ended_at`: what it did not reach cannot be judged."""
    wrong = _not_finite(losses)
    if wrong:
        return Judgement(wrong, OUTSIDE)
    reached = [part for part in stretches if ended_at is None or part.last <= ended_at]
    for part in reached:
        seen = [losses[step] for step in range(part.first, part.last + 1) if step in losses]
        if not seen and part.first <= since:
            continue
        if not seen:
            return Judgement(reason("no-loss-in-band", first=part.first, last=part.last), OUTSIDE)
        mean = math.fsum(seen) / len(seen)
        if not part.low <= mean <= part.high:
            fault = reason(
                "loss-outside-band", first=part.first, last=part.last, mean=mean, low=part.low, high=part.high
            )
            return Judgement(fault, OUTSIDE)
    if stretches and not reached:
        return falling(losses, reason("ended-before-band", last=ended_at, wanted=stretches[0].last), since)
    return Judgement(None, INSIDE)


def falling(losses: Mapping[int, float], why: Reason | str | None, since: int = 0) -> Judgement:
    """Without a band: the loss must be a number, and lower at the end than at the start. `why` there is no band.

    Where nothing is known of the steps up to `since`, made by an earlier attempt, the start was not seen."""
    band = reason("band-not-applicable", why=why)
    wrong = _not_finite(losses)
    if wrong:
        return Judgement(wrong, band)
    if len(losses) < LEAST_STEPS or min(losses) > since > 0:
        return Judgement(None, band)
    values = [losses[step] for step in sorted(losses)]
    part = max(1, int(PART * len(values)))
    start, end = math.fsum(values[:part]) / part, math.fsum(values[-part:]) / part
    if end >= start:
        return Judgement(reason("loss-does-not-fall", start=start, steps=part, end=end), band)
    return Judgement(None, band)


def _not_finite(losses: Mapping[int, float]) -> Reason | None:
    wrong = next((step for step in sorted(losses) if not math.isfinite(losses[step])), None)
    # As text: JSON has no infinity.
    return None if wrong is None else reason("loss-at-step", loss=str(losses[wrong]), step=wrong)
