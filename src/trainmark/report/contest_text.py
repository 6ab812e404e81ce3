"""Frameworks side by side, for people: the answer in a sentence, the table, and why some have no result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainmark.reasons import reason
from trainmark.report import figures, numbers
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.plain import columns
from trainmark.report.records import CaseReport, Contest, Report, Rival

HEAD = ("contest.framework", "runs", "m.throughput", "contest.share", "interval", "band", "compare.verdict")
# Those of the columns that hold figures.
FIGURES = (1, 2, 3, 4)


def cases_of(report: Report) -> dict[str, CaseReport]:
    return {case.case: case for case in report.cases}


def title(contest: Contest, speak: Speaker) -> Label:
    return speak("contest.of", contest.question)


def answer(contest: Contest, speak: Speaker) -> Label:
    """What the run says, in one sentence. Whoever has no result is not among the slower ones."""
    known = [rival for rival in contest.rivals if rival.speed is not None]
    if not known:
        return speak("contest.nobody")
    first, *others = known
    if not others:
        return speak("contest.alone", first.framework)
    for word, key in (("inconclusive", "contest.open"), ("equivalent", "contest.equal")):
        beside = [rival.framework for rival in others if rival.word == word]
        if beside:
            return speak(key, first.framework, ", ".join(beside), _percent(contest.margin))
    return speak("contest.winner", first.framework, len(known))


def row(rival: Rival, contest: Contest, case: CaseReport, speak: Speaker) -> list[Label | str]:
    """Cells in the order of HEAD."""
    return [
        rival.framework,
        f"{case.counted}/{case.rounds}",
        numbers.value(figures.throughput(case)),
        numbers.NONE if rival.share is None else _percent(rival.share, 1),
        _span(rival),
        figures.band(case, speak)[0],
        word(rival, contest, speak),
    ]


def word(rival: Rival, contest: Contest, speak: Speaker) -> Label:
    """Nobody is called the fastest while it is open whether another one is."""
    if rival.word == "fastest" and any(other.word == "inconclusive" for other in contest.rivals):
        return speak("contest.ahead")
    if rival.word in ("fastest", "none"):
        return speak(f"contest.{rival.word}")
    return speak.named("verdict", rival.word)


def remarks(contest: Contest, speak: Speaker) -> list[Label]:
    """Why some have no result, and what would settle what is open."""
    left = [rival for rival in contest.rivals if rival.speed is None]
    said = [speak.reason(reason("without-result", framework=rival.framework, why=rival.reason)) for rival in left]
    for rival in contest.rivals:
        if rival.verdict is not None and rival.word == "inconclusive" and rival.verdict.needed:
            said.append(speak("contest.needed", rival.framework, rival.verdict.needed))
    return said


def text(contest: Contest, cases: Mapping[str, CaseReport], speak: Speaker) -> list[str]:
    head = [speak.text(key).lower() for key in HEAD]
    rows = [_texts(row(rival, contest, cases[rival.case], speak)) for rival in contest.rivals]
    lines = ["", title(contest, speak).text, f"  {answer(contest, speak).text}", ""]
    lines += [f"  {line}" for line in columns([head, *rows])]
    said = remarks(contest, speak)
    return lines + ([""] if said else []) + [f"  {one.text}" for one in said]


def markdown(contest: Contest, cases: Mapping[str, CaseReport], speak: Speaker) -> list[str]:
    from trainmark.report.markdown import plain, rows

    sides = ["---:" if index in FIGURES else "---" for index in range(len(HEAD))]
    told = [[plain(cell) for cell in _texts(row(rival, contest, cases[rival.case], speak))] for rival in contest.rivals]
    parts = [f"### {plain(title(contest, speak).text)}", plain(answer(contest, speak).text)]
    parts.append(rows([[speak.text(key) for key in HEAD], sides, *told]))
    said = [f"- {plain(one.text)}" for one in remarks(contest, speak)]
    return [*parts, "\n".join(said)] if said else parts


def _texts(cells: Sequence[Label | str]) -> list[str]:
    return [cell if isinstance(cell, str) else cell.text for cell in cells]


def _span(rival: Rival) -> str:
    """Of the share. The verdict is on the fastest against this one, so its interval is turned round."""
    found = rival.verdict
    if found is None or not found.ci_low or not found.ci_high:
        return numbers.NONE
    return f"{100 / found.ci_high:.1f} … {100 / found.ci_low:.1f} %"


def _percent(share: float, digits: int | None = None) -> str:
    return f"{100 * share:g} %" if digits is None or share == 1 else f"{100 * share:.{digits}f} %"
