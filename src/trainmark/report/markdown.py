"""The report as Markdown: a table and remarks, made for a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainmark.reasons import reason
from trainmark.report import figures, numbers
from trainmark.report.i18n.speaker import Speaker
from trainmark.report.plain import clean
from trainmark.report.records import CaseReport, Report
from trainmark.score.records import Diagnosis

_HEAD = ("case", "state", "runs", "m.throughput", "interval", "outcome", "fraction", "memory", "band", "disturbed")
_MOST_LINES = 20


def render(report: Report, language: str = "en") -> str:
    speak = Speaker(language)
    state = speak.text(f"state.{report.state}")
    about = f"{plain(figures.machine(report, speak).text)} · {numbers.moment(report.created)}"
    parts = [f"## {plain(report.suite)}: {state}", f"{speak.text('run')} {code(report.run)} · {about}"]
    parts.append(_table(report, speak) if report.cases else speak.text("no_cases"))
    if report.studies:
        from trainmark.report import study_text

        parts += [part for study in report.studies for part in study_text.markdown(study, speak)]
    remarks = [_remarks(case, speak) for case in report.cases]
    parts += [remark for remark in remarks if remark]
    parts += [_diagnosis(one, speak) for one in report.diagnoses]
    if report.contests:
        from trainmark.report import contest_text

        cases = contest_text.cases_of(report)
        parts += [part for one in report.contests for part in contest_text.markdown(one, cases, speak)]
    if report.warnings:
        parts.append(f"**{speak.text('warnings')}**\n\n" + "\n".join(f"- {plain(one)}" for one in report.warnings))
    return "\n\n".join(parts) + "\n"


def _diagnosis(found: Diagnosis, speak: Speaker) -> str:
    """The causes; classes and operators are for pages and JSON."""
    lines = [
        f"- {plain(speak.text(f'class.{one.kind}'))}: {numbers.quantity(one.seconds.value, 's')} "
        f"({numbers.quantity(one.share, 'fraction')}): {plain(speak.reason(one.place).text)}"
        for one in found.causes
    ]
    told = "\n".join(lines) or f"- {speak.text('diagnosis.no_cause')}"
    return f"**{speak.text('diagnosis')}**: {code(found.case)}\n\n{told}"


def plain(text: str) -> str:
    """Text that stays text: no markup, no links, nobody called by name, one line."""
    flat = re.sub(r"\s+", " ", clean(text)).strip()
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = re.sub(r"([\\`*_{}\[\]()|~!])", r"\\\1", flat)
    # A joint of no width: a site that turns @name and #1 into links and calls finds neither.
    return re.sub(r"([@#])(?=\w)", "\\1\u2060", flat)


def code(text: str) -> str:
    """Fenced by more backticks than the text holds in a row. A bar would end the cell of a table."""
    flat = re.sub(r"\s+", " ", clean(text)).strip().replace("|", "\\|") or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", flat)), default=0))
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat}{space}{fence}"


def _table(report: Report, speak: Speaker) -> str:
    head = [speak.text(key) for key in _HEAD]
    sides = ["---", "---", "---:", "---:", "---:", "---", "---:", "---:", "---", "---:"]
    return rows([head, sides, *(_row(case, speak) for case in report.cases)])


def rows(cells: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; the second row says to which side each column goes."""
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _row(case: CaseReport, speak: Speaker) -> list[str]:
    found = figures.throughput(case)
    return [
        code(case.case),
        speak.text(f"state.{case.state}"),
        f"{case.counted}/{case.rounds}",
        plain(numbers.value(found)),
        plain(numbers.interval(found)),
        plain(", ".join(count + label.text for count, label in figures.outcomes(case, speak)) or numbers.NONE),
        plain(figures.fraction_text(case, speak)),
        plain(numbers.value(figures.memory(case))),
        plain(figures.band(case, speak)[0].text),
        figures.disturbed_text(case),
    ]


def _remarks(case: CaseReport, speak: Speaker) -> str:
    found = figures.remarks(case)
    for run in figures.disturbed(case):
        # The first is among the remarks.
        found += [reason("in-round", round=run.round, why=why) for why in run.disturbed[1:]]
    remarks = [plain(speak.reason(one).text) for one in found]
    if not remarks:
        return ""
    lines = [f"**{code(case.case)}**", "", *(f"- {one}" for one in remarks)]
    last = figures.last_lines(case)
    if last:
        rank = (case.failure or {}).get("rank")
        title = speak.text("last_lines") if rank is None else speak.text("last_lines_of", rank)
        lines += [
            "",
            f"<details><summary>{plain(title)}</summary>",
            "",
            *_fenced(last[-_MOST_LINES:]),
            "",
            "</details>",
        ]
    return "\n".join(lines)


def _fenced(lines: list[str]) -> list[str]:
    kept = [clean(line).replace("\n", " ") for line in lines]
    fence = "`" * max(3, 1 + max(len(run) for line in kept for run in ["", *re.findall("`+", line)]))
    return [f"{fence}text", *kept, fence]
