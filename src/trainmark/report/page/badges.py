"""Small coloured words. The word says it all: the colour only helps."""

from __future__ import annotations

from trainmark.report import figures
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.markup import element, words
from trainmark.report.records import CaseReport
from trainmark.spec.states import JobState

_STATES = {
    JobState.SUCCEEDED: "good",
    JobState.FAILED: "bad",
    JobState.INVALID: "bad",
    JobState.TIMEOUT: "bad",
    JobState.LOST: "bad",
}
_OUTCOMES = {
    "outcome.steady": "good",
    "outcome.drifting": "warn",
    "outcome.two-level": "warn",
    "outcome.too short": "warn",
}
_BANDS = {"band.band-inside": "good", "band.band-outside": "bad"}


def badge(label: Label | str, kind: str = "calm") -> str:
    return element("span", label, f' class="badge {kind}"')


def state_badge(speak: Speaker, state: JobState) -> str:
    return badge(speak.named("state", str(state)), _STATES.get(state, "calm"))


def word_badge(label: Label) -> str:
    """For outcomes and bands; a dash is no badge."""
    kind = _OUTCOMES.get(label.key) or _BANDS.get(label.key)
    return badge(label, kind) if kind else words(label)


def outcome_badges(speak: Speaker, case: CaseReport) -> str:
    found = figures.outcomes(case, speak)
    return " ".join(f'<span class="pair">{count}{word_badge(label)}</span>' for count, label in found)
