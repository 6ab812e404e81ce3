"""What the hardware can reach: the roof, the cases under it, and the wires."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.i18n.texts import Text, label
from trainmark.report import document as doc
from trainmark.report import figures, numbers
from trainmark.report.charts.records import Chart, LogChart, Trail
from trainmark.report.records import CaseReport, Report
from trainmark.spec.case_id import CaseId
from trainmark.spec.peaks import Peaks, Scope

_LEAST_INTENSITY = 0.25
_MOST_CASES = 6
_SCOPES: tuple[Scope, ...] = ("within", "between")


def document(found: Peaks) -> doc.Document:
    head = label("peaks.line", found.site, found.device, numbers.moment(found.created))
    blocks = [doc.Paragraph(head, shown_in=doc.TEXT), _card(found, [])]
    return doc.Document(f"peaks · {found.site}", label("peaks"), found.site, blocks)


def sections(report: Report) -> list[doc.Block]:
    if report.peaks is None:
        return []
    found = msgspec.convert(report.peaks, Peaks)
    return [doc.Group([doc.Heading(label("peaks")), _card(found, report.cases)], "peaks", shown_in=doc.PAGE)]


def _card(found: Peaks, cases: Sequence[CaseReport]) -> doc.Group:
    rows: list[list[doc.Inline]] = [
        [
            one.host,
            f"matmul {one.dtype}",
            str(one.nproc),
            numbers.quantity(one.flops, "FLOP/s"),
            numbers.quantity(one.seconds, "s"),
        ]
        for one in found.matmul
    ]
    rows += [
        [numbers.NONE, label("peaks.published", one.dtype), "1", numbers.quantity(one.flops, "FLOP/s"), numbers.NONE]
        for one in found.published
    ]
    rows += [
        [one.host, one.what.replace("_", " "), str(one.nproc), numbers.quantity(one.bandwidth, "B/s"), numbers.NONE]
        for one in found.bandwidths
    ]
    columns = doc.columns("hosts", "peaks.figure", "peaks.ranks", "value", "peaks.seconds", text=2)
    table = [doc.Table(columns, rows)] if rows else []
    missing = [label("peaks.missing", what) for what in found.missing]
    missing += [label("peaks.source", one.dtype, one.source) for one in found.published]
    charts = doc.Figures([*_roofs(found, cases), *_wires(found)])
    return doc.Group([charts, *table, doc.Notes(_wire_lines(found), "small"), doc.Notes(missing)], style="card")


def _wire_lines(found: Peaks) -> list[Text]:
    lines: list[Text] = []
    for scope in _SCOPES:
        for operation in dict.fromkeys(one.operation for one in found.messages if one.scope == scope):
            fitted = found.line(operation, scope)
            best = max(o.bus_bandwidth for o in found.messages if (o.scope, o.operation) == (scope, operation))
            latency = numbers.NONE if fitted is None else numbers.quantity(fitted.latency, "s")
            speed = numbers.quantity(best, "B/s")
            lines.append(label(f"peaks.wire_{scope}", operation.replace("_", "-"), speed, latency))
    return lines


def _roofs(found: Peaks, cases: Sequence[CaseReport]) -> list[Chart]:
    """One for each number of ranks, of the first host that was measured with it."""
    charts: list[Chart] = []
    for nproc in dict.fromkeys(one.nproc for one in found.matmul):
        host = next(one.host for one in found.matmul if one.nproc == nproc)
        trails = _roof(found, host, nproc)
        low = min((point[0] for trail in trails for point in trail.points), default=_LEAST_INTENSITY)
        high = max((point[0] for trail in trails for point in trail.points), default=1.0)
        charts.append(
            LogChart(
                label("chart.roofline", host, str(nproc)),
                trails=[*trails, *_achieved(cases, nproc, low, high, len(trails))],
                x_title=label("axis.intensity"),
                x_unit="FLOP/B",
                y_title=label("axis.flops"),
                y_unit="FLOP/s",
            )
        )
    return charts


def _roof(found: Peaks, host: str, nproc: int) -> list[Trail]:
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
            trails.append(Trail(label("peaks.roof", one.dtype), roof, tone))
        trails.append(Trail(label("peaks.products", one.dtype), points, tone, dots=True))
        for vendor in (paper for paper in found.published if paper.dtype == one.dtype):
            most = vendor.flops * nproc
            trails.append(Trail(label("peaks.published", one.dtype), [(_LEAST_INTENSITY, most), (high, most)], tone))
    return trails


def _achieved(cases: Sequence[CaseReport], nproc: int, low: float, high: float, tone: int) -> list[Trail]:
    """What cases reach on each host. How many bytes they move is not measured: they are lines across, not points."""
    trails: list[Trail] = []
    for case in cases:
        achieved, found = case.measurements.get("achieved_flops"), CaseId.parse(case.case)
        if achieved is not None and achieved.value and found.nproc == nproc and len(trails) < _MOST_CASES:
            name = label("peaks.of_case", figures.short(case.case))
            each = achieved.value / found.nnodes
            trails.append(Trail(name, [(low, each), (high, each)], tone + len(trails)))
    return trails


def _wires(found: Peaks) -> list[Chart]:
    charts: list[Chart] = []
    for scope in _SCOPES:
        points: dict[str, list[tuple[float, float]]] = {}
        for one in found.messages:
            if one.scope == scope:
                points.setdefault(one.operation, []).append((float(one.bytes), one.bus_bandwidth))
        charts.append(
            LogChart(
                label(f"chart.messages_{scope}"),
                trails=[
                    Trail(name.replace("_", "-"), sorted(at), tone) for tone, (name, at) in enumerate(points.items())
                ],
                x_title=label("axis.bytes"),
                x_unit="B",
                y_title=label("axis.bus_bandwidth"),
                y_unit="B/s",
            )
        )
    return charts
