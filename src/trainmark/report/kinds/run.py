"""The report of a run: a row per case, what did not succeed, then every case and what stands around them."""

from __future__ import annotations

from trainmark.report import figures, numbers
from trainmark.report.charts.records import MOST_POINTS, Row, RowChart
from trainmark.report.document import (
    MARKDOWN,
    NOT_PAGE,
    NOT_TEXT,
    PAGE,
    TEXT,
    Badge,
    Block,
    Code,
    Column,
    Details,
    Document,
    Facts,
    Figures,
    Group,
    Heading,
    Inline,
    Link,
    Log,
    Notes,
    Paragraph,
    Several,
    Stack,
    Strong,
    Table,
    Tone,
)
from trainmark.report.kinds import contest, diagnosis, goodput, peaks, study
from trainmark.report.kinds.case import case_details
from trainmark.report.records import CaseReport, Report, RunSeries
from trainmark.report.texts import Joined, Text, joined, label, named
from trainmark.spec.states import JobState
from trainmark.store.rundir import Imported

# Points of all curves together: a page of many cases stays one that can be sent around.
_ALL_POINTS = 240_000
_LEAST_POINTS = 50
# Up to so many cases all sections are open from the start.
_OPEN = 6
_WELL = (JobState.SUCCEEDED, JobState.PENDING, JobState.RUNNING)


def document(report: Report) -> Document:
    places = {case.case: f"case-{number}" for number, case in enumerate(report.cases, 1)}
    moment = numbers.moment(report.created)
    opening: list[Block] = [
        Paragraph(label("run.line", report.run, report.suite, str(report.state)), shown_in=TEXT),
        Paragraph(
            Several((Several((label("run"), Code(report.run)), " "), figures.machine(report), moment), " · "),
            shown_in=MARKDOWN,
        ),
    ]
    return Document(
        title=f"{report.suite} · {report.run}",
        kind=label("title"),
        heading=report.suite,
        badges=[figures.state_badge(report.state)],
        facts=[
            (label("run"), Code(report.run)),
            (label("machine"), figures.machine(report)),
            (label("when"), moment),
            (label("kept_in"), Code(report.dir or numbers.NONE)),
        ],
        blocks=[
            *opening,
            _summary(report, places),
            *_failures(report, places),
            *_remarks(report),
            *contest.sections(report, places),
            *diagnosis.sections(report.diagnoses),
            *study.sections(report.studies),
            *goodput.sections(report.goodput),
            *_overview(report, places),
            *peaks.sections(report),
            *_cases(report, places),
            *_disturbed(report),
            *_imported(report.imported),
            *_warnings(report),
            *_environment(report),
            Paragraph(label("run.kept_in", report.dir), shown_in=TEXT),
        ],
    )


def _summary(report: Report, places: dict[str, str]) -> Group:
    head = Heading(label("summary"), shown_in=PAGE)
    if not report.cases:
        return Group([head, Paragraph(label("no_cases"), card=True)], "summary")
    columns = [
        Column(label("case"), figures=False),
        Column(label("state"), figures=False, shown_in=NOT_TEXT),
        Column(label("state"), figures=False, shown_in=TEXT),
        Column(label("runs")),
        Column(label("m.throughput"), shown_in=PAGE),
        Column(label("m.throughput"), shown_in=NOT_PAGE),
        Column(label("interval"), shown_in=NOT_PAGE),
        Column(label("outcome"), figures=False, shown_in=NOT_TEXT),
        Column(label("fraction"), shown_in=NOT_TEXT),
        Column(label("memory"), shown_in=NOT_TEXT),
        Column(label("band"), figures=False, shown_in=NOT_TEXT),
        Column(label("disturbed"), figures=False, shown_in=NOT_TEXT),
    ]
    table = Table(columns, [_row(case, places[case.case]) for case in report.cases])
    return Group([head, _totals(report), Group([table], style="flush")], "summary")


