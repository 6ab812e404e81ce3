"""The result of an experiment as a document: for the page, the terminal and `results.txt`."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.automl.experiment.monitoring import Series
from trainmark.automl.experiment.result import Result
from trainmark.automl.experiment.score import Point
from trainmark.report import numbers
from trainmark.report.charts.records import Curve, Line, LineChart, Node, TreeChart
from trainmark.report.document import (
    NOT_PAGE,
    PAGE,
    TEXT,
    Badge,
    Block,
    Code,
    Column,
    Document,
    Facts,
    Figures,
    Group,
    Heading,
    Inline,
    Notes,
    Paragraph,
    Table,
    Tone,
)
from trainmark.report.texts import Text, joined, label

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
_MET: dict[bool | None, tuple[str, Tone]] = {
    True: ("am.met", "good"),
    False: ("am.missed", "bad"),
    None: ("am.not_held", "calm"),
}


def document(result: Result, nodes: Sequence[Series] = ()) -> Document:
    """What is said, in the order people ask: does it count, what is it, how did it come about."""
    badges = [Badge(label("am.valid"), "good") if result.valid else Badge(label("am.not_valid"), "bad")]
    badges += [Badge(label("am.running"))] if result.state == "RUNNING" else []
    hosts = ", ".join(result.hosts[:_MOST_HOSTS]) + (" …" if len(result.hosts) > _MOST_HOSTS else "")
    rules = f"{result.rules}: {result.rules_title}"
    return Document(
        title=f"{result.name} · {result.run}",
        kind=label("am.title"),
        heading=result.name,
        badges=badges,
        facts=[
            (label("run"), Code(result.run)),
            (label("am.rules"), rules),
            (label("am.data"), result.data),
            (label("am.policy"), result.policy),
            (label("am.workers"), str(result.workers)),
            (label("am.nodes"), hosts),
            (label("when"), numbers.moment(result.start)),
            (label("am.lasted"), numbers.quantity(result.seconds, "s")),
        ],
        blocks=[
            Paragraph(label("am.line", result.run, result.state, rules), shown_in=TEXT),
            *_validity(result),
            Group([Heading(label("summary")), Facts(_tiles(result), "tiles")], "summary", shown_in=PAGE),
            Facts(_summary(result), shown_in=NOT_PAGE),
            *_over_time(result),
            *_search(result),
            *_monitoring(nodes),
            _rules(result),
            *_remarks(result),
            *_progress(result),
        ],
    )


def _validity(result: Result) -> list[Block]:
    if result.valid:
        return [Paragraph(label("am.is_valid"), shown_in=NOT_PAGE)]
    reasons: Sequence[Text] = result.reasons or [label("am.nothing")]
    card = Group([Paragraph(reason) for reason in reasons], style="bad")
    return [
        Group([Heading(label("am.why_failed")), card], shown_in=PAGE),
        Paragraph(label("am.is_not_valid", joined(*reasons)), shown_in=NOT_PAGE),
    ]


def _tiles(result: Result) -> list[tuple[Text, Inline]]:
    gap = f"{result.gaps.mean:.2f} s" if result.gaps else numbers.NONE
    regulated = numbers.quantity(result.regulated, "FLOPS")
    return [
        (label("am.regulated"), Badge(regulated, "good") if result.valid else regulated),
        (label("am.score"), numbers.quantity(result.score, "FLOPS")),
        (label("am.accuracy"), f"{100 * result.accuracy:.2f} %"),
        (label("am.work"), numbers.quantity(result.flops, "FLOP")),
        (label("am.trials"), str(len(result.trials))),
        (label("am.busy"), numbers.quantity(result.busy, "fraction")),
        (label("am.gaps"), gap),
    ]


def _summary(result: Result) -> list[tuple[Text, Inline]]:
    """The same with what stands behind each figure, where there is room for words."""
    work = (numbers.quantity(result.flops, "FLOP"), str(result.epochs), str(len(result.trials)))
    facts: list[tuple[Text, Inline]] = [
        (label("am.score"), label("am.score_is", numbers.quantity(result.score, "FLOPS"), result.flops_rules)),
        (label("am.regulated"), numbers.quantity(result.regulated, "FLOPS")),
        (label("am.error"), label("am.error_is", f"{100 * result.error:.2f}", f"{100 * result.accuracy:.2f}")),
        (label("am.work"), label("am.work_is", *work, numbers.quantity(result.seconds, "s"))),
    ]
    if result.busy is not None:
        facts.append((label("am.workers"), label("am.busy_is", f"{100 * result.busy:.1f}")))
    if result.gaps:
        gaps = result.gaps
        told = (str(gaps.count), f"{gaps.mean:.3f}", f"{gaps.longest:.3f}", str(gaps.late))
        facts.append((label("am.gaps_name"), label("am.gaps_are", *told)))
    return facts


def _over_time(result: Result) -> list[Block]:
    x = [point.seconds for point in result.curve]
    charts = [
        LineChart(
            title=label(title),
            lines=[Line("", Curve(title, unit, x, list(values)))],
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
    shown = Group([Heading(label("am.over_time")), Figures(charts, card=True)], shown_in=PAGE)
    return [shown] if result.curve else []


def _search(result: Result) -> list[Block]:
    known = [trial for trial in result.trials if trial.accuracy is not None]
    if not known:
        return []
    place = {trial.number: at for at, trial in enumerate(known)}
    tree = TreeChart(
        title=label("am.tree"),
        nodes=[
            Node(max(0.0, one.begin), one.accuracy or 0.0, None if one.parent is None else place.get(one.parent))
            for one in known
        ],
        x_title=label("am.tree_axis"),
        x_unit="s",
        y_unit="fraction",
        point_name=label("am.each"),
        best_name=label("am.best"),
        below="am.tree_below",
    )
    columns = [
        Column(label("am.trial"), figures=False),
        *(Column(label(key)) for key in ("am.accuracy", "am.parent")),
        Column(label("am.moves"), figures=False),
        *(Column(label(key)) for key in ("am.epochs", "am.trainings")),
    ]
    rows: list[list[Inline]] = [
        [
            str(trial.number),
            f"{100 * (trial.accuracy or 0.0):.2f} %",
            numbers.NONE if trial.parent is None else str(trial.parent),
            ", ".join(" ".join(map(str, move)) for move in trial.moves) or numbers.NONE,
            str(trial.epochs),
            str(trial.runs),
        ]
        for trial in sorted(known, key=lambda one: -(one.accuracy or 0.0))[:_BEST]
    ]
    card = Group([Figures([tree]), Heading(label("am.best_trials"), 3), Table(columns, rows)], style="card")
    return [Group([Heading(label("am.search")), card], shown_in=PAGE)]


def _monitoring(nodes: Sequence[Series]) -> list[Block]:
    charts = []
    for title, ending in _MONITORED.items():
        lines = [
            Line(f"{one.host} {one.name.removesuffix(ending)}".strip(), Curve(one.name, one.unit, one.x, one.y))
            for one in nodes
            if one.name.endswith(ending)
        ]
        if lines:
            charts.append(LineChart(title=label(title), lines=lines, x_title=label("am.time"), x_unit="s", zero=True))
    shown = Group([Heading(label("am.monitoring")), Figures(charts, card=True)], shown_in=PAGE)
    return [shown] if charts else []


def _rules(result: Result) -> Group:
    columns = [Column(label(key), figures=False) for key in ("am.rule", "state", "am.wanted", "am.found")]
    rows: list[list[Inline]] = []
    for one in result.verdicts:
        key, tone = _MET[one.met]
        rows.append([label(f"am.rule.{one.rule}"), Badge(label(key), tone), one.wanted, one.found])
    return Group([Heading(label("am.rules")), Group([Table(columns, rows)], style="flush")])


def _remarks(result: Result) -> list[Block]:
    if not result.remarks:
        return []
    return [Group([Heading(label("warnings")), Notes(result.remarks, "card")])]


def _progress(result: Result) -> list[Block]:
    """AIPerf's own table of a run, thinned."""
    if not result.curve:
        return []
    columns = [Column(label(key)) for key in ("am.hours", "am.error_percent", "am.pflops", "am.regulated_pflops")]
    rows: list[list[Inline]] = [
        [
            f"{point.seconds / 3600:.4f}",
            f"{100 * point.error:.2f}",
            f"{point.score / 1e15:.6g}",
            f"{point.regulated / 1e15:.6g}",
        ]
        for point in thinned(result.curve)
    ]
    return [Table(columns, rows, shown_in=NOT_PAGE)]


def thinned(curve: list[Point]) -> list[Point]:
    every = max(1, -(-len(curve) // _MOST_ROWS))
    shown = curve[every - 1 :: every]
    return shown if shown and shown[-1] is curve[-1] else [*shown, curve[-1]]
