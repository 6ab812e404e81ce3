"""Which framework is faster: the answer in a sentence, the speeds side by side, and why some have no result."""

from __future__ import annotations

from collections.abc import Mapping

from trainmark.i18n.texts import Text, label, named
from trainmark.report import document as doc
from trainmark.report import figures, numbers
from trainmark.report.charts.records import Row, RowChart
from trainmark.report.records import CaseReport, Contest, Report, Rival

_TONES: dict[str, doc.Tone] = {"fastest": "good", "equivalent": "good", "inconclusive": "warn", "none": "warn"}


def sections(report: Report, places: Mapping[str, str]) -> list[doc.Block]:
    cases = {case.case: case for case in report.cases}
    cards = [_card(one, cases, places) for one in report.contests]
    return [doc.Group([doc.Heading(label("contest.title"), shown_in=doc.PAGE), *cards], "contests")]


def _card(contest: Contest, cases: Mapping[str, CaseReport], places: Mapping[str, str]) -> doc.Group:
    rows = [figures.speed_row(cases[one.case], one.framework, places[one.case]) for one in contest.rivals]
    heads = ("contest.framework", "runs", "m.throughput", "contest.share", "interval", "band", "compare.verdict")
    columns = doc.columns(*heads, after=2)
    return doc.Group(
        [
            doc.Heading(contest.question, 3, shown_in=doc.PAGE),
            doc.Heading(label("contest.of", contest.question), 3, shown_in=doc.NOT_PAGE),
            doc.Paragraph(answer(contest)),
            doc.Figures([_chart(contest, [row for row in rows if row.points])], "full"),
            doc.Table(columns, [_row(one, contest, cases[one.case], places[one.case]) for one in contest.rivals]),
            doc.Notes(_remarks(contest), "small"),
        ],
        style="card",
    )


def _chart(contest: Contest, rows: list[Row]) -> RowChart:
    speed = label("m.throughput")
    return RowChart(speed, rows=rows, unit=contest.unit, x_title=speed, caption=contest.unit, wide=True)


def answer(contest: Contest) -> Text:
    """What the run says, in one sentence. A framework without a result is not among the slower ones."""
    known = [rival for rival in contest.rivals if rival.speed is not None]
    if not known:
        return label("contest.nobody")
    first, *others = known
    if not others:
        return label("contest.alone", first.framework)
    for word, key in (("inconclusive", "contest.open"), ("equivalent", "contest.equal")):
        beside = [rival.framework for rival in others if rival.word == word]
        if beside:
            return label(key, first.framework, ", ".join(beside), f"{100 * contest.margin:g} %")
    return label("contest.winner", first.framework, str(len(known)))


def _row(rival: Rival, contest: Contest, case: CaseReport, place: str) -> list[doc.Inline]:
    return [
        doc.Link(rival.framework, place, code=False),
        f"{case.counted}/{case.rounds}",
        numbers.value(figures.throughput(case)),
        numbers.NONE if rival.share is None else "100 %" if rival.share == 1 else f"{100 * rival.share:.1f} %",
        _interval(rival),
        figures.band_badge(case),
        doc.Badge(_verdict(rival, contest), _TONES.get(rival.word, "calm")),
    ]


def _verdict(rival: Rival, contest: Contest) -> Text:
    """Nobody is called the fastest while it is open whether another one is."""
    if rival.word == "fastest" and any(other.word == "inconclusive" for other in contest.rivals):
        return label("contest.ahead")
    return label(f"contest.{rival.word}") if rival.word in ("fastest", "none") else named("verdict", rival.word)


def _interval(rival: Rival) -> str:
    """Of the share. The verdict is on the fastest against this one, so its interval is turned round."""
    found = rival.verdict
    if found is None or not found.ci_low or not found.ci_high:
        return numbers.NONE
    return f"{100 / found.ci_high:.1f} … {100 / found.ci_low:.1f} %"


def _remarks(contest: Contest) -> list[Text]:
    """Why some have no result, and what would settle what is open."""
    said: list[Text] = [label("contest.why", one.framework, one.reason) for one in contest.rivals if one.speed is None]
    for rival in contest.rivals:
        if rival.verdict is not None and rival.word == "inconclusive" and rival.verdict.needed:
            said.append(label("contest.needed", rival.framework, str(rival.verdict.needed)))
    return said
