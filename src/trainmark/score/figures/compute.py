"""Achieved FLOP/s, and how much of what the hardware can do that is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.records import Figure, ratio
from trainmark.spec.columns import RankColumns, is_number


class PeakFlops(msgspec.Struct, frozen=True):
    """FLOP/s of all devices of the case together, for the number format in use; None with the reason."""

    flops: float | None
    reason: Reason | None = None
    # Whose word it is; shown with every figure that is divided by it.
    source: str = ""


def figures(
    ranks: Sequence[RankColumns],
    throughput: Figure,
    declared: float | None,
    peak: PeakFlops,
    reachable: float | None = None,
) -> dict[str, Figure]:
    noted = _noted(ranks[:1], "flops_per_sample") if ranks and ranks[0].rank == 0 else None
    flops = noted if noted is not None else declared
    achieved = _times(throughput, flops, reason("no-flops-per-sample"))
    hardware = _noted(ranks[:1], "hardware_flops_per_sample")
    reached = _times(throughput, hardware, reason("no-hardware-flops"))
    return {
        "achieved_flops": achieved,
        "mfu": _share(_of_peak(achieved, peak)),
        "hfu": _share(_of_peak(reached, peak) if hardware is not None else reached),
        "matmul_fraction": _matmul_fraction(ranks, achieved, reachable),
    }


def _of_peak(part: Figure, peak: PeakFlops) -> Figure:
    found = ratio(part, peak.flops, peak.reason)
    how = reason("of-peak", flops=peak.flops, source=peak.source) if peak.flops is not None else None
    return msgspec.structs.replace(found, how=how)


def _matmul_fraction(ranks: Sequence[RankColumns], achieved: Figure, reachable: float | None) -> Figure:
    """Against the peaks of the site, which were measured for longer, else against what the ranks noted themselves."""
    missing = reason("matmul-not-noted")
    found = _share(ratio(achieved, reachable or _matmul(ranks), missing))
    return msgspec.structs.replace(found, how=reason("against-site-peaks")) if reachable else found


def _times(throughput: Figure, flops: float | None, otherwise: Reason) -> Figure:
    return ratio(throughput, 1 / flops, otherwise) if flops is not None and flops > 0 else Figure(None, otherwise)


def _share(found: Figure) -> Figure:
    """More than everything is an error, not a record."""
    if found.value is not None and found.value > 1:
        return Figure(None, reason("over-everything", percent=100 * found.value))
    return found


def _noted(ranks: Sequence[RankColumns], name: str) -> float | None:
    values = [value for rank in ranks for value in rank.notes(name) if is_number(value)]
    return float(values[-1]) if values else None


def _matmul(ranks: Sequence[RankColumns]) -> float | None:
    """Of all ranks. A speed of 0 is none that was measured."""
    found = [value for rank in ranks if (value := _noted([rank], "matmul_flops_per_s"))]
    return sum(found) if found and len(found) == len(ranks) else None
