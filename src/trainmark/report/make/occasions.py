"""Other runs of the cases that are compared: they tell how much runs of different days or allocations differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.report.build import some_cases
from trainmark.report.records import CaseReport
from trainmark.score.stats.change_points import changes
from trainmark.score.stats.variation import Occasion
from trainmark.spec.states import JobState
from trainmark.store import baselines
from trainmark.store.rundir import RunDir, run_ids

# Newest first. More would say little more, and reading them takes time.
MOST_RUNS = 200
MOST_OCCASIONS = 30
# In a normal distribution, between the median and the 90th percentile.
_TO_P90 = 1.2816


def occasion(case: CaseReport, hosts: Sequence[str], metric: str = "throughput") -> Occasion | None:
    """A case of a run; None without a speed."""
    found = case.measurements.get(metric)
    if case.state is JobState.INVALID or found is None or found.value is None or min(found.inputs) <= 0:
        return None
    spreads = [
        math.log(run.step_time["p90"] / run.step_time["p50"]) / _TO_P90
        for run in case.runs
        if run.step_time.get("p50") and run.step_time.get("p90")
    ]
    steps = sum(spreads) / len(spreads) if spreads else None
    return Occasion([math.log(speed) for speed in found.inputs], tuple(hosts), steps)


def others(
    runs: Path, wanted: Iterable[tuple[str, str]], without: Iterable[str], metric: str = "throughput"
) -> dict[tuple[str, str], list[Occasion]]:
    """Runs in the folder that measured the same: by identity and fingerprint of the case. `without`: names of runs."""
    found: dict[tuple[str, str], list[Occasion]] = {key: [] for key in wanted}
    left_out = set(without)
    # Two runs whose blocks were taken in turns are of one occasion.
    turns: set[tuple[str, str, str]] = set()
    for name in sorted(run_ids(runs), reverse=True)[:MOST_RUNS]:
        run = RunDir(runs / name)
        try:
            manifest = run.manifest()
        except UserError:
            continue
        if name in left_out:
            continue
        for index, plan in enumerate(manifest.plan.cases):
            entries = found.get((plan.id.identity, plan.fingerprint))
            if entries is None or len(entries) >= MOST_OCCASIONS:
                continue
            turn = manifest.plan.turns, plan.id.identity, plan.fingerprint
            if turn[0] and turn in turns:
                continue
            turns.add(turn)
            (case,) = some_cases(run, index, index + 1).cases
            one = occasion(case, baselines.hosts_of(manifest), metric)
            if one is not None:
                entries.append(one)
    return {key: _levelled(entries[::-1]) for key, entries in found.items()}


def _levelled(found: list[Occasion]) -> list[Occasion]:
    """In the order of time, each with the number of its level: what changed for good is no noise between occasions."""
    levelled = []
    for hosts in dict.fromkeys(one.hosts for one in found):
        runs = [one for one in found if one.hosts == hosts]
        starts = [change.index for change in changes([math.exp(one.mean) for one in runs])]
        levelled += [
            msgspec.structs.replace(one, level=sum(start <= index for start in starts))
            for index, one in enumerate(runs)
        ]
    return levelled
