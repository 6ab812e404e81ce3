"""Experiments side by side, by their regulated scores, as `trainmark compare` shows it.

An experiment is one figure. How much two of them differ by chance is known from others of the same configuration on the
same hosts, where the folder holds enough; else there is a ratio without a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.plan import experiment_of
from trainmark.automl.experiment.result import fingerprint
from trainmark.automl.experiment.runs import scored
from trainmark.errors import UserError
from trainmark.reasons import Reason, reason
from trainmark.report.make.compare import Compared, Comparison, NotCompared, Overall, Side
from trainmark.report.records import Experiment as Scored
from trainmark.score.stats import variation, verdict
from trainmark.score.stats.variation import Occasion
from trainmark.spec.states import JobState
from trainmark.store import baselines, journal
from trainmark.store.rundir import RunDir, run_ids
from trainmark.store.state import RunState

METRIC = "regulated_score"
_NOT_THE_SAME = {"name", "author", "ledger", "seed"}


def compare(sides: Sequence[Side], margin: float, threshold: float, runs: Path, *, force: bool) -> list[Comparison]:
    """Every other experiment against the first. Scores of different rules are not compared unless `force`."""
    first, *others = sides
    return [_compare(first, other, margin, threshold, runs, force) for other in others]


def _compare(a: Side, b: Side, margin: float, threshold: float, runs: Path, force: bool) -> Comparison:
    found = [_scored(side) for side in (a, b)]
    setups = [experiment_of(side.manifest.plan) for side in (a, b)]
    if found[0].rules != found[1].rules and not force:
        raise UserError(
            f"{a.report.run} and {b.report.run}: scored by different rules ({found[0].rules}, {found[1].rules}); "
            "--force compares their figures all the same"
        )
    values = [_figure(one, METRIC) for one in found]
    name = " → ".join(dict.fromkeys(one.name for one in found))
    notes = [*_differences(*setups), *_not_valid(found)]
    cases, left = [], []
    overall = Overall("incomplete", [name])
    if all(values):
        estimate, unknown = _estimate(a, b, values, setups, runs)
        decided = verdict.decide([estimate], margin, threshold)[0]
        cases = [Compared(name, name, values[0], values[1], "FLOPS", decided, [_both(found), *unknown])]
        overall = Overall(decided.word, [], decided)
    else:
        left = [NotCompared(name, [reason("automl-no-epoch")])]
    return Comparison(a.report.run, b.report.run, METRIC, margin, threshold, cases, left, overall, notes)


def _both(found: Sequence[Scored]) -> Reason:
    """What the regulated score is made of."""
    before, after = (100 * _figure(one, "error") for one in found)
    ratio = _figure(found[1], "score") / _figure(found[0], "score")
    return reason("automl-score-by", before=before, after=after, ratio=ratio)


def _scored(side: Side) -> Scored:
    if side.report.experiment is None:
        raise UserError(f"{side.report.run} is no AutoML experiment: it cannot be compared with one")
    return side.report.experiment


def _figure(found: Scored, name: str) -> float:
    """0 where it is not known: no score is 0 that was reached."""
    return next((one.value or 0.0 for one in found.figures if one.name == name), 0.0)


def _estimate(
    a: Side, b: Side, values: Sequence[float], setups: Sequence[Experiment], runs: Path
) -> tuple[verdict.Estimate, list[Reason]]:
    estimate = verdict.estimate(verdict.Pair([values[0]], [values[1]]))
    known = _others(runs, [fingerprint(one) for one in setups], {a.report.run, b.report.run})
    between = variation.history(known, variation.LEAST_OCCASIONS)
    if between is None:
        return estimate, [reason("automl-one-each", found=len(known), least=variation.LEAST_OCCASIONS)]
    method = reason("automl-over-experiments", count=len(known))
    error = math.sqrt(2 * between.variance)
    return msgspec.structs.replace(estimate, error=error, df=between.df, method=method), []


def _others(runs: Path, wanted: Sequence[str], without: set[str]) -> list[Occasion]:
    """Finished experiments of the folder with one of these configurations, each of which is a level of its own."""
    found = []
    for name in run_ids(runs):
        run = RunDir(runs / name)
        try:
            manifest = run.manifest()
            if name in without or manifest.plan.kind != "automl":
                continue
            mark = fingerprint(experiment_of(manifest.plan))
            if mark not in wanted:
                continue
            state = RunState.replay(manifest.plan, journal.read(run.path).records)
            value = _figure(scored(run), METRIC) if state.finished is not None else 0.0
        except UserError:
            continue
        if value > 0 and state.finished is not JobState.CANCELLED:
            found.append(Occasion([math.log(value)], tuple(baselines.hosts_of(manifest)), level=wanted.index(mark)))
    return found


def _differences(a: Experiment, b: Experiment) -> list[Reason]:
    names = [name for name in a.__struct_fields__ if name not in _NOT_THE_SAME and getattr(a, name) != getattr(b, name)]
    return [reason("automl-configurations-differ", names=", ".join(names))] if names else []


def _not_valid(found: Sequence[Scored]) -> list[Reason]:
    return [
        reason("automl-side-not-valid", side=side, rules=one.rules)
        for side, one in zip("AB", found, strict=True)
        if not one.valid
    ]