def _totals(report: Report) -> Facts:
    cases, rounds = report.cases, sum(case.rounds for case in report.cases)
    good = sum(case.state is JobState.SUCCEEDED for case in cases)
    counted = sum(case.counted for case in cases)
    disturbed = sum(len(figures.disturbed(case)) for case in cases)
    tiles: list[tuple[str, int, int, Tone]] = [
        ("cases_succeeded", good, len(cases), "good" if good == len(cases) else "bad"),
        ("rounds_counted", counted, rounds, ""),
        ("rounds_disturbed", disturbed, counted, "warn" if disturbed else ""),
    ]
    pairs = [(label(key), Badge(label("of", str(count), str(total)), tone)) for key, count, total, tone in tiles]
    return Facts(pairs, "tiles", shown_in=PAGE)


def _row(case: CaseReport, place: str) -> list[Inline]:
    found, fraction = figures.throughput(case), figures.fraction(case)
    speed, interval = numbers.value(found), numbers.interval(found)
    main: Inline = Strong(speed) if speed != numbers.NONE else speed
    share: Inline = numbers.NONE
    if fraction is not None:
        # Never without its name: the two have different denominators.
        share = Stack(numbers.value(fraction), named("short", fraction.name), in_line=True)
    why = figures.band_reason(case)
    disturbed = figures.disturbed_text(case)
    return [
        Link(case.case, place),
        figures.state_badge(case.state),
        str(case.state),
        f"{case.counted}/{case.rounds}",
        Stack(main, interval) if interval != numbers.NONE else main,
        speed,
        interval,
        Several(tuple(figures.outcome_badges(case)) or (numbers.NONE,)),
        share,
        numbers.value(figures.memory(case)),
        Stack(figures.band_badge(case), why) if why else figures.band_badge(case),
        Badge(disturbed, "warn") if disturbed != numbers.NONE else disturbed,
    ]


def _failures(report: Report, places: dict[str, str]) -> list[Block]:
    found = [case for case in report.cases if case.failure or case.state not in _WELL]
    if not found:
        return []
    cards = [_failure(case, places[case.case]) for case in found]
    return [Group([Heading(label("failures")), *cards], "failures", shown_in=PAGE)]


def _failure(case: CaseReport, place: str) -> Group:
    failure = case.failure or {}
    facts: list[tuple[Text, Inline]] = [
        (label(key), str(failure[name]))
        for key, name in (("first_failure", "rank"), ("kind", "kind"), ("exit_code", "exit"), ("signal", "signal"))
        if failure.get(name) is not None
    ]
    name = Several((Link(case.case, place), figures.state_badge(case.state)), " ")
    blocks = [Heading(name, 3), Paragraph(case.reason), Facts(facts), *_last_lines(case)]
    return Group(blocks, style="plain" if case.state is JobState.SKIPPED else "bad")


def _last_lines(case: CaseReport) -> list[Block]:
    lines = figures.last_lines(case)
    rank = (case.failure or {}).get("rank")
    title = label("last_lines") if rank is None else label("last_lines_of", str(rank))
    return [Log(title, lines)] if lines else []


def _remarks(report: Report) -> list[Block]:
    """A page has them beside the case. What disturbed a round stands in its own record; text has room for the first."""
    blocks: list[Block] = []
    for case in report.cases:
        said = figures.remarks(case)
        beside = [remark for remark in said if not figures.about_a_disturbance(remark)]
        beside += [
            Joined((label("round_n", str(run.round)), reason), ": ")
            for run in figures.disturbed(case)
            for reason in run.disturbed
        ]
        if said:
            blocks += [Heading(case.case, 4, shown_in=TEXT), Notes(said, shown_in=TEXT)]
        if beside:
            blocks += [Heading(Code(case.case), 4, shown_in=MARKDOWN), Notes(beside, shown_in=MARKDOWN)]
        if said or beside:
            blocks += _last_lines(case)
    return [Group(blocks, shown_in=NOT_PAGE)]


