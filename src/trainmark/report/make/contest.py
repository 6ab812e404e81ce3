"""Frameworks side by side: cases of one run that differ in nothing but the framework, and which of them is faster.

All pairs of a run are one family, so that naming the fastest one afterwards costs no certainty. Cases of one run share
their blocks, so rounds are compared in pairs where both have results for the same ones.
"""

from __future__ import annotations

from itertools import combinations

import msgspec

from trainmark.plan.records import CasePlan, Plan
from trainmark.reasons import Reason, reason
from trainmark.report.records import CaseReport, Contest, Rival

METRIC = "throughput"


class _Entry(msgspec.Struct, frozen=True):
    plan: CasePlan
    report: CaseReport
    speeds: list[float]


def contests(plan: Plan, cases: list[CaseReport]) -> list[Contest]:
    """One for each question the run answers; none for a run of one framework."""
    groups: dict[tuple[object, ...], list[_Entry]] = {}
    for planned, case in zip(plan.cases, cases, strict=True):
        one = planned.id
        key = (one.workload, one.device, one.nnodes, one.nproc, planned.preset, one.variant)
        found = case.measurements.get(METRIC)
        speeds = list(found.inputs) if found is not None and found.value is not None else []
        groups.setdefault(key, []).append(_Entry(planned, case, speeds))
    rivals = [group for group in groups.values() if len({entry.plan.framework for entry in group}) > 1]
    return _judged(rivals) if rivals else []


def _judged(groups: list[list[_Entry]]) -> list[Contest]:
    from trainmark.report.make.compare import rounds_of
    from trainmark.score.records import Verdict
    from trainmark.score.stats.verdict import MARGIN, Pair, geometric_mean, judge

    named = [(one, other) for group in groups for one, other in combinations(_fast_last(group), 2)]
    pairs = []
    for one, other in named:
        rounds = rounds_of(one.report, len(one.speeds))
        paired = rounds is not None and rounds == rounds_of(other.report, len(other.speeds))
        pairs.append(Pair(one.speeds, other.speeds, paired))
    verdicts = dict(zip([(a.report.case, b.report.case) for a, b in named], judge(pairs), strict=True)) if pairs else {}

    def rival(entry: _Entry, fastest: _Entry) -> Rival:
        if not entry.speeds:
            return Rival(entry.plan.framework, entry.report.case, "none", reason=_obstacle(entry))
        speed = geometric_mean(entry.speeds)
        share = speed / geometric_mean(fastest.speeds)
        if entry is fastest:
            return Rival(entry.plan.framework, entry.report.case, "fastest", speed, share)
        verdict: Verdict = verdicts[entry.report.case, fastest.report.case]
        # What is said of the fastest against this one, turned round.
        word = {"faster": "slower", "slower": "faster"}.get(verdict.word, verdict.word)
        return Rival(entry.plan.framework, entry.report.case, word, speed, share, verdict)

    made = []
    for group in groups:
        ranked = [*reversed(_fast_last(group)), *(entry for entry in group if not entry.speeds)]
        rivals = [rival(entry, ranked[0]) for entry in ranked]
        made.append(Contest(_question(group[0].plan), f"{group[0].plan.unit}/s", MARGIN, rivals))
    return made


def _fast_last(group: list[_Entry]) -> list[_Entry]:
    from trainmark.score.stats.verdict import geometric_mean

    return sorted((entry for entry in group if entry.speeds), key=lambda entry: geometric_mean(entry.speeds))


def _obstacle(entry: _Entry) -> list[Reason]:
    found = entry.report.measurements.get(METRIC)
    return (found.reason if found else []) or [entry.report.reason or reason("nothing-measured")]


def _question(plan: CasePlan) -> str:
    one = plan.id
    variant = ",".join(f"{name}={value}" for name, value in one.variant)
    return f"{one.workload}:*:{one.device}:{one.nnodes}:{one.nproc}" + (f"@{variant}" if variant else "")
