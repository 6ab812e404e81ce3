"""The report of a run: a row per case, what did not succeed, then every case and what stands around them."""

from __future__ import annotations

from trainmark.i18n.texts import Joined, Text, joined, label, named
from trainmark.report import document as doc
from trainmark.report import figures, numbers
from trainmark.report.charts.records import MOST_POINTS, Row, RowChart
from trainmark.report.kinds.case import case_details
from trainmark.report.records import CaseReport, Report, RunSeries
from trainmark.spec.states import JobState
from trainmark.store.rundir import Imported

# Points of all curves together: a page of many cases stays one that can be sent around.
_ALL_POINTS = 240_000
_LEAST_POINTS = 50
# Up to so many cases all sections are open from the start.
_OPEN = 6
_WELL = (JobState.SUCCEEDED, JobState.PENDING, JobState.RUNNING)


def document(report: Report) -> doc.Document:
    places = {case.case: f"case-{number}" for number, case in enumerate(report.cases, 1)}
    moment = numbers.moment(report.created)
    opening: list[doc.Block] = [
        doc.Paragraph(label("run.line", report.run, report.suite, str(report.state)), shown_in=doc.TEXT),
        doc.Paragraph(
            doc.Several(
                (doc.Several((label("run"), doc.Code(report.run)), " "), figures.machine(report), moment), " · "
            ),
            shown_in=doc.MARKDOWN,
        ),
    ]
    return doc.Document(
        title=f"{report.suite} · {report.run}",
        kind=label("title"),
        heading=report.suite,
        badges=[figures.state_badge(report.state)],
        facts=[
            (label("run"), doc.Code(report.run)),
            (label("machine"), figures.machine(report)),
            (label("when"), moment),
            (label("kept_in"), doc.Code(report.dir or numbers.NONE)),
        ],
        blocks=[
            *opening,
            _summary(report, places),
            *_failures(report, places),
            *_remarks(report),
            *_studies(report, places),
            *_overview(report, places),
            *_peaks(report),
            *_cases(report, places),
            *_disturbed(report),
            *_imported(report.imported),
            *_warnings(report),
            *_environment(report),
            doc.Paragraph(label("run.kept_in", report.dir), shown_in=doc.TEXT),
        ],
    )


def _summary(report: Report, places: dict[str, str]) -> doc.Group:
    head = doc.Heading(label("summary"), shown_in=doc.PAGE)
    if not report.cases:
        return doc.Group([head, doc.Paragraph(label("no_cases"), card=True)], "summary")
    columns = [
        doc.Column(label("case"), figures=False),
        doc.Column(label("state"), figures=False, shown_in=doc.NOT_TEXT),
        doc.Column(label("state"), figures=False, shown_in=doc.TEXT),
        doc.Column(label("runs")),
        doc.Column(label("m.throughput"), shown_in=doc.PAGE),
        doc.Column(label("m.throughput"), shown_in=doc.NOT_PAGE),
        doc.Column(label("interval"), shown_in=doc.NOT_PAGE),
        doc.Column(label("outcome"), figures=False, shown_in=doc.NOT_TEXT),
        doc.Column(label("fraction"), shown_in=doc.NOT_TEXT),
        doc.Column(label("memory"), shown_in=doc.NOT_TEXT),
        doc.Column(label("band"), figures=False, shown_in=doc.NOT_TEXT),
        doc.Column(label("disturbed"), figures=False, shown_in=doc.NOT_TEXT),
    ]
    table = doc.Table(columns, [_row(case, places[case.case]) for case in report.cases])
    return doc.Group([head, _totals(report), doc.Group([table], style="flush")], "summary")