def _overview(report: Report, places: dict[str, str]) -> list[Block]:
    """A chart per unit: only figures of one unit share an axis."""
    if not report.cases:
        return []
    units: dict[str, list[Row]] = {}
    for case in report.cases:
        found = figures.throughput(case)
        if found is not None and found.inputs:
            units.setdefault(found.unit, []).append(figures.speed_row(case, case.case, places[case.case]))
    charts = [
        RowChart(
            title=label("m.throughput"),
            rows=rows,
            unit=unit,
            x_title=label("m.throughput"),
            caption=unit,
            wide=True,
            legend=[
                (mark, label(key))
                for mark, key, holds in (
                    ("mark dot", "chart.legend_run", any(row.result for row in rows)),
                    ("mark span", "chart.legend_interval", any(row.low is not None for row in rows)),
                    ("mark dot loose", "chart.legend_loose", not all(row.result for row in rows)),
                )
                if holds
            ],
        )
        for unit, rows in units.items()
    ]
    shown: Block = Figures(charts, "full", card=True) if charts else Paragraph(label("no_throughput"), card=True)
    return [Group([Heading(label("throughput_by_case")), shown], shown_in=PAGE)]


def _cases(report: Report, places: dict[str, str]) -> list[Block]:
    if not report.cases:
        return []
    curves = sum(_curves(run.series) for case in report.cases for run in case.runs if run.series is not None)
    most = min(MOST_POINTS, max(_LEAST_POINTS, _ALL_POINTS // max(1, curves)))
    opened = len(report.cases) <= _OPEN
    shown = [case_details(case, places[case.case], most, opened) for case in report.cases]
    return [Group([Heading(label("cases")), *shown], shown_in=PAGE)]


def _curves(series: RunSeries) -> int:
    single = (series.step_time, series.loss, series.band_low, series.band_high)
    return sum(one is not None for one in single) + len(series.evaluations) + len(series.utilisation)


def _disturbed(report: Report) -> list[Block]:
    rows: list[list[Inline]] = [
        [case.case, str(run.round), ", ".join(run.hosts), joined(*run.disturbed)]
        for case in report.cases
        for run in figures.disturbed(case)
    ]
    if not rows:
        return []
    columns = [
        Column(label("case"), figures=False),
        Column(label("round")),
        Column(label("hosts"), figures=False),
        Column(label("reason"), figures=False),
    ]
    card = Group([Table(columns, rows)], style="card")
    return [Group([Heading(label("disturbances")), card], "disturbed", shown_in=PAGE)]


def _imported(found: Imported | None) -> list[Block]:
    if found is None:
        return []
    head = label("imported.from", found.format, found.source, found.sha256[:12])
    items: list[Inline] = [label("imported.missing", what) for what in found.missing]
    items += [label("imported.flag", kind, str(count)) for kind, count in sorted(found.flags.items())]
    return [Group([Heading(head, 3), Notes(items)], shown_in=TEXT)]


def _warnings(report: Report) -> list[Block]:
    if not report.warnings:
        return []
    lines = tuple(Joined((label("warning"), warning), ": ") for warning in report.warnings)
    return [
        Group([Heading(label("warnings")), Notes(report.warnings, "card")], "warnings", shown_in=PAGE),
        Heading(label("warnings"), 4, shown_in=MARKDOWN),
        Notes(report.warnings, shown_in=MARKDOWN),
        Paragraph(Joined(lines, "\n"), shown_in=TEXT),
    ]


def _environment(report: Report) -> list[Block]:
    if not report.environment:
        return []
    groups = [
        Details(
            Stack(named("env", name), str(len(group))),
            [Facts([(key, str(value)) for key, value in group.items()], "list")],
            open=name == "host",
        )
        for name, group in report.environment.items()
    ]
    return [Group([Heading(label("environment")), Group(groups, style="card")], "environment", shown_in=PAGE)]
