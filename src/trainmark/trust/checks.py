"""What a bundle's runs must hold to be whole: every round, in order, by the clocks, and by the shipped workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.plan.build import program_version
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason, listed, reason
from trainmark.report.make.attempt import question
from trainmark.report.records import Report
from trainmark.spec import workload as workloads
from trainmark.spec.states import JobState
from trainmark.store import columns, events, journal, rundir, series
from trainmark.store.files import read_json
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState
from trainmark.trust import plausibility
from trainmark.trust.records import SERIES, SOURCES, Finding

NS = 1e9
# Clocks are corrected while a run goes on: by less than this it means nothing.
CLOCK_STEP = 2.0
# An agent's account of an attempt may exceed the controller's by this.
SLACK = 2.0


def fault(why: Reason, place: str = "") -> Finding:
    return Finding("fault", why, place)


def remark(why: Reason, place: str = "") -> Finding:
    return Finding("remark", why, place)


class RunChecks:
    """The checks of one run. Each yields findings; `counts` says how much was looked at."""

    def __init__(self, run: RunDir, folder: Path) -> None:
        """`folder`: that of the whole bundle."""
        self.run, self.folder = run, folder
        self.manifest: Manifest = run.manifest()
        self.past = journal.read(run.path)
        self.state = RunState.replay(self.manifest.plan, self.past.records)
        self.counts: dict[str, int] = {}

    def _count(self, what: str, more: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    def all(self) -> Iterator[Finding]:
        if self.manifest.run != self.run.id:
            yield fault(reason("run-renamed", run=self.run.id, manifest=self.manifest.run), self.run.id)
        if self.manifest.imported:
            yield remark(reason("imported-run", run=self.run.id))
            return
        yield from self.completeness()
        yield from self.order_of_times()
        yield from self.place_in_series()
        yield from self.workloads()
        for index, case in enumerate(self.manifest.plan.cases):
            yield from self.rounds(index, case)

    # -- every round is there

    def completeness(self) -> Iterator[Finding]:
        plan = self.manifest.plan
        if not any(record.k == journal.FINISHED for record in self.past.records):
            yield remark(reason("run-not-finished", run=self.run.id))
        for warning in self.past.warnings:
            yield remark(reason("journal-torn", what=Path(warning).name), self.run.id)
        explained = self.state.stop_reason is not None or self.state.finished is None
        for ref in plan.order:
            self._count("rounds")
            outcome, _ = self.state.outcome(ref)
            place = self._place(ref)
            if outcome is JobState.PENDING and not explained:
                yield fault(reason("round-missing"), place)
            elif outcome not in (JobState.SUCCEEDED, JobState.PENDING):
                yield remark(reason("round-not-counted", state=str(outcome)), place)
            attempts = self.state.rounds[ref].attempts
            self._count("attempts", len(attempts))
            if len(attempts) > 1:
                yield remark(reason("round-tried-again", attempts=len(attempts)), place)
            yield from self._attempts(ref, {attempt.number for attempt in attempts})

    def _attempts(self, ref: RoundRef, known: set[int]) -> Iterator[Finding]:
        case = self.manifest.plan.cases[ref.case]
        folder = self.run.attempt(case, ref, 1).parent
        there = {int(one.name[7:]) for one in folder.glob("attempt*") if one.name[7:].isdigit()}
        for number in sorted(there - known):
            yield fault(reason("attempt-not-in-journal", attempt=number), self._place(ref))

    def _place(self, ref: RoundRef) -> str:
        return f"{self.manifest.plan.cases[ref.case].case} round {ref.round}"

    # -- times

    def order_of_times(self) -> Iterator[Finding]:
        before = self.manifest.created - int(CLOCK_STEP * NS)
        for record in self.past.records:
            if record.wall < before - CLOCK_STEP * NS:
                yield fault(reason("time-went-back", seconds=round((before - record.wall) / NS, 1)), self.run.id)
                return
            before = max(before, record.wall)

    # -- the series

    def place_in_series(self) -> Iterator[Finding]:
        place = self.manifest.series
        if place is None:
            yield remark(reason("no-series"), self.run.id)
            return
        try:
            lines = (self.run.path / SERIES).read_bytes().split(b"\n")[:-1]
        except OSError:
            yield remark(reason("series-not-packed", number=place.number), self.run.id)
            return
        broken = series.broken_at(lines)
        last = msgspec.json.decode(lines[-1], type=series.Line) if lines and broken is None else None
        if last is None or last.run != self.manifest.run or last.series != place:
            yield fault(reason("series-broken"), self.run.id)
            return
        same = [line for line in lines if msgspec.json.decode(line, type=series.Line).series.name == place.name]
        if len(same) != place.number:
            yield fault(reason("series-broken"), self.run.id)

    # -- the programs

    def workloads(self) -> Iterator[Finding]:
        for case in {case.workload: case for case in self.manifest.plan.cases}.values():
            if not case.version:
                continue
            self._count("workloads")
            yield from self._sources(case)
        for case in self.manifest.plan.cases:
            yield from _locked(case)

    def _sources(self, case: CasePlan) -> Iterator[Finding]:
        """The packed program is the one that ran. If it is not the one that this trainmark ships, that is said."""
        packed = self.folder / SOURCES / case.workload
        if not packed.is_dir():
            yield remark(reason("sources-missing", workload=case.workload))
            return
        if _packed_version(packed) != case.version:
            yield fault(reason("sources-of-another-version", workload=case.workload))
            return
        try:
            shipped = workloads.find(case.workload, (), "verify")
        except UserError:
            yield remark(reason("workload-not-shipped", workload=case.workload))
            return
        if program_version(shipped.folder, tuple(shipped.workload.path)) != case.version:
            yield remark(reason("workload-differs", workload=case.workload, files=listed(_differing(packed, shipped))))

    # -- what happened in each round

    def rounds(self, index: int, case: CasePlan) -> Iterator[Finding]:
        """Rounds that count: their nodes' records, and whether they can have happened."""
        counted = self.state.counted(index)
        read = []
        seeds = set()
        walls = {
            (record.round, record.attempt, record.k): record.wall
            for record in self.past.records
            if record.case == index and record.round is not None
        }
        tokens = {
            (record.round, record.attempt): record.token
            for record in self.past.records
            if record.case == index and record.k == journal.ATTEMPT
        }
        for ref, attempt in counted:
            folder = self.run.attempt(case, ref, attempt.number)
            place = self._place(ref)
            begin = walls.get((ref.round, attempt.number, journal.ATTEMPT))
            end = walls.get((ref.round, attempt.number, journal.ENDED))
            yield from self._nodes(folder, case, tokens.get((ref.round, attempt.number)), begin, end, place)
            found = columns.read(folder, case.world)
            self._count("events", found.lines)
            sampled = events.samples(folder)
            for why in plausibility.of_attempt(found, sampled, case.vendor):
                yield fault(why, place)
            seeds.add(_seed(folder))
            read.append((f"round {ref.round}", found))
        for why in plausibility.of_rounds(read, same_seed=len(seeds) < len(read)):
            yield fault(why, case.case)

    def _nodes(
        self, folder: Path, case: CasePlan, token: str | None, begin: int | None, end: int | None, place: str
    ) -> Iterator[Finding]:
        folders = [one for one in folder.glob("*noderank*") if one.is_dir()]
        there = {rundir.node_index(one): one for one in folders}
        for node in case.nodes:
            if node.index not in there:
                yield fault(reason("node-missing", node=node.host or node.index), place)
                continue
            self._count("nodes")
            record = _record(there[node.index] / rundir.RESULT)
            if record is None or not (there[node.index] / rundir.EVENTS).is_file():
                yield fault(reason("node-missing", node=node.host or node.index), place)
                continue
            if token and record.get("token") not in (None, token):
                yield fault(reason("other-attempt", node=node.host or node.index), place)
            yield from _node_times(record, begin, end, place)
            yield from self._machine(there[node.index], place)

    def _machine(self, node: Path, place: str) -> Iterator[Finding]:
        """Facts, agent and events of a node tell the same host; on this machine's own runs also the manifest."""
        facts, claim = _record(node / rundir.FACTS) or {}, _record(node / rundir.CLAIM) or {}
        first = _first_event(node / rundir.EVENTS)
        hosts = {str(one["host"]) for one in (facts, claim, first) if one.get("host")}
        if len(hosts) > 1:
            yield fault(reason("hosts-differ", hosts=sorted(hosts)), place)
        said = self.manifest.provenance.get("facts")
        here = self.manifest.provenance.get("host")
        if isinstance(said, dict) and here in hosts:
            for what in ("cpu", "memory_bytes", "machine"):
                mine, theirs = _identity(said.get(what)), _identity(facts.get(what))
                if mine is not None and theirs is not None and mine != theirs:
                    yield fault(reason("other-machine", what=what), place)


