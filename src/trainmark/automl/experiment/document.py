"""The result of an experiment as a document: for the page, the terminal and `results.txt`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.automl.experiment.monitoring import Series
from trainmark.automl.experiment.result import Result
from trainmark.automl.experiment.score import Point
from trainmark.automl.graph.drawing import drawing
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import in_words
from trainmark.automl.graph.space import Move
from trainmark.i18n.texts import Text, joined, label, named
from trainmark.reasons import reason
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.charts import records as charts

_BEST = 12
_MOST_HOSTS = 8
_MOST_ROWS = 40
# Which series are drawn together, by the end of their names.
_MONITORED = {
    "am.cpu": "cpu",
    "am.devices": "utilisation",
    "am.memory": "mem_used",
    "am.network": "net_rx",
    "am.network_sent": "net_tx",
}
_MET: dict[bool | None, tuple[str, doc.Tone]] = {
    True: ("am.met", "good"),
    False: ("am.missed", "bad"),
    None: ("am.not_held", "calm"),
}


def document(result: Result, nodes: Sequence[Series] = (), best: Graph | None = None) -> doc.Document:
    """What is said, in the order people ask: does it count, what is it, how did it come about.

    `best`: the best network, to be drawn."""
    badges = [doc.Badge(label("am.valid"), "good") if result.valid else doc.Badge(label("am.not_valid"), "bad")]
    badges += [doc.Badge(label("am.running"))] if result.state == "RUNNING" else []
    hosts = ", ".join(result.hosts[:_MOST_HOSTS]) + (" …" if len(result.hosts) > _MOST_HOSTS else "")
    rules = joined(result.rules, named("ruleset", result.rules), joint=": ")
    return doc.Document(
        title=f"{result.name} · {result.run}",
        kind=label("am.title"),
        heading=result.name,
        badges=badges,
        facts=[
            (label("run"), doc.Code(result.run)),
            (label("am.rules"), rules),
            (label("am.data"), result.data),
            (label("am.policy"), result.policy),
            (label("am.workers"), str(result.workers)),
            (label("am.nodes"), hosts),
            (label("am.hardware"), _hardware(result)),
            (label("when"), numbers.moment(result.start)),
            (label("am.lasted"), numbers.quantity(result.seconds, "s")),
        ],
        blocks=[
            doc.Paragraph(label("am.line", result.run, result.state, rules), shown_in=doc.TEXT),
            *_validity(result),
            doc.Group(
                [doc.Heading(label("summary")), doc.Facts(_tiles(result), "tiles")], "summary", shown_in=doc.PAGE
            ),
            doc.Facts(_summary(result), shown_in=doc.NOT_PAGE),
            *_over_time(result),
            *_search(result),
            *_best_network(result, best),
            *_monitoring(nodes),
            _rules(result),
            *_remarks(result),
            *_progress(result),
        ],
    )


def _validity(result: Result) -> list[doc.Block]:
    if result.valid:
        return [doc.Paragraph(label("am.is_valid"), shown_in=doc.NOT_PAGE)]
    reasons: Sequence[Text] = result.reasons or [label("am.nothing")]
    card = doc.Group([doc.Paragraph(reason) for reason in reasons], style="bad")
    return [
        doc.Group([doc.Heading(label("am.why_failed")), card], shown_in=doc.PAGE),
        doc.Paragraph(label("am.is_not_valid", joined(*reasons)), shown_in=doc.NOT_PAGE),
    ]


def _tiles(result: Result) -> list[tuple[Text, doc.Inline]]:
    gap = f"{result.gaps.mean:.2f} s" if result.gaps else numbers.NONE
    regulated = numbers.quantity(result.regulated, "FLOPS")
    return [
        (label("am.regulated"), doc.Badge(regulated, "good") if result.valid else regulated),
        (label("am.score"), numbers.quantity(result.score, "FLOPS")),
        (label("am.score_per_device"), numbers.quantity(result.score_per_device, "FLOPS")),
        (label(_REACHED[result.metric]), result.shown(result.accuracy)),
        (label("am.work"), numbers.quantity(result.flops, "FLOP")),
        (label("am.trials"), str(len(result.trials))),
        (label("am.busy"), numbers.quantity(result.busy, "fraction")),
        (label("am.gaps"), gap),
    ]


def _summary(result: Result) -> list[tuple[Text, doc.Inline]]:
    """The same with what stands behind each figure, where there is room for text."""
    work = (numbers.quantity(result.flops, "FLOP"), str(result.epochs), str(len(result.trials)))
    facts: list[tuple[Text, doc.Inline]] = [
        (label("am.score"), label("am.score_is", numbers.quantity(result.score, "FLOPS"), result.flops_rules)),
        (label("am.regulated"), numbers.quantity(result.regulated, "FLOPS")),
        (label("am.score_per_device"), numbers.quantity(result.score_per_device, "FLOPS")),
        (label("am.hardware"), _hardware(result)),
        (label("am.error"), label(_ERROR[result.metric], f"{100 * result.error:.2f}", result.shown(result.accuracy))),
        (label("am.work"), label("am.work_is", *work, numbers.quantity(result.seconds, "s"))),
    ]
    if result.busy is not None:
        facts.append((label("am.workers"), label("am.busy_is", f"{100 * result.busy:.1f}")))
    if result.gaps:
        gaps = result.gaps
        values = (str(gaps.count), f"{gaps.mean:.3f}", f"{gaps.longest:.3f}", str(gaps.late))
        facts.append((label("am.gaps_name"), label("am.gaps_are", *values)))
    return facts


# By what the error is made of: the name of what was reached, and the error as a sentence.
_REACHED = {"accuracy": "am.accuracy", "loss": "am.loss"}
_ERROR = {"accuracy": "am.error_is", "loss": "am.error_is_loss"}


def _hardware(result: Result) -> str:
    return ", ".join(f"{count} × {name}" for name, count in result.devices.items()) or numbers.NONE


def _over_time(result: Result) -> list[doc.Block]:
    x = [point.seconds for point in result.curve]
    drawn = [
        charts.LineChart(
            label(title),
            lines=[charts.Line("", charts.Curve(title, unit, x, list(values)))],
            x_title=label("am.time"),
            x_unit="s",
            zero=zero,
        )
        for title, unit, values, zero in (
            ("am.regulated_over_time", "FLOPS", [point.regulated for point in result.curve], True),
            ("am.score_over_time", "FLOPS", [point.score for point in result.curve], True),
            ("am.error_over_time", "fraction", [point.error for point in result.curve], False),
        )
    ]
    shown = doc.Group([doc.Heading(label("am.over_time")), doc.Figures(drawn, card=True)], shown_in=doc.PAGE)
    return [shown] if result.curve else []


def _value(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _search(result: Result) -> list[doc.Block]:
    known = [trial for trial in result.trials if trial.accuracy is not None]
    if not known:
        return []
    place = {trial.number: at for at, trial in enumerate(known)}
    tree = charts.TreeChart(
        label("am.tree"),
        nodes=[
            charts.Node(max(0.0, one.begin), one.accuracy or 0.0, None if one.parent is None else place.get(one.parent))
            for one in known
        ],
        x_title=label("am.tree_axis"),
        x_unit="s",
        y_unit="fraction",
        point_name=label("am.each"),
        best_name=label("am.best"),
        below="am.tree_below",
    )
    found = ("am.trial", _REACHED[result.metric], "am.parameters", "am.operations")
    # What is widest comes last: a narrow window shows the rest.
    made = ("am.moves", "am.parent", "am.epochs", "am.trainings", "am.values")
    columns = doc.columns(*found, *made)
    rows: list[list[doc.Inline]] = [
        [
            str(trial.number),
            result.shown(trial.accuracy or 0.0),
            numbers.NONE if trial.parameters is None else f"{trial.parameters:,}",
            numbers.quantity(trial.operations, "FLOP"),
            [in_words(msgspec.convert(move, Move)) for move in trial.moves] or numbers.NONE,
            numbers.NONE if trial.parent is None else str(trial.parent),
            str(trial.epochs),
            str(trial.runs),
            ", ".join(f"{name} {_value(value)}" for name, value in trial.values.items() if value is not None)
            or numbers.NONE,
        ]
        for trial in sorted(known, key=lambda one: -(one.accuracy or 0.0))[:_BEST]
    ]
    card = doc.Group(
        [doc.Figures([tree], style="full"), doc.Heading(label("am.best_trials"), 3), doc.Table(columns, rows)],
        style="card",
    )
    return [doc.Group([doc.Heading(label("am.search")), card], shown_in=doc.PAGE)]


def _best_network(result: Result, best: Graph | None) -> list[doc.Block]:
    if best is None:
        return []
    title = label("am.best_network", str(result.best))
    drawn = doc.Details(title, [doc.Figures([drawing(best, title)], style="full")], open=result.state == "RUNNING")
    return [doc.Group([drawn], style="card", shown_in=doc.PAGE)]


def _monitoring(nodes: Sequence[Series]) -> list[doc.Block]:
    drawn = []
    for title, ending in _MONITORED.items():
        lines = [
            charts.Line(
                f"{one.host} {one.name.removesuffix(ending)}".strip(), charts.Curve(one.name, one.unit, one.x, one.y)
            )
            for one in nodes
            if one.name.endswith(ending)
        ]
        if lines:
            title_text, x_title = label(title), label("am.time")
            drawn.append(charts.LineChart(title_text, lines=lines, x_title=x_title, x_unit="s", zero=True))
    shown = doc.Group([doc.Heading(label("am.monitoring")), doc.Figures(drawn, card=True)], shown_in=doc.PAGE)
    return [shown] if drawn else []


def _rules(result: Result) -> doc.Group:
    columns = doc.columns("am.rule", "state", "am.wanted", "am.found", text=4)
    rows: list[list[doc.Inline]] = []
    for one in result.verdicts:
        key, tone = _MET[one.met]
        rows.append([reason(f"automl-rule-{one.rule}"), doc.Badge(label(key), tone), one.wanted, one.found])
    return doc.Group([doc.Heading(label("am.rules")), doc.Group([doc.Table(columns, rows)], style="flush")])


def _remarks(result: Result) -> list[doc.Block]:
    if not result.remarks:
        return []
    return [doc.Group([doc.Heading(label("warnings")), doc.Notes(result.remarks, "card")])]


def _progress(result: Result) -> list[doc.Block]:
    """AIPerf's own table of a run, thinned."""
    if not result.curve:
        return []
    columns = doc.columns("am.hours", "am.error_percent", "am.pflops", "am.regulated_pflops", text=0)
    rows: list[list[doc.Inline]] = [
        [
            f"{point.seconds / 3600:.4f}",
            f"{100 * point.error:.2f}",
            f"{point.score / 1e15:.6g}",
            f"{point.regulated / 1e15:.6g}",
        ]
        for point in thinned(result.curve)
    ]
    return [doc.Table(columns, rows, shown_in=doc.NOT_PAGE)]


def thinned(curve: list[Point]) -> list[Point]:
    every = max(1, -(-len(curve) // _MOST_ROWS))
    shown = curve[every - 1 :: every]
    return shown if shown and shown[-1] is curve[-1] else [*shown, curve[-1]]
