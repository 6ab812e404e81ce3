"""The result as one HTML page, in the style of all reports: nothing in it is fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.automl.experiment.monitoring import Series
from trainmark.automl.experiment.result import Result
from trainmark.report import numbers
from trainmark.report.charts import lines, tree
from trainmark.report.charts.figure import data_cell, table
from trainmark.report.charts.lines import Line
from trainmark.report.charts.tree import Node
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, escape, words
from trainmark.report.page.badges import badge
from trainmark.report.page.document import switches, wrap
from trainmark.report.records import Curve

_BEST = 12
_MOST_HOSTS = 8
# Which series are drawn together, by the end of their names.
_MONITORED = {
    "am.cpu": "cpu",
    "am.devices": "utilisation",
    "am.memory": "mem_used",
    "am.network": "net_rx",
    "am.network_sent": "net_tx",
}


def render(result: Result, nodes: Sequence[Series], language: str | None = None) -> str:
    speak = Speaker(language or "en")
    parts = (
        _reasons(speak, result),
        _totals(speak, result),
        _curves(speak, result),
        _search(speak, result),
        _monitoring(speak, nodes),
        _rules(speak, result),
        _remarks(speak, result),
    )
    body = (
        f'<div class="page">{_header(speak, result)}<main id="summary">{"".join(parts)}</main>'
        f"{element('footer', speak('made_by'))}</div>"
    )
    return wrap(speak, f"{result.name} · {result.run}", body, forced=language is not None)


def _header(speak: Speaker, result: Result) -> str:
    verdict = badge(speak("am.valid"), "good") if result.valid else badge(speak("am.not_valid"), "bad")
    if result.state == "RUNNING":
        verdict += " " + badge(speak("am.running"), "calm")
    facts: list[tuple[str, str]] = [
        ("run", f"<code>{escape(result.run)}</code>"),
        ("am.rules", escape(f"{result.rules}: {result.rules_title}")),
        ("am.data", escape(result.data)),
        ("am.policy", escape(result.policy)),
        ("am.workers", escape(str(result.workers))),
        ("am.nodes", escape(", ".join(result.hosts[:_MOST_HOSTS]) + (" …" if len(result.hosts) > _MOST_HOSTS else ""))),
        ("when", escape(numbers.moment(result.start))),
        ("am.lasted", words(numbers.quantity(result.seconds, "s"))),
    ]
    listed = "".join(f"<div>{element('dt', speak(key))}<dd>{value}</dd></div>" for key, value in facts)
    return (
        f'<header><div class="top">{element("p", speak("am.title"), " class=eyebrow")}{switches(speak)}</div>'
        f"<h1><span>{escape(result.name)}</span> {verdict}</h1>"
        f'<dl class="facts">{listed}</dl></header>'
    )


def _reasons(speak: Speaker, result: Result) -> str:
    if result.valid:
        return ""
    reasons = [speak.reason(one) for one in result.reasons] or [speak("am.nothing")]
    items = "".join(element("p", reason) for reason in reasons)
    return f'<section>{element("h2", speak("am.why_failed"))}<div class="card failure bad">{items}</div></section>'


def _totals(speak: Speaker, result: Result) -> str:
    gap = f"{result.gaps.mean:.2f} s" if result.gaps else numbers.NONE
    tiles: list[tuple[str, Label | str, str]] = [
        ("am.regulated", numbers.quantity(result.regulated, "FLOPS"), "good" if result.valid else ""),
        ("am.score", numbers.quantity(result.score, "FLOPS"), ""),
        ("am.accuracy", f"{100 * result.accuracy:.2f} %", ""),
        ("am.work", numbers.quantity(result.flops, "FLOP"), ""),
        ("am.trials", str(len(result.trials)), ""),
        ("am.busy", numbers.quantity(result.busy, "fraction"), ""),
        ("am.gaps", gap, ""),
    ]
    cells = "".join(
        f'<div class="card">{element("dt", speak(key))}{element("dd", value, f" class={kind}" if kind else "")}</div>'
        for key, value, kind in tiles
    )
    return f'<section>{element("h2", speak("summary"))}<dl class="totals">{cells}</dl></section>'


def _curves(speak: Speaker, result: Result) -> str:
    if not result.curve:
        return ""
    x = [point.seconds for point in result.curve]
    drawn = "".join(
        lines.chart(
            speak,
            speak(title),
            [Line("", Curve(title, unit, x, list(values)))],
            x_title=speak("am.time"),
            x_unit="s",
            zero=zero,
        )
        for title, unit, values, zero in (
            ("am.regulated_over_time", "FLOPS", [point.regulated for point in result.curve], True),
            ("am.score_over_time", "FLOPS", [point.score for point in result.curve], True),
            ("am.error_over_time", "fraction", [point.error for point in result.curve], False),
        )
    )
    return _figures(speak("am.over_time"), drawn)


def _search(speak: Speaker, result: Result) -> str:
    known = [trial for trial in result.trials if trial.accuracy is not None]
    if not known:
        return ""
    place = {trial.number: at for at, trial in enumerate(known)}
    nodes = [
        Node(max(0.0, trial.begin), trial.accuracy or 0.0, None if trial.parent is None else place.get(trial.parent))
        for trial in known
    ]
    drawn = tree.chart(
        speak,
        speak("am.tree"),
        nodes,
        x_title=speak("am.tree_axis"),
        x_unit="s",
        y_unit="fraction",
        names=(speak("am.each"), speak("am.best")),
        below="am.tree_below",
    )
    best = sorted(known, key=lambda one: -(one.accuracy or 0.0))[:_BEST]
    head = [speak(key) for key in ("am.trial", "am.accuracy", "am.parent", "am.moves", "am.epochs", "am.trainings")]
    rows: list[Sequence[Label | str]] = [
        [
            str(trial.number),
            f"{100 * (trial.accuracy or 0.0):.2f} %",
            numbers.NONE if trial.parent is None else str(trial.parent),
            ", ".join(" ".join(map(str, move)) for move in trial.moves) or numbers.NONE,
            str(trial.epochs),
            str(trial.runs),
        ]
        for trial in best
    ]
    return (
        f'<section>{element("h2", speak("am.search"))}<div class="card"><div class="figures">{drawn}</div>'
        f"{element('h4', speak('am.best_trials'))}{table(head, rows, plain=(0, 3))}</div></section>"
    )


def _monitoring(speak: Speaker, nodes: Sequence[Series]) -> str:
    drawn = ""
    for title, ending in _MONITORED.items():
        shown = [
            Line(f"{series.host} {series.name.removesuffix(ending)}".strip(), curve)
            for series in nodes
            if series.name.endswith(ending)
            for curve in [Curve(series.name, series.unit, series.x, series.y)]
        ]
        drawn += lines.chart(speak, speak(title), shown, x_title=speak("am.time"), x_unit="s", zero=True)
    if not drawn:
        return ""
    return _figures(speak("am.monitoring"), drawn)


def _figures(title: Label, drawn: str) -> str:
    return f'<section>{element("h2", title)}<div class="card"><div class="figures">{drawn}</div></div></section>'


def _rules(speak: Speaker, result: Result) -> str:
    kinds = {True: ("am.met", "good"), False: ("am.missed", "bad"), None: ("am.not_held", "calm")}
    head = [speak(key) for key in ("am.rule", "state", "am.wanted", "am.found")]
    rows = ""
    for one in result.verdicts:
        key, kind = kinds[one.met]
        cells = (badge(speak(key), kind), words(speak.reason(one.wanted)), words(speak.reason(one.found)))
        row = "".join(data_cell(name, cell, False) for name, cell in zip(head[1:], cells, strict=True))
        rows += f"<tr>{element('th', speak(f'am.rule.{one.rule}'), ' scope=row')}{row}</tr>"
    top = "".join(element("th", name, ' scope="col"') for name in head)
    return (
        f'<section>{element("h2", speak("am.rules"))}<div class="card flush"><div class="scroll"><table class="cards">'
        f"<thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div></div></section>"
    )


def _remarks(speak: Speaker, result: Result) -> str:
    if not result.remarks:
        return ""
    items = "".join(f"<li>{words(speak.reason(remark))}</li>" for remark in result.remarks)
    return f'<section>{element("h2", speak("warnings"))}<ul class="card warn">{items}</ul></section>'
