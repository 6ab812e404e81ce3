"""A case over all runs of a folder: its speeds in order of time, by host, and where they changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason, reason
from trainmark.report.build import some_cases
from trainmark.report.make import differences
from trainmark.report.records import CaseReport, RunReport
from trainmark.score.records import Flag
from trainmark.score.stats import change_points as change
from trainmark.score.stats.change_points import Change, Last
from trainmark.spec.states import JobState
from trainmark.store import baselines, journal
from trainmark.store.files import read_json
from trainmark.store.rundir import FACTS, RunDir, node_files, run_ids

# Cases whose figures are kept in memory.
_MOST_KEPT = 2000


class Entry(msgspec.Struct, frozen=True):
    """One run's result for the case."""

    run: str
    created: float
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    fingerprint: str
    version: str
    # What is wrong with the figure, though it is given.
    flags: list[Flag] = []
    # What else is not as it was at the run before it: code, drivers, packages.
    since: list[Reason] = []


class LeftOut(msgspec.Struct, frozen=True):
    """A run without a result for the case, and why."""

    run: str
    reason: Reason | list[Reason]


class History(msgspec.Struct, frozen=True):
    """All runs of the case on the same hosts. `levels` is the mean between changes, for each run."""

    case: str
    hosts: list[str]
    unit: str
    entries: list[Entry]
    changes: list[Change]
    levels: list[float]
    left: list[LeftOut]
    # The last run, where it lies off those of its level before it.
    last: Last | None = None


def collect(runs: Path, asked: str) -> list[History]:
    """`asked`: an id (its repeats do not matter) or the beginning of one."""
    found: dict[tuple[str, tuple[str, ...]], tuple[str, list[Entry], list[LeftOut]]] = {}
    known: set[str] = set()
    before: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}
    for name in run_ids(runs):
        run = RunDir(runs / name)
        try:
            manifest = run.manifest()
        except UserError:
            continue
        for index, plan in enumerate(manifest.plan.cases):
            known.add(plan.case)
            identity = plan.identity
            if not _is_asked(asked, plan.case, identity):
                continue
            key = (identity, tuple(baselines.hosts_of(manifest)))
            _unit, entries, left = found.setdefault(key, (f"{plan.unit}/s", [], []))
            case = _case(run.path, index, journal.stamp(run.path))
            speed = case.measurements.get("throughput")
            if case.state is JobState.INVALID or speed is None or speed.value is None:
                why = speed.reason if speed and case.state is JobState.SUCCEEDED else case.reason
                left.append(LeftOut(name, why or reason("no-speed")))
                continue
            around = differences.surroundings(manifest, _facts(run, index, plan, case.runs))
            since = differences.changes(before.get(key, around), around)
            before[key] = around
            entries.append(
                Entry(
                    name,
                    manifest.created * 1e-9,
                    speed.value,
                    speed.ci_low,
                    speed.ci_high,
                    speed.n,
                    case.fingerprint,
                    plan.version,
                    case.flags,
                    since,
                )
            )
    if not found:
        raise UserError(f"{runs}: no run has a case `{asked}`{did_you_mean(asked, known)}; there is {_some(known)}")
    return [_history(case, hosts, *rest) for (case, hosts), rest in found.items()]


@lru_cache(_MOST_KEPT)
def _case(path: Path, index: int, _stamp: int) -> CaseReport:
    """A server is asked for the same histories again and again; a run that goes on has another stamp each time."""
    (found,) = some_cases(RunDir(path), index, index + 1).cases
    return found


def _facts(run: RunDir, index: int, plan: CasePlan, counted: Sequence[RunReport]) -> Mapping[str, Any]:
    """What the first node of the last round that counts says of itself."""
    for one in counted[-1:]:
        for file in node_files(run.attempt(plan, RoundRef(index, one.round), one.attempt), FACTS)[:1]:
            found = read_json(file)
            if isinstance(found, Mapping):
                return found
    return {}


def _some(known: set[str]) -> str:
    names = sorted(known)
    return (one_of(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")) or "none"


def _is_asked(asked: str, case: str, identity: str) -> bool:
    return case == asked or identity == asked or case.startswith(asked) or identity.replace(":*", "") == asked


def _history(case: str, hosts: tuple[str, ...], unit: str, entries: list[Entry], left: list[LeftOut]) -> History:
    speeds = [entry.value for entry in entries]
    found = change.changes(speeds)
    # Its own outlier must not hide the levels before it.
    last = change.last(speeds, change.changes(speeds[:-1]), _error(entries[-1])) if entries else None
    return History(case, list(hosts), unit, entries, found, change.levels(speeds, found) if speeds else [], left, last)


def _error(entry: Entry) -> float:
    """Of the logarithm of its speed, by its interval; about a quarter of that."""
    return math.log(entry.ci_high / entry.ci_low) / 4 if entry.ci_low and entry.ci_high else 0.0
