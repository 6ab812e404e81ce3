"""What more nodes would give: measured and predicted speeds with their interval, and where they come from."""

from __future__ import annotations

from trainmark.i18n.texts import Joined, Text, joined, label
from trainmark.report import document as doc
from trainmark.report import figures, numbers
from trainmark.report.charts import records as charts
from trainmark.report.make.predict import PredictedRun, PredictedSeries
from trainmark.score.stats.verdict import geometric_mean


def document(found: PredictedRun) -> doc.Document:
    blocks: list[doc.Block] = [_section(one, "summary" if index == 0 else "") for index, one in enumerate(found.series)]
    if found.refused:
        refused = [Joined((one.series, one.reason), ": ") for one in found.refused]
        blocks.append(doc.Group([doc.Heading(label("predict.refused")), doc.Notes(refused, "small")]))
    return doc.Document(f"predict · {found.run}", label("predict.title"), found.run, blocks)


def _section(one: PredictedSeries, anchor: str) -> doc.Group:
    columns = doc.columns("study.shape", "predict.value", "predict.interval", "efficiency")
    columns.append(doc.Column(label("predict.trust"), figures=False))
    rows: list[list[doc.Inline]] = [
        [
            f"{prediction.nodes}x{prediction.procs}",
            f"{numbers.number(prediction.value)} {one.unit}",
            numbers.span(prediction.low, prediction.high),
            f"{100 * prediction.efficiency:.0f} %",
            joined(*map(figures.flag_text, prediction.flags)) if prediction.flags else numbers.NONE,
        ]
        for prediction in one.predictions
    ]
    remarks: list[Text] = []
    for prediction in one.predictions:
        found: list[Text] = [prediction.method, *prediction.notes]
        remarks += [text for text in found if text not in remarks]
    measured = ", ".join(f"{point.nodes}x{point.procs}" for point in one.points if point.speeds)
    return doc.Group(
        [
            doc.Heading(label("predict.of", one.series, measured)),
            doc.Group(
                [doc.Figures([_chart(one)], "single"), doc.Table(columns, rows), doc.Notes(remarks, "small")],
                style="card",
            ),
        ],
        anchor,
    )


def _chart(one: PredictedSeries) -> charts.LineChart:
    """Over nodes, from the last point that was measured on: there prediction and truth are one."""
    procs, unit = one.predictions[0].procs, one.unit
    seen = sorted((p.nodes, geometric_mean(p.speeds)) for p in one.points if p.speeds and p.procs == procs)
    ahead = sorted(one.predictions, key=lambda p: p.nodes)
    (start, speed), first = seen[-1], seen[0]
    known = [float(nodes) for nodes, _ in seen]
    along = [float(start), *(float(p.nodes) for p in ahead)]
    whole = known + along[1:]

    def curve(name: str) -> charts.Curve:
        return charts.Curve(name, unit, along, [speed, *(getattr(p, name) for p in ahead)])

    return charts.LineChart(
        label("predict.chart", str(procs)),
        lines=[
            charts.Line(label("predict.value"), curve("value")),
            charts.Line(label("predict.measured"), charts.Curve("measured", unit, known, [value for _, value in seen])),
            charts.Line(
                label("study.ideal"), charts.Curve("ideal", unit, whole, [first[1] / first[0] * at for at in whole])
            ),
        ],
        x_title=label("predict.nodes"),
        y_title=label("m.throughput"),
        band=charts.Band(label("predict.interval"), curve("low"), curve("high")),
        zero=True,
    )
