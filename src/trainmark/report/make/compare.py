"""Runs, or two cases, side by side: what was compared, what could not be, and what can be said of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.plan.records import CasePlan
from trainmark.plan.turns import partners
from trainmark.reasons import Reason, reason
from trainmark.report.make import differences, occasions
from trainmark.report.records import CaseReport, Report, RunReport
from trainmark.score.records import Flag, Measurement, Verdict, VerdictWord
from trainmark.score.stats import variation as variations
from trainmark.score.stats import verdict as verdicts
from trainmark.score.stats.confidence import mean_per_set, t_limit
from trainmark.score.stats.variation import Variation
from trainmark.score.stats.verdict import Pair, geometric_mean
from trainmark.spec.case import PRESET_KEY
from trainmark.spec.states import JobState
from trainmark.store import baselines
from trainmark.store.rundir import Manifest

METRICS = ("throughput", "sustained_throughput")


class Side(msgspec.Struct, frozen=True):
    """A run: its figures, and its manifest, which knows parameters and machines. `case`: only this one."""

    report: Report
    manifest: Manifest
    case: str | None = None


class Compared(msgspec.Struct, frozen=True):
    """One case on both sides; `a` and `b` are the geometric means of its runs."""

    case_a: str
    case_b: str
    a: float
    b: float
    unit: str
    verdict: Verdict
    notes: list[Reason] = []
    # Versions of the workload differ, and that was not to matter.
    forced: bool = False
    # What is wrong with the figures of either side, though they are compared.
    flags_a: list[Flag] = []
    flags_b: list[Flag] = []
    # Where the speed's variation comes from, as far as A, B and other runs of the case tell.
    variation: Variation | None = None

    @property
    def name(self) -> str:
        return self.case_a if self.case_a == self.case_b else f"{self.case_a} → {self.case_b}"


class NotCompared(msgspec.Struct, frozen=True):
    """A case that was not compared, and why."""

    case: str
    reason: list[Reason]


class Overall(msgspec.Struct, frozen=True):
    """The verdict on the geometric mean of ratios; `incomplete` when a case has a result on one side only."""

    word: VerdictWord | Literal["incomplete"]
    missing: list[str]
    verdict: Verdict | None = None


class Comparison(msgspec.Struct, frozen=True):
    """What `trainmark compare --json` prints. Ratios are B ÷ A."""

    a: str
    b: str
    metric: str
    margin: float
    threshold: float
    cases: list[Compared]
    left: list[NotCompared]
    overall: Overall
    notes: list[Reason]

    @property
    def past_threshold(self) -> list[Compared]:
        return [one for one in self.cases if one.verdict.past_threshold]

    @property
    def judged(self) -> list[Compared]:
        """Cases with enough rounds on both sides for any claim."""
        return [one for one in self.cases if one.verdict.ci_low is not None]


class _Seen(msgspec.Struct, frozen=True):
    """A case of one side, with its plan."""

    report: CaseReport
    plan: CasePlan
    side: Literal["A", "B"]
    metric: str

    @property
    def found(self) -> Measurement | None:
        return self.report.measurements.get(self.metric)

    @property
    def speeds(self) -> list[float]:
        """One for each run that counts."""
        return self.found.inputs if self.found else []

    @property
    def nodes(self) -> list[tuple[str, ...]]:
        """The nodes of each run, where each value is known to be of one."""
        runs = with_speed(self.report)
        return [tuple(run.hosts) for run in runs] if len(runs) == len(self.speeds) else []

    @property
    def obstacle(self) -> Reason | None:
        """Why it has no result to compare; None when it has one."""
        if self.report.state is JobState.INVALID:
            return reason("side-invalid", side=self.side, why=self.report.reason)
        if self.found is None or self.found.value is None:
            why = (self.found.reason if self.found else []) or self.report.reason or reason("nothing-measured")
            state = str(self.report.state)
            return reason("side-without-result", side=self.side, state=state, metric=self.metric, why=why)
        return None


def compare_many(
    sides: Sequence[Side],
    metric: str,
    margin: float,
    threshold: float,
    *,
    force: bool = False,
    runs: Path | None = None,
) -> list[Comparison]:
    """Every other side against the first. Cases are matched by identity, or are the ones that the sides name. All
    verdicts on cases are one family. `runs`: a folder whose other runs tell how much occasions differ."""
    tables = [_prepare(sides[0], other, metric, force, runs) for other in sides[1:]]
    decided = iter(verdicts.decide([one for table in tables for one in table.estimates], margin, threshold))
    found = []
    for other, table in zip(sides[1:], tables, strict=True):
        cases = [
            _compared(one, two, next(decided), beside)
            for (one, two), beside in zip(table.usable, table.beside, strict=True)
        ]
        whole = verdicts.decide([verdicts.combine(table.estimates)], margin, threshold)[0] if cases else None
        found.append(
            Comparison(
                a=sides[0].report.run,
                b=other.report.run,
                metric=metric,
                margin=margin,
                threshold=threshold,
                cases=cases,
                left=table.left,
                overall=Overall("incomplete" if table.missing or whole is None else whole.word, table.missing, whole),
                notes=[
                    *_not_finished(sides[0], other),
                    *differences.changes(differences.machine(sides[0].manifest), differences.machine(other.manifest)),
                ],
            )
        )
    return found


class _Table(msgspec.Struct, frozen=True):
    """Two sides, before anything is said of them."""

    usable: list[tuple[_Seen, _Seen]]
    left: list[NotCompared]
    missing: list[str]
    estimates: list[verdicts.Estimate]
    # How much occasions differ, for each pair.
    beside: list[_Beside]


class _Beside(msgspec.Struct, frozen=True):
    """What is known of the occasions of a pair; and what to say of it."""

    variation: Variation | None = None
    notes: list[Reason] = []


def _prepare(a: Side, b: Side, metric: str, force: bool, runs: Path | None) -> _Table:
    if not force:
        _check_finished(a, b)
    matches, left, missing = _match(a, b, metric)
    usable = []
    for one, other in matches:
        without = [seen for seen in (one, other) if seen.obstacle]
        changed = None if force else differences.other_model(one, other)
        if not force and not changed and a.case is None:
            changed = differences.other_workload(one, other)
        if without:
            left.append(NotCompared(without[0].plan.id.identity, [seen.obstacle for seen in without if seen.obstacle]))
            missing += [seen.plan.id.identity for seen in without] if len(without) == 1 else []
        elif changed:
            left.append(NotCompared(one.plan.id.identity, [changed]))
            missing.append(one.plan.id.identity)
        else:
            usable.append((one, other))
    refused = [why for one in left for why in one.reason if why.code in _REFUSED]
    if refused and not usable:
        raise UserError(f"{a.report.run} and {b.report.run}: {say(refused[0])}")
    together = _together(a, b)
    pairs = [_pair(one, other, together) for one, other in usable]
    estimates = [verdicts.estimate(pair) for pair in pairs]
    if together:
        apart = [
            differences.blocks_apart(one.nodes, other.nodes) if pair.paired else []
            for (one, other), pair in zip(usable, pairs, strict=True)
        ]
        beside = [_Beside(None, [*_turns(a, b), *notes]) for notes in apart]
        return _Table(usable, left, missing, estimates, beside)
    judged = _over_occasions(a, b, usable, estimates, metric, runs)
    return _Table(usable, left, missing, [one for one, _ in judged], [beside for _, beside in judged])


def _over_occasions(
    a: Side,
    b: Side,
    usable: Sequence[tuple[_Seen, _Seen]],
    estimates: Sequence[verdicts.Estimate],
    metric: str,
    runs: Path | None,
) -> list[tuple[verdicts.Estimate, _Beside]]:
    """A and B are of different occasions: errors by the history of the case, else what they might be."""
    keys = {key for pair in usable for key in map(_key, pair)}
    known = occasions.others(runs, keys, (a.report.run, b.report.run), metric) if runs is not None and keys else {}
    found = []
    for pair, estimate in zip(usable, estimates, strict=True):
        history = [one for key in dict.fromkeys(map(_key, pair)) for one in known.get(key, [])]
        own = [
            occasions.occasion(seen.report, baselines.hosts_of(side.manifest), metric)
            for seen, side in zip(pair, (a, b), strict=True)
        ]
        variation = variations.decompose([*history, *(one for one in own if one is not None)])
        # Those of A and B themselves are what is in question.
        between = variations.history(history, variations.LEAST_OCCASIONS)
        if between is None:
            found.append((estimate, _Beside(variation, _unknown(estimate))))
            continue
        note = reason("occasions-known", runs=len(history), percent=100 * math.sqrt(between.variance))
        found.append((verdicts.with_occasions(estimate, between), _Beside(variation, [note])))
    return found


def _key(seen: _Seen) -> tuple[str, str]:
    return seen.plan.id.identity, seen.plan.fingerprint


def _unknown(one: verdicts.Estimate) -> list[Reason]:
    if one.error is None:
        return []
    wider, wrong = variations.if_supposed(one.df, one.n_a, one.n_b)
    half = wider * t_limit(one.df) * one.error
    return [
        reason(
            "occasions-unknown",
            least=variations.LEAST_OCCASIONS,
            times=variations.SUPPOSED,
            low=math.exp(one.log_ratio - half),
            high=math.exp(one.log_ratio + half),
            percent=100 * wrong,
        )
    ]


_UNFINISHED = (JobState.PENDING, JobState.RUNNING, JobState.LOST, JobState.CANCELLED, JobState.PREEMPTED)
_REFUSED = ("other-workload", "other-model", "other-preset")


def _check_finished(*sides: Side) -> None:
    for side in sides:
        if side.report.state in _UNFINISHED:
            run, state = side.report.run, side.report.state
            # One that runs needs no help; the others go on when somebody asks for it.
            working = state in (JobState.PENDING, JobState.RUNNING)
            cure = (
                f"`trainmark status {run}` says how far it is" if working else f"`trainmark resume {run}` finishes it"
            )
            raise UserError(f"{run} is not finished ({state}): no verdict; {cure}, --force compares what is there")


def _not_finished(a: Side, b: Side) -> list[Reason]:
    """Only where that was not to matter: else nothing is compared."""
    named = (("A", a), ("B", b))
    return [
        reason("side-not-finished", side=name, state=str(side.report.state))
        for name, side in named
        if side.report.state in _UNFINISHED
    ]


def _turns(a: Side, b: Side) -> list[Reason]:
    return [reason("taken-in-turns", blocks=len(a.manifest.plan.blocks))] if _in_turns(a, b) else []


def _match(a: Side, b: Side, metric: str) -> tuple[list[tuple[_Seen, _Seen]], list[NotCompared], list[str]]:
    """Pairs of cases; and those that stand alone, of which the ones with a result make the whole incomplete."""
    ours, theirs = _by_identity(a, "A", metric), _by_identity(b, "B", metric)
    if a.case is not None and b.case is not None:
        pair = ours[a.case], theirs[b.case]
        units = [seen.plan.unit for seen in pair]
        if units[0] != units[1]:
            raise UserError(f"{a.case} counts {units[0]} and {b.case} counts {units[1]}: their speeds do not compare")
        return [pair], [], []
    plans = a.manifest.plan.cases, b.manifest.plan.cases
    pairs = (
        [(one.id.identity, other.id.identity) for one, other in partners(*plans)]
        if _in_turns(a, b)
        else [(identity, identity) for identity in ours if identity in theirs]
    )
    if not pairs:
        why = _presets(ours, theirs)
        raise UserError(
            f"{a.report.run} and {b.report.run} have no case in common{': ' + why if why else ''}; "
            "RUN:CASE compares cases that differ"
        )
    alone = [seen for identity, seen in ours.items() if identity not in {one for one, _ in pairs}]
    alone += [seen for identity, seen in theirs.items() if identity not in {other for _, other in pairs}]
    left = [NotCompared(seen.plan.id.identity, [reason("only-in", side=seen.side)]) for seen in alone]
    missing = [seen.plan.id.identity for seen in alone if not seen.obstacle]
    return [(ours[one], theirs[other]) for one, other in pairs], left, missing


def _presets(ours: dict[str, _Seen], theirs: dict[str, _Seen]) -> str:
    """That a case is there in another preset, which makes it another case; empty when none is."""
    others = {_without_preset(seen): seen.plan.preset for seen in theirs.values()}
    for seen in ours.values():
        name = _without_preset(seen)
        if name in others:
            return f"`{name}` was trained with preset {seen.plan.preset} in A and {others[name]} in B"
    return ""


def _without_preset(seen: _Seen) -> str:
    found = seen.plan.id
    return found.with_variant({key: value for key, value in found.variant if key != PRESET_KEY}).identity


def _by_identity(side: Side, name: Literal["A", "B"], metric: str) -> dict[str, _Seen]:
    plans = {case.case: case for case in side.manifest.plan.cases}
    return {plans[case.case].id.identity: _Seen(case, plans[case.case], name, metric) for case in side.report.cases}


def _together(a: Side, b: Side) -> bool:
    """Whether both were measured in the same blocks: cases of one run, or runs that were taken in turns."""
    return a.report.dir == b.report.dir or _in_turns(a, b)


def _in_turns(a: Side, b: Side) -> bool:
    turns = a.manifest.plan.turns
    return a.report.dir != b.report.dir and turns != "" and turns == b.manifest.plan.turns


def _pair(a: _Seen, b: _Seen, together: bool) -> Pair:
    """Paired by block only where blocks are shared, and there are results for the same rounds."""
    rounds = rounds_of(a.report, len(a.speeds))
    paired = together and rounds is not None and rounds == rounds_of(b.report, len(b.speeds))
    if paired:
        return Pair(a.speeds, b.speeds, paired)
    return Pair(mean_per_set(a.speeds, a.nodes, logs=True), mean_per_set(b.speeds, b.nodes, logs=True), paired)


def rounds_of(case: CaseReport, values: int) -> list[int] | None:
    """The round of each value; None when that cannot be told."""
    runs = with_speed(case)
    if len(runs) == values:
        return [run.round for run in runs]
    return list(range(1, values + 1)) if case.rounds == case.counted == values else None


def with_speed(case: CaseReport) -> list[RunReport]:
    """The rounds that a speed is made of."""
    return [run for run in case.runs if run.throughput is not None]


def _compared(a: _Seen, b: _Seen, verdict: Verdict, beside: _Beside) -> Compared:
    notes = [note for seen in (a, b) for note in _cautions(seen)]
    if a.nodes and b.nodes and not set(a.nodes) & set(b.nodes):
        notes.append(reason("never-same-nodes"))
    return Compared(
        case_a=a.report.case,
        case_b=b.report.case,
        a=geometric_mean(a.speeds),
        b=geometric_mean(b.speeds),
        unit=f"{a.plan.unit}/s",
        verdict=verdict,
        notes=[*beside.notes, *differences.fingerprints(a, b), *notes],
        forced=a.report.case == b.report.case
        and bool(differences.other_model(a, b) or differences.other_workload(a, b)),
        flags_a=a.report.flags,
        flags_b=b.report.flags,
        variation=beside.variation,
    )


def _cautions(seen: _Seen) -> Iterator[Reason]:
    """What makes a side's figures weaker than they look."""
    case = seen.report
    if case.state is not JobState.SUCCEEDED:
        known = {"side": seen.side, "state": str(case.state), "counted": case.counted, "rounds": case.rounds}
        yield reason("side-weak-why", why=case.reason, **known) if case.reason else reason("side-weak", **known)
    for flag in case.flags:
        if flag.severity != "note":
            yield reason(
                "side-flagged", side=seen.side, why=flag.reason, count=flag.rounds or case.counted, of=case.counted
            )


def ratio_text(verdict: Verdict) -> str:
    interval = "" if verdict.ci_low is None else f" ({verdict.ci_low:.3f} … {verdict.ci_high:.3f})"
    return f"{verdict.ratio:.3f}{interval}"
