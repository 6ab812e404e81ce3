"""What is said beside the figures of a case: its flags in a word, what became of retries, each thing said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainmark.i18n.catalogues import LABELS
from trainmark.i18n.texts import Joined, Text, joined, label, named
from trainmark.report import figures, numbers
from trainmark.report.document import Badge, Inline, Several, Strong, Tone
from trainmark.report.records import CaseReport, Try
from trainmark.score.records import SEVERITIES, Flag
from trainmark.spec.states import JobState

_TONES: dict[str, Tone] = {"note": "calm", "warning": "warn", "severe": "bad"}


def flags(found: Sequence[Flag]) -> Inline:
    """Each in a word, with how many rounds have it; the sentences stand below or in the case."""
    words: dict[tuple[str, Text], Flag] = {}
    for flag in found:
        words.setdefault((flag.severity, _word(flag)), flag)
    return Several(tuple(Badge(_counted(word, flag), _TONES[severity]) for (severity, word), flag in words.items()))


def _word(flag: Flag) -> Text:
    key = f"flag.{flag.reason.code}"
    return label(key) if key in LABELS else named("severity", flag.severity)


def _counted(word: Text, flag: Flag) -> Text:
    return word if flag.rounds is None or flag.of in (None, 1) else Joined((word, f"{flag.rounds}/{flag.of}"), " ")


def worst(found: Sequence[Flag]) -> list[Inline]:
    """The worst of them alone, where there is little room; nothing for notes."""
    most = max(found, key=lambda flag: SEVERITIES.index(flag.severity), default=None)
    if most is None or most.severity == SEVERITIES[0]:
        return []
    return [Badge(_word(most), _TONES[most.severity])]


def speed(case: CaseReport) -> Inline:
    """The throughput; for a case without one, its state: that it has none is a result."""
    found = figures.throughput(case)
    if found is not None and found.value is not None:
        return Strong(numbers.value(found))
    return Badge(label("no_result"), "warn") if case.state is JobState.SUCCEEDED else figures.state_badge(case.state)


def of_case(case: CaseReport) -> list[Text]:
    """All that a reader needs beyond the row."""
    return [*figures.remarks(case), *tries(case)]


def tries(case: CaseReport) -> list[Text]:
    """What became of attempts that were not the last word; alike ones are said once."""
    groups: dict[tuple[JobState, Text], list[Try]] = {}
    for one in case.tries:
        groups.setdefault((one.state, one.reason), []).append(one)
    said: list[Text] = []
    for (state, why), found in groups.items():
        if len(found) == 1:
            what: Text = label("tried", str(found[0].round), str(found[0].attempt), named("state", str(state)))
        else:
            rounds = ", ".join(dict.fromkeys(str(one.round) for one in found))
            what = label("tried_often", str(len(found)), rounds, named("state", str(state)))
        said.append(joined(what, why, joint=": "))
    return said


def shared(said: Mapping[str, Sequence[Text]]) -> list[Text]:
    """Remarks that every one of several cases has."""
    if len(said) < 2:
        return []
    first, *others = said.values()
    return [remark for remark in first if all(remark in other for other in others)]
