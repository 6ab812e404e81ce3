"""What a bundle's runs must hold to be whole: every round, in order, by the clocks, on the machines that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason, listed, reason
from trainmark.report.make.attempt import question
from trainmark.report.records import Report
from trainmark.spec.columns import Columns, is_number
from trainmark.spec.states import JobState
from trainmark.store import columns, digests, events, journal, rundir, series
from trainmark.store.files import read_json
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState
from trainmark.trust import plausibility, programs
from trainmark.trust.records import SERIES, Finding, fault, remark

NS = 1e9
# Clocks are corrected while a run goes on: by less than this it means nothing.
CLOCK_STEP = 2.0
# An agent's account of an attempt may exceed the controller's by this.
SLACK = 2.0
# The clocks of two hosts may differ by this; more is said, and on one and the same host it cannot be.
CLOCKS_APART = 120.0
_BOUNDS = (journal.ATTEMPT, journal.ENDED)
CONFIG = "config.json"
# What every agent leaves, beside its result, events and samples.
_OF_EVERY_NODE = (rundir.FACTS, rundir.CLAIM, CONFIG)


class RunChecks:
    """The checks of one run. Each yields findings; `counts` says how much was looked at."""

    def __init__(self, run: RunDir, folder: Path, altered: Callable[[Path], bool]) -> None:
        """`folder`: that of the whole bundle. `altered`: whether something was taken out of results below a folder."""
        self.run, self.folder, self.altered = run, folder, altered
        self.manifest: Manifest = run.manifest()
        self.past = journal.read(run.path)
        self.state = RunState.replay(self.manifest.plan, self.past.records)
        self.counts: dict[str, int] = {}
        # When attempts began and ended, by case, round, number and kind of record.
        self.walls = {
            (record.case, record.round, record.attempt, record.k): record.wall
            for record in self.past.records
            if record.k in _BOUNDS
        }
        # Whether the version that made it wrote digests of what its agents left.
        self.sealed = any(record.k == journal.OWNER and record.digest for record in self.past.records)
        # What its rounds look like, by their places.
        self.shapes: list[tuple[str, plausibility.Shape]] = []
        # How many runs its series has, as far as its list tells.
        self.of_series = 0

    def _count(self, what: str, more: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    def all(self) -> Iterator[Finding]:
        if self.manifest.run != self.run.id:
            yield fault(reason("run-renamed", run=self.run.id, manifest=self.manifest.run), self.run.id)
        if self.manifest.imported:
            yield remark(reason("imported-run", run=self.run.id))
            return
        if not self.sealed:
            yield remark(reason("no-digests"), self.run.id)
        yield from self.completeness()
        yield from self.order_of_times()
        yield from self.place_in_series()
        for case in {case.workload: case for case in self.manifest.plan.cases}.values():
            self._count("workloads")
            yield from programs.of_case(case, self.folder)
        for case in self.manifest.plan.cases:
            yield from programs.locked(case)
        taken: list[tuple[str, int, int, str]] = []
        for index, case in enumerate(self.manifest.plan.cases):
            yield from self.rounds(index, case, taken)
        yield from self.clocks(taken)

    # -- every round is there

    def completeness(self) -> Iterator[Finding]:
        plan = self.manifest.plan
        for warning in self.past.warnings:
            # Without the folder, which is another's.
            torn = {**warning.arguments, "file": Path(warning.arguments["file"]).name}
            yield remark(reason("journal-torn", what=Reason(warning.code, torn)), self.run.id)
        yield from self._as_planned()
        pending, begun = [], set()
        for number, ref in enumerate(plan.order):
            self._count("rounds")
            outcome, _ = self.state.outcome(ref)
            place = self._place(ref)
            attempts = self.state.rounds[ref].attempts
            if attempts:
                begun.add(number)
            if outcome is JobState.PENDING:
                pending.append(number)
            elif outcome is not JobState.SUCCEEDED:
                yield remark(reason("round-not-counted", state=str(outcome)), place)
            self._count("attempts", len(attempts))
            if len(attempts) > 1:
                yield remark(reason("round-tried-again", attempts=len(attempts)), place)
            yield from self._attempts(ref, [attempt.number for attempt in attempts])
        yield from self._absent(pending, max(begun, default=-1))

    def _as_planned(self) -> Iterator[Finding]:
        """The plan has as many rounds as each case's name says."""
        planned: dict[int, set[int]] = {}
        for ref in self.manifest.plan.order:
            planned.setdefault(ref.case, set()).add(ref.round)
        # A run that only calls itself an experiment has nothing that it could be scored by.
        if self.manifest.plan.kind not in ("benchmark", "automl"):
            yield remark(reason("another-kind-of-run", kind=self.manifest.plan.kind), self.run.id)
        for index, case in enumerate(self.manifest.plan.cases):
            rounds, repeat = planned.get(index, set()), case.id.repeat
            said = case.repeat if repeat == "auto" else repeat
            if self.manifest.plan.kind == "benchmark" and rounds != set(range(1, int(said) + 1)):
                yield fault(reason("plan-differs-from-case", rounds=len(rounds)), case.case)

    def _absent(self, pending: list[int], last: int) -> Iterator[Finding]:
        """Rounds that were not made come last: a run that was stopped or killed has no holes."""
        plan = self.manifest.plan
        explained = self.state.stop_reason is not None or self.state.finished is None
        for number in pending:
            if not explained or (number < last and plan.width == 1):
                yield fault(reason("round-missing"), self._place(plan.order[number]))
        if explained and pending:
            made = len(plan.order) - len(pending)
            yield remark(reason("rounds-not-made", made=made, of=len(plan.order)), self.run.id)
        elif self.state.finished is None:
            yield remark(reason("run-not-finished", run=self.run.id))

    def _attempts(self, ref: RoundRef, known: list[int]) -> Iterator[Finding]:
        if known != list(range(1, len(known) + 1)):
            yield fault(reason("attempts-missing", numbers=listed([str(number) for number in known])), self._place(ref))
        case = self.manifest.plan.cases[ref.case]
        folder = self.run.attempt(case, ref, 1).parent
        there = {int(one.name[7:]) for one in folder.glob("attempt*") if one.name[7:].isdigit()}
        for number in sorted(there - set(known)):
            yield fault(reason("attempt-not-in-journal", attempt=number), self._place(ref))

    def _place(self, ref: RoundRef) -> str:
        return f"{self.manifest.plan.cases[ref.case].case} round {ref.round}"

    # -- times

    def order_of_times(self) -> Iterator[Finding]:
        before = self.manifest.created - int(CLOCK_STEP * NS)
        running: tuple[int, RoundRef] | None = None
        for record in self.past.records:
            if record.wall < before - CLOCK_STEP * NS:
                yield fault(reason("time-went-back", seconds=round((before - record.wall) / NS, 1)), self.run.id)
                return
            before = max(before, record.wall)
            ref = RoundRef(record.case if record.case is not None else -1, record.round or 0)
            if record.k == journal.ATTEMPT and self.manifest.plan.width == 1:
                # After a controller was killed, what it had begun may be without an end.
                if running is not None and running[0] == record.epoch and ref in self.state.rounds:
                    yield fault(reason("rounds-overlap", other=running[1].round), self._place(ref))
                running = record.epoch, ref
            elif record.k == journal.ENDED and running is not None and running[1] == ref:
                running = None

    def clocks(self, taken: list[tuple[str, int, int, str]]) -> Iterator[Finding]:
        """No two rounds at one time of a machine's clock, which runs on from one to the next until it is booted."""
        taken.sort()
        for (boot, _, end, _), (other, begin, _, place) in pairwise(taken):
            if boot == other and begin < end and not self.manifest.plan.sharing:
                yield fault(reason("same-time-twice", seconds=round((end - begin) / NS, 1)), place)

    # -- the series

    def place_in_series(self) -> Iterator[Finding]:
        place = self.manifest.series
        if place is None:
            yield remark(reason("no-series"), self.run.id)
            return
        try:
            chain = series.read_chain((self.run.path / SERIES).read_bytes())
        except OSError:
            yield remark(reason("series-not-packed", number=place.number), self.run.id)
            return
        mine = [line for line in chain or () if line.series.name == place.name]
        numbered = [line.series.number for line in mine] == list(range(1, len(mine) + 1))
        here = [line.series for line in mine if line.run == self.manifest.run]
        if chain is None or not numbered or here != [place] or place.name != series.name_of(self.manifest.plan):
            yield fault(reason("series-broken"), self.run.id)
            return
        self.of_series = len(mine)

    # -- what happened in each round

    def rounds(self, index: int, case: CasePlan, taken: list[tuple[str, int, int, str]]) -> Iterator[Finding]:
        """Rounds that count: their nodes' records, and whether they can have happened. `taken`: when each was, by the
        clock of its machine."""
        read = []
        seeds = set()
        for ref, attempt in self.state.counted(index):
            folder = self.run.attempt(case, ref, attempt.number)
            place = self._place(ref)
            walls = [self.walls.get((index, ref.round, attempt.number, kind)) for kind in _BOUNDS]
            yield from self._nodes(folder, case, attempt.token, walls, place)
            yield from self._digest(folder, attempt.digest, place)
            found = columns.read(folder, case.world)
            self._count("events", found.lines)
            # Ranks that are started again within an attempt repeat steps.
            if not case.restarts:
                yield from self._counts(folder, found, place)
            sampled = events.samples(folder)
            # A program without a framework trains nothing, and may sleep.
            trains_on = "" if case.framework == "none" else "cpu" if case.vendor == "cpu" else "device"
            for why in plausibility.of_attempt(found, sampled, trains_on):
                yield fault(why, place)
            for why in plausibility.copied_ranks(found):
                yield remark(why, place)
            if plausibility.one_account_only(found, sampled):
                yield remark(reason("one-account-only"), place)
            seeds.add(_seed(folder))
            read.append((ref.round, plausibility.shape(found)))
            boot = _boot(folder)
            if not boot and self.sealed:
                yield remark(reason("clock-not-known"), place)
            if boot and found.ranks:
                times = [time for rank in found.ranks[:1] for time in (rank.first, rank.last)]
                taken.append((boot, times[0], times[1], place))
        for why in plausibility.of_losses(read, same_seed=len(seeds) < len(read)):
            yield fault(why, case.case)
        self.shapes += [(f"{case.case} round {number}", shape) for number, shape in read]

    def _digest(self, folder: Path, digest: str | None, place: str) -> Iterator[Finding]:
        """The journal tells the digest of the nodes' results, if its version wrote any."""
        if digest is None and self.sealed:
            yield fault(reason("digest-missing"), place)
        elif digest is not None and not self.altered(folder) and digests.attempt_digest(folder) != digest:
            yield fault(reason("not-what-agent-wrote"), f"{place} {rundir.RESULT}")

    def _nodes(
        self, folder: Path, case: CasePlan, token: str, walls: list[int | None], place: str
    ) -> Iterator[Finding]:
        there = {rundir.node_index(one): one for one in folder.glob("*noderank*") if one.is_dir()}
        for node in case.nodes:
            here, name = there.get(node.index), node.host or node.index
            record = None if here is None else _record(here / rundir.RESULT)
            if here is None or record is None or not (here / rundir.EVENTS).is_file():
                yield fault(reason("node-missing", node=name), place)
                continue
            self._count("nodes")
            if not (here / rundir.SAMPLES).is_file():
                yield fault(reason("samples-missing", node=name), place)
            if record.get("token") != token if token else self.sealed:
                yield fault(reason("other-attempt", node=name), place)
            for file in _OF_EVERY_NODE if self.sealed else ():
                if _record(here / file) is None:
                    yield fault(reason("node-file-missing", node=name, file=file), place)
            yield from _node_times(record, walls, place)
            yield from self._clocks_apart(here, record, walls, place)
            yield from self._machine(here, place)
            yield from self._devices(here, case, place)
            config = (_record(here / CONFIG) or {}).get("params")
            if config is not None and self.manifest.plan.kind == "benchmark" and config != case.params:
                yield fault(reason("config-differs", node=name), place)

    def _counts(self, folder: Path, found: Columns, place: str) -> Iterator[Finding]:
        """The agent counted steps and samples of its ranks while they trained."""
        results = [_record(file) or {} for file in rundir.node_files(folder, rundir.RESULT)]
        told = {one.get("rank"): one for record in results for one in _dicts(record.get("ranks"))}
        for rank in found.ranks:
            about, steps = told.get(rank.rank, {}), rank.steps
            here = {
                "steps": 0 if steps is None else len(steps.step),
                "samples": 0 if steps is None else int(steps.n.sum()),
            }
            for name, count in here.items():
                if is_number(about.get(name)) and about[name] != count:
                    yield fault(
                        reason("counts-differ", rank=rank.rank, name=name, count=count, agent=about[name]), place
                    )

    def _clocks_apart(
        self, node: Path, record: Mapping[str, Any], walls: Sequence[int | None], place: str
    ) -> Iterator[Finding]:
        """By the calendar, a node began when its attempt did. Clocks of other hosts may be wrong, and that is said."""
        first = _first_event(node / rundir.EVENTS)
        begun = [one for one in (record.get("started"), first.get("wall")) if is_number(one) and one > 0]
        if walls[0] is None or not begun:
            return
        apart = max((abs(one - walls[0]) / NS for one in begun), default=0.0)
        allowed = CLOCKS_APART if walls[1] is None else CLOCKS_APART + (walls[1] - walls[0]) / NS
        if apart > allowed:
            why = reason("clocks-apart", seconds=round(apart))
            same = first.get("host") == self.manifest.provenance.get("host")
            yield fault(why, place) if same else remark(why, place)

    def _devices(self, node: Path, case: CasePlan, place: str) -> Iterator[Finding]:
        """A node that trains on devices of a vendor has some."""
        told = (_record(node / rundir.FACTS) or {}).get("accelerators")
        if case.vendor != "cpu" and not (isinstance(told, dict) and told.get("devices")):
            yield remark(reason("devices-not-told", vendor=case.vendor), place)

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


