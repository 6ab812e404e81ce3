"""A case over all runs of a folder: its speeds in order of time, by host, and where they changed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.reasons import Reason, reason
from trainmark.report import numbers
from trainmark.report.build import one_case
from trainmark.report.i18n.speaker import say
from trainmark.report.plain import columns
from trainmark.score.stats import change_points as change
from trainmark.score.stats.change_points import Change
from trainmark.spec.states import JobState
from trainmark.store import baselines
from trainmark.store.rundir import RunDir, run_ids

_WIDTH = 40


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


class Line(msgspec.Struct, frozen=True):
    """All runs of the case on the same hosts. `levels` is the mean between changes, for each run."""

    case: str
    hosts: list[str]
    unit: str
    entries: list[Entry]
    changes: list[Change]
    levels: list[float]
    left: list[Reason]


def collect(runs: Path, asked: str) -> list[Line]:
    """`asked`: an id (its repeats do not matter) or the beginning of one."""
    found: dict[tuple[str, tuple[str, ...]], tuple[str, list[Entry], list[Reason]]] = {}
    known: set[str] = set()
    for name in run_ids(runs):
        run = RunDir(runs / name)
        try:
            manifest = run.manifest()
        except UserError:
            continue
        for index, plan in enumerate(manifest.plan.cases):
            known.add(plan.case)
            identity = plan.id.identity
            if not _is_asked(asked, plan.case, identity):
                continue
            key = (identity, tuple(baselines.hosts_of(manifest)))
            _unit, entries, left = found.setdefault(key, (f"{plan.unit}/s", [], []))
            case = one_case(run, manifest, index)
            speed = case.measurements.get("throughput")
            if case.state is JobState.INVALID or speed is None or speed.value is None:
                why = speed.reason if speed and case.state is JobState.SUCCEEDED else case.reason
                left.append(reason("run-without-speed", run=name, why=why or reason("no-speed")))
                continue
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
                )
            )
    if not found:
        raise UserError(f"{runs}: no run has a case `{asked}`{did_you_mean(asked, known)}; there is {_some(known)}")
    return [_line(case, hosts, *rest) for (case, hosts), rest in found.items()]


def _some(known: set[str]) -> str:
    names = sorted(known)
    return (one_of(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")) or "none"


def _is_asked(asked: str, case: str, identity: str) -> bool:
    return case == asked or identity == asked or case.startswith(asked) or identity.replace(":*", "") == asked


def _line(case: str, hosts: tuple[str, ...], unit: str, entries: list[Entry], left: list[Reason]) -> Line:
    speeds = [entry.value for entry in entries]
    found = change.changes(speeds)
    return Line(case, list(hosts), unit, entries, found, change.levels(speeds, found) if speeds else [], left)


def text(lines: list[Line]) -> str:
    return "\n".join(part for line in lines for part in _text(line)) + "\n"


def _text(line: Line) -> list[str]:
    out = [f"{line.case}  on {', '.join(line.hosts)}  ({line.unit})"]
    if line.entries:
        out += columns([["run", "date", "speed", "95 % interval", "runs", ""], *_rows(line)])
    out += [f"  {say(one)}" for one in remarks(line)]
    return [*out, ""]


def _rows(line: Line) -> list[list[str]]:
    ends = [
        value for entry in line.entries for value in (entry.ci_low, entry.value, entry.ci_high) if value is not None
    ]
    low, high = min(ends), max(ends)
    changed = {one.index for one in line.changes}
    rows = []
    for index, entry in enumerate(line.entries):
        mark = "◀ changed" if index in changed else ""
        rows.append([*cells(entry), f"{_plot(entry, low, high)} {mark}".rstrip()])
    return rows


def cells(entry: Entry, unit: str = "") -> list[str]:
    """`unit` is for where no heading tells it."""
    span = numbers.NONE
    if entry.ci_low is not None and entry.ci_high is not None:
        span = f"{numbers.number(entry.ci_low)} … {numbers.number(entry.ci_high)}"
    speed = f"{numbers.number(entry.value)} {unit}".rstrip()
    return [entry.run, numbers.moment(entry.created), speed, span, str(entry.n)]


def _plot(entry: Entry, low: float, high: float) -> str:
    """A dot, and its interval around it, between the lowest and the highest of all."""

    def at(value: float) -> int:
        return round((_WIDTH - 1) * (value - low) / (high - low)) if high > low else _WIDTH // 2

    letters = [" "] * _WIDTH
    if entry.ci_low is not None and entry.ci_high is not None:
        for place in range(at(entry.ci_low), at(entry.ci_high) + 1):
            letters[place] = "─"
    letters[at(entry.value)] = "●"
    return f"│{''.join(letters)}│"


def remarks(line: Line) -> list[Reason]:
    said = []
    for one in line.changes:
        run, percent = line.entries[one.index].run, 100 * (one.ratio - 1)
        changed = reason("changed-with", run=run, percent=percent, p=one.p)
        more = _why(line, one.index)
        said.append(reason("changed-and", changed=changed, more=more) if more else changed)
    if len(line.entries) < change.LEAST:
        said.append(reason("few-runs-for-changes", runs=len(line.entries), least=change.LEAST))
    elif not line.changes:
        said.append(reason("no-change"))
    return said + [reason("left-out", what=one) for one in line.left]


def _why(line: Line, index: int) -> Reason | None:
    """What else changed with that run."""
    before, after = line.entries[index - 1], line.entries[index]
    if before.version != after.version and before.version and after.version:
        return reason("workload-changed-too", before=before.version, after=after.version)
    if before.fingerprint != after.fingerprint:
        return reason("configuration-changed-too", before=before.fingerprint, after=after.fingerprint)
    return None
