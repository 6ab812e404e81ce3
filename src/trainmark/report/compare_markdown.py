"""A comparison as Markdown, fit for a comment on a pull request: the answer first, then one row per case."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.report import numbers
from trainmark.report.compare import Compared, Comparison, ratio_text
from trainmark.report.i18n.speaker import say
from trainmark.report.markdown import code, plain

_MARKS = {"faster": "🟢", "slower": "🔴", "equivalent": "⚪", "inconclusive": "🟡", "incomplete": "🟡"}
# A forge refuses comments that are longer than 65,536 letters.
_MOST_ROWS = 200


def render(found: Sequence[Comparison]) -> str:
    return "\n\n".join(part for one in found for part in _parts(one)) + "\n"


def _parts(found: Comparison) -> list[str]:
    overall = found.overall
    told = f", {plain(ratio_text(overall.verdict))}" if overall.verdict else ""
    head = f"### {_MARKS[overall.word]} {plain(found.metric)}: {overall.word}{told}"
    about = f"A {code(found.a)} · B {code(found.b)} · margin ±{100 * found.margin:g} %"
    lost = found.past_threshold
    parts = [head, about]
    if lost:
        parts.append(f"**{len(lost)} case(s) lost more than {100 * found.threshold:g} %**")
    if found.cases:
        parts.append(_table(found))
    remarks = [f"- {code(one.case_b)}: {plain(note)}" for one in found.cases[:_MOST_ROWS] for note in _notes(one)]
    remarks += [f"- not compared: {code(left.case)}: {plain(say(left.reason))}" for left in found.left[:_MOST_ROWS]]
    remarks += [f"- A and B differ in {plain(say(note))}" for note in found.notes]
    if remarks:
        parts.append("<details><summary>remarks</summary>\n\n" + "\n".join(remarks) + "\n\n</details>")
    return parts


def _notes(one: Compared) -> list[str]:
    return [*(["compared by force: versions of the workload differ"] if one.forced else []), *map(say, one.notes)]


def _table(found: Comparison) -> str:
    rows = [
        ["", "case", "A", "B", "B ÷ A", "runs", "verdict"],
        ["---", "---", "---:", "---:", "---:", "---:", "---"],
    ]
    # What needs a look comes first.
    order = {"slower": 0, "inconclusive": 1, "faster": 2, "equivalent": 3}
    cases = sorted(found.cases, key=lambda one: (order[one.verdict.word], one.verdict.ratio))
    rows += [_row(one) for one in cases[:_MOST_ROWS]]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if len(cases) > _MOST_ROWS:
        lines.append(f"\n{len(cases) - _MOST_ROWS} more cases are not shown.")
    return "\n".join(lines)


def _row(one: Compared) -> list[str]:
    verdict = one.verdict
    needed = f" (needs {verdict.needed} runs a side)" if verdict.needed else ""
    return [
        _MARKS[verdict.word],
        code(one.name),
        numbers.quantity(one.a, one.unit),
        numbers.quantity(one.b, one.unit),
        plain(ratio_text(verdict)),
        f"{verdict.n_a}/{verdict.n_b}",
        verdict.word + needed,
    ]