def _node_times(record: Mapping[str, Any], walls: Sequence[int | None], place: str) -> Iterator[Finding]:
    begin, end = walls
    lasted = record.get("duration")
    if begin is not None and end is not None and is_number(lasted):
        allowed = (end - begin) / NS
        if lasted > allowed + SLACK:
            yield fault(reason("longer-than-attempt", seconds=round(lasted, 1), allowed=round(allowed, 1)), place)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _record(path: Path) -> dict[str, Any] | None:
    found = read_json(path)
    return found if isinstance(found, dict) else None


def _seed(attempt: Path) -> Any:
    for file in rundir.node_files(attempt, CONFIG):
        return (_record(file) or {}).get("seed")
    return None


def _boot(attempt: Path) -> str:
    """Which boot of which machine the first node's clock belongs to; empty where its agent does not tell."""
    for file in rundir.node_files(attempt, rundir.CLAIM):
        found = _record(file) or {}
        return f"{found.get('host')} {found.get('boot_id')}" if "start_ticks" in found else ""
    return ""


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
        if case.peak is not None:
            yield remark(reason("peak-by-site", source=case.peak.source), case.case)
        for limit, source in ((case.reachable, "measured"), (peak.flops, peak.source)):
            for why in plausibility.over_peak(value, limit, source):
                yield fault(why, case.case)
        # Against what its ranks measured themselves, where nothing better is known.
        share = made.measurements.get("matmul_fraction")
        for why in share.reason if share is not None else ():
            if why.code == "over-everything" and why.arguments["percent"] > 100 * plausibility.PEAK_TOLERANCE:
                yield fault(why, case.case)