def _totals(report: Report) -> doc.Facts:
    cases, rounds = report.cases, sum(case.rounds for case in report.cases)
    good = sum(case.state is JobState.SUCCEEDED for case in cases)
    counted = sum(case.counted for case in cases)
    disturbed = sum(len(figures.disturbed(case)) for case in cases)
    tiles: list[tuple[str, int, int, doc.Tone]] = [
        ("cases_succeeded", good, len(cases), "good" if good == len(cases) else "bad"),
        ("rounds_counted", counted, rounds, ""),
        ("rounds_disturbed", disturbed, counted, "warn" if disturbed else ""),
    ]
    pairs = [(label(key), doc.Badge(label("of", str(count), str(total)), tone)) for key, count, total, tone in tiles]
    return doc.Facts(pairs, "tiles", shown_in=doc.PAGE)


def _row(case: CaseReport, place: str) -> list[doc.Inline]:
    found, fraction = figures.throughput(case), figures.fraction(case)
    speed, interval = numbers.value(found), numbers.interval(found)
    main: doc.Inline = doc.Strong(speed) if speed != numbers.NONE else speed
    share: doc.Inline = numbers.NONE
    if fraction is not None:
        # Never without its name: the two have different denominators.
        share = doc.Stack(numbers.value(fraction), named("short", fraction.name), in_line=True)
    why = figures.band_reason(case)
    disturbed = figures.disturbed_text(case)
    return [
        doc.Link(case.case, place),
        figures.state_badge(case.state),
        str(case.state),
        f"{case.counted}/{case.rounds}",
        doc.Stack(main, interval) if interval != numbers.NONE else main,
        speed,
        interval,
        doc.Several(tuple(figures.outcome_badges(case)) or (numbers.NONE,)),
        share,
        numbers.value(figures.memory(case)),
        doc.Stack(figures.band_badge(case), why) if why else figures.band_badge(case),
        doc.Badge(disturbed, "warn") if disturbed != numbers.NONE else disturbed,
    ]


def _failures(report: Report, places: dict[str, str]) -> list[doc.Block]:
    found = [case for case in report.cases if case.failure or case.state not in _WELL]
    if not found:
        return []
    cards = [_failure(case, places[case.case]) for case in found]
    return [doc.Group([doc.Heading(label("failures")), *cards], "failures", shown_in=doc.PAGE)]


def _failure(case: CaseReport, place: str) -> doc.Group:
    failure = case.failure or {}
    facts: list[tuple[Text, doc.Inline]] = [
        (label(key), str(failure[name]))
        for key, name in (("first_failure", "rank"), ("kind", "kind"), ("exit_code", "exit"), ("signal", "signal"))
        if failure.get(name) is not None
    ]
    name = doc.Several((doc.Link(case.case, place), figures.state_badge(case.state)), " ")
    blocks = [doc.Heading(name, 3), doc.Paragraph(case.reason), doc.Facts(facts), *_last_lines(case)]
    return doc.Group(blocks, style="plain" if case.state is JobState.SKIPPED else "bad")


def _last_lines(case: CaseReport) -> list[doc.Block]:
    lines = figures.last_lines(case)
    rank = (case.failure or {}).get("rank")
    title = label("last_lines") if rank is None else label("last_lines_of", str(rank))
    return [doc.Log(title, lines)] if lines else []


def _remarks(report: Report) -> list[doc.Block]:
    """A page has them beside the case. What disturbed a round stands in its own record; text has room for the first."""
    blocks: list[doc.Block] = []
    for case in report.cases:
        said = figures.remarks(case)
        beside = [
            *said,
            *(
                Joined((label("round_n", str(run.round)), reason), ": ")
                for run in figures.disturbed(case)
                for reason in run.disturbed
            ),
        ]
        if said:
            blocks += [doc.Heading(case.case, 4, shown_in=doc.TEXT), doc.Notes(said, shown_in=doc.TEXT)]
        if beside:
            blocks += [
                doc.Heading(doc.Code(case.case), 4, shown_in=doc.MARKDOWN),
                doc.Notes(beside, shown_in=doc.MARKDOWN),
            ]
        if said or beside:
            blocks += _last_lines(case)
    return [doc.Group(blocks, shown_in=doc.NOT_PAGE)]