def _node_times(record: Mapping[str, Any], begin: int | None, end: int | None, place: str) -> Iterator[Finding]:
    lasted = record.get("duration")
    if begin is not None and end is not None and isinstance(lasted, (int, float)):
        allowed = (end - begin) / NS
        if lasted > allowed + SLACK:
            yield fault(reason("longer-than-attempt", seconds=round(lasted, 1), allowed=round(allowed, 1)), place)


def _locked(case: CasePlan) -> Iterator[Finding]:
    """Parameters that are locked have the values of the shipped workload, unless the division is open."""
    if case.division != "closed":
        yield remark(reason("case-in-open-division", case=case.case, opened=listed(list(case.opened))))
        return
    try:
        workload = workloads.find(case.workload, (), "verify").workload
    except UserError:
        return
    preset, device = workload.presets.get(case.preset, {}), workload.devices.get(case.vendor, {})
    for name, parameter in workload.parameters.items():
        of_preset = preset.get(name, parameter.default)
        expected = (of_preset, device.get(name, of_preset))
        if parameter.locked and name in case.params and case.params[name] not in expected:
            yield fault(reason("locked-parameter", name=name, value=str(case.params[name])), case.case)


def _packed_version(folder: Path) -> str:
    places = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: int(one.name))
    return program_version(places[0], tuple(str(one) for one in places[1:])) if places else ""


