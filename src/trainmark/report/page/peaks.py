"""What the hardware can reach: the roof, the cases under it, and the wires."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.report import numbers
from trainmark.report.charts.figure import table
from trainmark.report.charts.logarithmic import Trail, chart
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element
from trainmark.report.phrases import said
from trainmark.report.records import CaseReport, Report
from trainmark.spec.case_id import CaseId
from trainmark.spec.peaks import Peaks

_LEAST_INTENSITY = 0.25
_MOST_CASES = 6


def section(speak: Speaker, report: Report) -> str:
    if report.peaks is None:
        return ""
    found = msgspec.convert(report.peaks, Peaks)
    drawings = "".join([*_roofs(speak, found, report.cases), *_wires(speak, found)])
    shown = f'<div class="figures">{drawings}</div>' if drawings else ""
    rows: list[Sequence[Label | str]] = [
        [one.host, f"matmul {one.dtype}", str(one.nproc), numbers.quantity(one.flops, "FLOP/s")] for one in found.matmul
    ]
    rows += [
        [one.host, one.what.replace("_", " "), str(one.nproc), numbers.quantity(one.bandwidth, "B/s")]
        for one in found.bandwidths
    ]
    head = [speak("hosts"), speak("peaks.figure"), speak("peaks.ranks"), speak("value")]
    missing = "".join(element("li", said(speak, f"not measured: {what}")) for what in found.missing)
    remarks = f'<ul class="remarks">{missing}</ul>' if missing else ""
    listed = table(head, rows, plain=(0, 1)) if rows else ""
    return (
        f'<section id="peaks">{element("h2", speak("peaks"))}<div class="card">{shown}{listed}{remarks}</div></section>'
    )


def _roofs(speak: Speaker, found: Peaks, cases: Sequence[CaseReport]) -> list[str]:
    """One for each number of ranks, of the first host that was measured with it."""
    drawings = []
    for nproc in dict.fromkeys(one.nproc for one in found.matmul):
        host = next(one.host for one in found.matmul if one.nproc == nproc)
        trails = _roof(speak, found, host, nproc)
        low = min((point[0] for trail in trails for point in trail.points), default=_LEAST_INTENSITY)
        high = max((point[0] for trail in trails for point in trail.points), default=1.0)
        trails += _achieved(speak, cases, nproc, low, high, len(trails))
        x, y = (speak("axis.intensity"), "FLOP/B"), (speak("axis.flops"), "FLOP/s")
        drawings.append(chart(speak, speak("chart.roofline", host, nproc), trails, x, y))
    return drawings


def _roof(speak: Speaker, found: Peaks, host: str, nproc: int) -> list[Trail]:
    """min(peak, bandwidth × intensity), and what products of growing size reached below it."""
    trails: list[Trail] = []
    memory = [one.bandwidth for one in found.bandwidths if (one.what, one.host, one.nproc) == ("memory", host, nproc)]
    for tone, one in enumerate(one for one in found.matmul if (one.host, one.nproc) == (host, nproc)):
        points = sorted(
            (product.intensity, product.flops)
            for product in found.products
            if (product.host, product.nproc, product.dtype) == (host, nproc, one.dtype)
        )
        high = max([100.0, *(at for at, _ in points)])
        if memory:
            bend = one.flops / memory[0]
            roof = [
                (_LEAST_INTENSITY, _LEAST_INTENSITY * memory[0]),
                (bend, one.flops),
                (max(high, 2 * bend), one.flops),
            ]
            trails.append(Trail(speak("peaks.roof", one.dtype), roof, tone))
        trails.append(Trail(speak("peaks.products", one.dtype), points, tone, dots=True))
    return trails


def _achieved(
    speak: Speaker, cases: Sequence[CaseReport], nproc: int, low: float, high: float, tone: int
) -> list[Trail]:
    """What cases reach on each host. How many bytes they move is not measured: they are lines across, not points."""
    trails: list[Trail] = []
    for case in cases:
        achieved, found = case.measurements.get("achieved_flops"), CaseId.parse(case.case)
        if achieved is not None and achieved.value and found.nproc == nproc and len(trails) < _MOST_CASES:
            name = speak("peaks.of_case", f"{found.workload} {found.nnodes}×{found.nproc}")
            each = achieved.value / found.nnodes
            trails.append(Trail(name, [(low, each), (high, each)], tone + len(trails)))
    return trails


def _wires(speak: Speaker, found: Peaks) -> list[str]:
    drawings = []
    for scope in ("within", "between"):
        operations = dict.fromkeys(one.operation for one in found.messages if one.scope == scope)
        trails = [
            Trail(
                operation.replace("_", "-"),
                sorted(
                    (float(m.bytes), m.bus_bandwidth)
                    for m in found.messages
                    if (m.scope, m.operation) == (scope, operation)
                ),
                tone,
            )
            for tone, operation in enumerate(operations)
        ]
        x, y = (speak("axis.bytes"), "B"), (speak("axis.bus_bandwidth"), "B/s")
        drawings.append(chart(speak, speak(f"chart.messages_{scope}"), trails, x, y))
    return drawings
