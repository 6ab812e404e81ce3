"""How long a round may take, before anything was tried. Pure."""

from __future__ import annotations

from trainmark.devices.protocol import dense_peak
from trainmark.plan.records import CasePlan

# What a round takes besides training, on an ordinary machine: start and end.
_AROUND_SECONDS = 6.0
# How many times the seconds that are measured a round by time trains on an ordinary machine.
_USUAL_TIMES = 1.5
# FLOP/s of training on an ordinary machine without accelerators (two cores did 1.0e11 with ResNet-50), and the share of
# what devices can do that trainings use on them.
_ORDINARY_FLOPS, _USUAL_SHARE = 1e11, 0.3


def by_time(case: CasePlan) -> float | None:
    """A round that goes on until it has been measured for some seconds; None for others."""
    if case.length is None:
        return None
    return _AROUND_SECONDS + min(case.length.most, _USUAL_TIMES * case.length.seconds)


def round_seconds(case: CasePlan) -> float | None:
    """A round of the case, as its plan tells; None where only a try can tell."""
    if case.length is not None:
        return by_time(case)
    told = case.params.get("seconds")
    if case.work is None and isinstance(told, int | float):
        return _AROUND_SECONDS + told
    pace = _flops_per_second(case)
    return None if case.work is None or pace is None else _AROUND_SECONDS + case.work / pace


def is_rough(case: CasePlan) -> bool:
    """Whether only the size of its model and what its devices can do say how long it takes."""
    return case.length is None and case.work is not None


def _flops_per_second(case: CasePlan) -> float | None:
    """Of all ranks together: as the site's peaks were measured, as its vendor says, or as is usual."""
    if case.reachable is not None:
        return _USUAL_SHARE * case.reachable
    if case.vendor == "cpu":
        return _ORDINARY_FLOPS * len(case.nodes)
    ranks = sum(len(node.ranks) for node in case.nodes)
    peak = case.peak or dense_peak(case.vendor, case.device, str(case.params.get("dtype", "fp32")))
    return None if peak is None else _USUAL_SHARE * peak.flops * ranks


def why_unknown(case: CasePlan) -> str:
    """Why there is no estimate, and the cure."""
    if case.work is None and case.flops_per_sample is None:
        return "what a step costs is not known"
    if case.work is None:
        return "how many steps it has depends on its data; `--set steps=N` says it"
    dtype = case.params.get("dtype", "fp32")
    return f"no peak of `{case.device}` in {dtype} is known (`vendor_peaks` of the site)"