def _studies(report: Report, places: dict[str, str]) -> list[doc.Block]:
    """Few runs have any of these, and each brings modules of its own."""
    blocks: list[doc.Block] = []
    if report.contests:
        from trainmark.report.kinds import contest

        blocks += contest.sections(report, places)
    if report.diagnoses:
        from trainmark.report.kinds import diagnosis

        blocks += diagnosis.sections(report.diagnoses)
    if report.studies:
        from trainmark.report.kinds import study

        blocks += study.sections(report.studies)
    if report.goodput:
        from trainmark.report.kinds import goodput

        blocks += goodput.sections(report.goodput)
    return blocks


def _peaks(report: Report) -> list[doc.Block]:
    if report.peaks is None:
        return []
    from trainmark.report.kinds import peaks

    return peaks.sections(report)


def _overview(report: Report, places: dict[str, str]) -> list[doc.Block]:
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
            label("m.throughput"),
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
    shown: doc.Block = (
        doc.Figures(charts, "full", card=True) if charts else doc.Paragraph(label("no_throughput"), card=True)
    )
    return [doc.Group([doc.Heading(label("throughput_by_case")), shown], shown_in=doc.PAGE)]


def _cases(report: Report, places: dict[str, str]) -> list[doc.Block]:
    if not report.cases:
        return []
    curves = sum(_curves(run.series) for case in report.cases for run in case.runs if run.series is not None)
    most = min(MOST_POINTS, max(_LEAST_POINTS, _ALL_POINTS // max(1, curves)))
    opened = len(report.cases) <= _OPEN
    shown = [case_details(case, places[case.case], most, opened) for case in report.cases]
    return [doc.Group([doc.Heading(label("cases")), *shown], shown_in=doc.PAGE)]


def _curves(series: RunSeries) -> int:
    single = (series.step_time, series.loss, series.band_low, series.band_high)
    return sum(one is not None for one in single) + len(series.evaluations) + len(series.utilisation)


def _disturbed(report: Report) -> list[doc.Block]:
    rows: list[list[doc.Inline]] = [
        [case.case, str(run.round), ", ".join(run.hosts), joined(*run.disturbed)]
        for case in report.cases
        for run in figures.disturbed(case)
    ]
    if not rows:
        return []
    columns = doc.columns("case", "round", "hosts", "reason", after=2)
    card = doc.Group([doc.Table(columns, rows)], style="card")
    return [doc.Group([doc.Heading(label("disturbances")), card], "disturbed", shown_in=doc.PAGE)]


def _imported(found: Imported | None) -> list[doc.Block]:
    if found is None:
        return []
    head = label("imported.from", found.format, found.source, found.sha256[:12])
    items: list[doc.Inline] = [label("imported.missing", what) for what in found.missing]
    items += [label("imported.flag", kind, str(count)) for kind, count in sorted(found.flags.items())]
    return [doc.Group([doc.Heading(head, 3), doc.Notes(items)], shown_in=doc.TEXT)]


def _warnings(report: Report) -> list[doc.Block]:
    if not report.warnings:
        return []
    lines = tuple(Joined((label("warning"), warning), ": ") for warning in report.warnings)
    return [
        doc.Group([doc.Heading(label("warnings")), doc.Notes(report.warnings, "card")], "warnings", shown_in=doc.PAGE),
        doc.Heading(label("warnings"), 4, shown_in=doc.MARKDOWN),
        doc.Notes(report.warnings, shown_in=doc.MARKDOWN),
        doc.Paragraph(Joined(lines, "\n"), shown_in=doc.TEXT),
    ]


def _environment(report: Report) -> list[doc.Block]:
    if not report.environment:
        return []
    groups = [
        doc.Details(
            doc.Stack(named("env", name), str(len(group))),
            [doc.Facts([(key, str(value)) for key, value in group.items()], "list")],
            open=name == "host",
        )
        for name, group in report.environment.items()
    ]
    return [
        doc.Group(
            [doc.Heading(label("environment")), doc.Group(groups, style="card")], "environment", shown_in=doc.PAGE
        )
    ]