def _differing(packed: Path, shipped: workloads.Found) -> list[str]:
    """Names of the files that differ from the shipped ones."""
    places = (shipped.folder, *((shipped.folder / extra).resolve() for extra in shipped.workload.path))
    found = []
    for number, place in enumerate(places):
        mine = {one.name: one.read_bytes() for one in (packed / str(number)).glob("*") if one.is_file()}
        theirs = {
            one.name: one.read_bytes()
            for one in place.glob("*")
            if one.is_file() and one.suffix in (".py", ".yaml", ".yml", ".json")
        }
        found += [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    return found


def _record(path: Path) -> dict[str, Any] | None:
    found = read_json(path)
    return found if isinstance(found, dict) else None


def _seed(attempt: Path) -> Any:
    for file in rundir.node_files(attempt, "config.json"):
        return (_record(file) or {}).get("seed")
    return None


def _first_event(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = msgspec.json.decode(file.readline(65_536))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _identity(value: Any) -> Any:
    """What stays the same of a machine: a processor's model and number of threads."""
    return (value.get("model"), value.get("threads")) if isinstance(value, dict) else value


def peak_findings(run: RunDir, report: Report) -> Iterator[Finding]:
    """Cases that are faster than what the hardware was measured or is published to reach."""
    plans = {case.case: case for case in run.manifest().plan.cases}
    for made in report.cases:
        case = plans[made.case]
        achieved = made.measurements.get("achieved_flops")
        value = achieved.value if achieved is not None else None
        attempts = sorted((run.path / case.id.dir_name()).glob("round*/attempt*"))
        peak = question(case, next((named for one in attempts if (named := events.models(one))), ())).peak
        for limit, source in ((case.reachable, "measured"), (peak.flops, peak.source)):
            for why in plausibility.over_peak(value, limit, source):
                yield fault(why, case.case)
        # Against what its ranks measured themselves, where nothing better is known.
        share = made.measurements.get("matmul_fraction")
        for why in share.reason if share is not None else ():
            if why.code == "over-everything" and why.arguments["percent"] > 100 * plausibility.PEAK_TOLERANCE:
                yield fault(why, case.case)
