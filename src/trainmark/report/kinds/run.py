"""The report of a run: the verdict, a row per case, what did not succeed, then every case and what is around them."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.i18n.texts import Joined, Text, joined, label, named
from trainmark.report import document as doc
from trainmark.report import figures, numbers, remarks, summary
from trainmark.report.charts.records import MOST_POINTS, Row, RowChart
from trainmark.report.kinds.case import case_details
from trainmark.report.records import CaseReport, Change, Report, RunSeries, Summary
from trainmark.report.trained import describe
from trainmark.score.records import Measurement
from trainmark.spec.states import JobState
from trainmark.store.rundir import Imported

# Points of all curves together: a page of many cases stays one that can be sent around.
_ALL_POINTS = 240_000
_LEAST_POINTS = 50
_WELL = (JobState.SUCCEEDED, JobState.PENDING, JobState.RUNNING)
# Asks for a page.
_PAGE = "--format html"
_TRUST: dict[str, doc.Tone] = {"good": "good", "fair": "warn", "weak": "warn", "none": "bad"}
_CHANGES: dict[str, doc.Tone] = {"faster": "good", "slower": "bad", "equivalent": "calm"}


def document(report: Report) -> doc.Document:
    places = {case.case: f"case-{number}" for number, case in enumerate(report.cases, 1)}
    told = report.summary or summary.of(report)
    facts = _facts(report, told)
    return doc.Document(
        title=f"{report.suite} · {report.run}",
        kind=label("title"),
        heading=report.suite,
        badges=[figures.state_badge(report.state)],
        lead=doc.Lead(told.verdict, _TRUST[told.trust]),
        facts=facts,
        blocks=[
            doc.Facts(facts, shown_in=doc.NOT_PAGE),
            doc.Commands(label("next"), told.next, shown_in=doc.MARKDOWN),
            # This is the page that the others would be sent to.
            doc.Commands(label("next"), [one for one in told.next if _PAGE not in one], shown_in=doc.PAGE),
            *_experiment(report),
            _results(report, places),
            *_failures(report, places),
            *_remarks(report),
            *_studies(report, places),
            *_spread(report, places),
            *_peaks(report),
            *_cases(report, places),
            *_imported(report.imported),
            *_warnings(report),
            *_environment(report),
            doc.Facts(_commands(told), shown_in=doc.TEXT),
        ],
    )


def _experiment(report: Report) -> list[doc.Block]:
    """Of an AutoML experiment: what it is scored by. The cases below are its workers."""
    found = report.experiment
    if found is None:
        return []
    verdict = doc.Badge(label("am.valid"), "good") if found.valid else doc.Badge(label("am.not_valid"), "bad")
    facts: list[tuple[Text, doc.Inline]] = [
        (label("am.rules"), doc.Several((found.rules, verdict), " ")),
        *((named("m", one.name), numbers.value(one)) for one in found.figures),
    ]
    whole = doc.Code(f"trainmark automl report {report.run}")
    return [
        doc.Group(
            [
                doc.Heading(label("am.title")),
                doc.Facts([*facts, (label("am.whole"), whole)]),
                *(doc.Paragraph(one) for one in found.reasons),
            ]
        )
    ]


def _facts(report: Report, told: Summary) -> list[tuple[Text, doc.Inline]]:
    results = label("of", str(told.results), str(told.cases))
    facts: list[tuple[Text, doc.Inline]] = [
        (label("results"), results),
        (label("machine"), figures.machine(report)),
        *((label("trained"), one) for one in _same(report)),
        *((label("change"), _change(change)) for change in [told.change] if change is not None),
        (label("run"), doc.Several((doc.Code(report.run), numbers.moment(report.created)), ", ")),
        (label("kept_in"), doc.Code(report.dir or numbers.NONE)),
    ]
    return facts


def _same(report: Report) -> list[Text]:
    """What was trained, where all cases trained the same; else each row says it."""
    found = [describe(case) for case in report.cases]
    return found[:1] if found and found[0] and all(one == found[0] for one in found) else []


def _change(change: Change) -> doc.Inline:
    """Against the baseline, in a few words."""
    if change.word is None:
        return joined(label("change.none", change.baseline), change.reason, joint=": ")
    ends = "" if change.ci_low is None else f" ({change.ci_low:.3f} … {change.ci_high:.3f})"
    ratio = numbers.NONE if change.ratio is None else f"{change.ratio:.3f}{ends}"
    word = doc.Badge(named("verdict", change.word), _CHANGES.get(change.word, "warn"))
    lost = label("change.lost", str(len(change.lost))) if change.lost else None
    return doc.Several((word, joined(label("change.is", ratio, change.baseline), lost, joint="; ")), " ")


def _commands(told: Summary) -> list[tuple[Text, doc.Inline]]:
    """What to type next."""
    if not told.next:
        return []
    return [(label("next") if number == 0 else "", doc.Code(command)) for number, command in enumerate(told.next)]


def _results(report: Report, places: dict[str, str]) -> doc.Group:
    head = doc.Heading(label("summary"), shown_in=doc.PAGE)
    if not report.cases:
        return doc.Group([head, doc.Paragraph(label("no_cases"), card=True)], "summary")
    timed = any(figures.time_to_train(case, report) for case in report.cases)
    columns = [
        doc.Column(label("case"), figures=False),
        doc.Column(label("m.throughput")),
        doc.Column(label("interval"), shown_in=doc.MARKDOWN),
        doc.Column(label("interval"), shown_in=doc.TEXT),
        doc.Column(label("runs")),
        *([doc.Column(label("time_to_train"))] if timed else []),
        doc.Column(label("flags"), figures=False),
        doc.Column(label("fraction"), shown_in=doc.NOT_TEXT),
        doc.Column(label("memory"), shown_in=doc.NOT_TEXT),
        doc.Column(label("band"), figures=False, shown_in=doc.NOT_TEXT),
    ]
    told = not _same(report)
    rows = []
    for case in report.cases:
        time = [numbers.value(figures.time_to_train(case, report))] if timed else []
        rows.append(_row(case, places[case.case], describe(case) if told else None, time))
    table = doc.Table(columns, rows)
    return doc.Group([head, doc.Group([table], style="flush")], "summary")


def _row(case: CaseReport, place: str, trained: Text, time: Sequence[doc.Inline]) -> list[doc.Inline]:
    found, fraction = figures.throughput(case), figures.fraction(case)
    interval = numbers.interval(found)
    main: doc.Inline = remarks.speed(case)
    share: doc.Inline = numbers.NONE
    if fraction is not None:
        # Never without its name: the two have different denominators.
        share = doc.Stack(numbers.value(fraction), named("short", fraction.name), in_line=True)
    return [
        doc.Stack(doc.Link(case.case, place), trained, keeps=True) if trained else doc.Link(case.case, place),
        doc.Stack(main, interval) if interval != numbers.NONE else main,
        interval,
        _ends(found),
        f"{case.counted}/{case.rounds}",
        *time,
        remarks.flags(case.flags),
        share,
        numbers.value(figures.memory(case)),
        figures.band_badge(case),
    ]


def _ends(found: Measurement | None) -> str:
    """A terminal has room for these alone."""
    if found is None or found.value is None or found.ci_low is None or found.ci_high is None:
        return numbers.NONE
    by, _ = numbers.scale(found.unit, abs(found.value))
    return numbers.span(found.ci_low / by, found.ci_high / by)


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
    tries = doc.Notes(remarks.tries(case), "small")
    blocks = [doc.Heading(name, 3), doc.Paragraph(case.reason), tries, doc.Facts(facts), *_last_lines(case)]
    return doc.Group(blocks, style="plain" if case.state is JobState.SKIPPED else "bad")


def _last_lines(case: CaseReport) -> list[doc.Block]:
    lines = figures.last_lines(case)
    rank = (case.failure or {}).get("rank")
    title = label("last_lines") if rank is None else label("last_lines_of", str(rank))
    return [doc.Log(title, lines)] if lines else []


def _remarks(report: Report) -> list[doc.Block]:
    """A page has them beside the case. What every case has is said once, for all of them."""
    said = {case.case: remarks.of_case(case) for case in report.cases}
    shared = remarks.shared(said)
    blocks: list[doc.Block] = []
    if shared:
        blocks += [doc.Heading(label("all_cases"), 4), doc.Notes(shared)]
    for case in report.cases:
        own = [remark for remark in said[case.case] if remark not in shared]
        if not own:
            continue
        blocks += [
            doc.Heading(case.case, 4, shown_in=doc.TEXT),
            doc.Heading(doc.Code(case.case), 4, shown_in=doc.MARKDOWN),
            doc.Notes(own),
            *_last_lines(case),
        ]
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


def _spread(report: Report, places: dict[str, str]) -> list[doc.Block]:
    """How far rounds lie from the result of their case: one axis fits all cases, whatever their units."""
    rows = []
    for case in report.cases:
        found = figures.throughput(case)
        if found is None or not found.value or len(found.inputs) < 2:
            continue
        by = found.value
        rows.append(
            Row(
                case.case,
                [value / by - 1 for value in found.inputs],
                0.0,
                None if found.ci_low is None else found.ci_low / by - 1,
                None if found.ci_high is None else found.ci_high / by - 1,
                link=places[case.case],
                note=numbers.value(found),
            )
        )
    # A single case draws its rounds itself.
    if len(rows) < 2:
        return []
    chart = RowChart(
        label("chart.spread"),
        rows=rows,
        unit="fraction",
        x_title=label("axis.from_mean"),
        caption=label("chart.spread_caption"),
        wide=True,
        legend=[("mark dot", label("chart.legend_run")), ("mark span", label("chart.legend_interval"))],
    )
    head = doc.Heading(label("chart.spread"))
    return [doc.Group([head, doc.Figures([chart], "full", card=True)], "spread", shown_in=doc.PAGE)]


def _cases(report: Report, places: dict[str, str]) -> list[doc.Block]:
    if not report.cases:
        return []
    curves = sum(_curves(run.series) for case in report.cases for run in case.runs if run.series is not None)
    most = min(MOST_POINTS, max(_LEAST_POINTS, _ALL_POINTS // max(1, curves)))
    opened = len(report.cases) == 1
    shown = [case_details(case, places[case.case], most, opened) for case in report.cases]
    return [doc.Group([doc.Heading(label("cases")), *shown], "cases", shown_in=doc.PAGE)]


def _curves(series: RunSeries) -> int:
    single = (series.step_time, series.loss, series.band_low, series.band_high)
    return sum(one is not None for one in single) + len(series.evaluations) + len(series.utilisation)


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
        )
        for name, group in report.environment.items()
    ]
    return [
        doc.Group(
            [doc.Heading(label("environment")), doc.Group(groups, style="card")], "environment", shown_in=doc.PAGE
        )
    ]
