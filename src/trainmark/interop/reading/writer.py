"""Items → a run directory like any other, so that every verb works on an imported run as on one of our own."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from trainmark import __version__
from trainmark.errors import UserError
from trainmark.frameworks.protocol import Command
from trainmark.interop.reading.records import (
    Begin,
    CaseFields,
    Counted,
    End,
    Flag,
    Item,
    LoggedEvent,
    LoggedSample,
    Missing,
    Verbatim,
    clean,
    printable,
    wrong_loss,
)
from trainmark.interop.reading.source import is_packed
from trainmark.plan.records import IMPORTED_PRESET, CasePlan, NodePlan, Plan, RoundRef, bare
from trainmark.plan.records import SCHEMA as PLAN_SCHEMA
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.spec.workload import Deadlines
from trainmark.store import journal, rundir
from trainmark.store.files import write_json
from trainmark.store.rundir import Imported, Manifest, RunDir, node_dir, rank_log

# Where the source's files lie, by their hashes, and the list of their names.
RAW = "raw"
LISTING = "files.jsonl"
# Of each kind of flag the first few are kept word for word; all are counted.
EXAMPLES = 5
# Ends that a native run would try again have no meaning here: nobody can.
_FAILED = (JobState.FAILED, JobState.INVALID, JobState.SUCCEEDED, JobState.TIMEOUT)

# What a sample of an imported run may hold. `devices` is a list with one record for each card.
SAMPLE_UNITS = {
    "cpu": "fraction",
    "mem": "fraction",
    "power_w": "watts",
    "devices.temperature_c": "°C",
    "devices.power_w": "watts",
    "devices.memory_used": "bytes",
    "devices.memory_total": "bytes",
    "devices.utilisation": "fraction",
}


class Case:
    """A case while its rounds come in. Its folder gets its final name when their number is known."""

    def __init__(self, fields: CaseFields, folder: Path) -> None:
        self.fields = fields
        self.folder = folder
        self.hosts: tuple[str, ...] = ()
        self.ends: list[End] = []


class Writer:
    """Takes items one by one; `finish` makes the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cases: dict[str, Case] = {}
        self._round: _Round | None = None
        self.flags: Counter[str] = Counter()
        self.examples: list[str] = []
        self.missing: list[str] = []
        self.counts: Counter[str] = Counter()
        self.verbatim: list[Verbatim] = []

    def take(self, item: Item) -> None:
        if isinstance(item, LoggedEvent):
            if self._round is None:
                raise ValueError("an event outside of a round")
            self._round.tell(item)
        elif isinstance(item, LoggedSample):
            if self._round is None:
                raise ValueError("a sample outside of a round")
            self._round.sample(item)
        elif isinstance(item, Flag):
            self.flags[item.kind] += 1
            self.counts["flagged_rows"] += item.rows
            if self.flags[item.kind] <= EXAMPLES:
                self.examples.append(printable(f"{item.kind}: {item.place}: {item.text}"))
        elif isinstance(item, Missing):
            if item.what not in self.missing:
                self.missing.append(item.what)
        elif isinstance(item, Counted):
            for name in ("lines", "taken", "other", "flagged"):
                self.counts[name] += getattr(item, name)
            self.counts["files"] += 1
        elif isinstance(item, Begin):
            self._begin(item)
        elif isinstance(item, End):
            self._end(item)
        else:
            self.verbatim.append(item)

    @property
    def rounds(self) -> int:
        return sum(len(case.ends) for case in self._cases.values())

    @property
    def cases(self) -> int:
        return len(self._cases)

    def identities(self) -> list[str]:
        """Which cases there are, and how often each ran."""
        return sorted(f"{identity} {len(case.ends)}" for identity, case in self._cases.items())

    def _begin(self, item: Begin) -> None:
        if not all(name.isprintable() for name in (item.label, *item.hosts)):
            self.take(Flag("control characters", item.label, "in a name, which is shown with them spelt out"))
            hosts = tuple(clean(host) for host in item.hosts)
            item = msgspec.structs.replace(item, label=printable(item.label), hosts=hosts)
        if trouble := item.case.trouble():
            raise UserError(f"{item.label}: {trouble}")
        identity = item.case.id(1).identity
        case = self._cases.get(identity)
        if case is None:
            folder = self._folder / f".case{len(self._cases)}"
            case = self._cases[identity] = Case(item.case, folder)
        case.hosts = item.hosts or case.hosts or tuple(f"node{index}" for index in range(item.case.nnodes))
        attempt = case.folder / f"round{len(case.ends) + 1}" / "attempt1"
        self._round = _Round(attempt, case, item)

    def _end(self, item: End) -> None:
        if self._round is None:
            raise ValueError("the end of a round that never began")
        if item.state == JobState.SUCCEEDED and self._round.wrong is not None:
            item = msgspec.structs.replace(item, state=JobState.INVALID, reason=self._round.wrong)
        item = msgspec.structs.replace(
            item, reason=printable(item.reason), last_lines=tuple(printable(line) for line in item.last_lines)
        )
        self._round.close(item)
        self.counts["events"] += self._round.events
        self._round.case.ends.append(item)
        self._round = None

    def finish(self, suite: str, imported: Imported, run: RunDir) -> None:
        """Everything but the events, which are there already; the manifest last."""
        cases = list(self._cases.values())
        plans = tuple(_plan(case) for case in cases)
        for case, plan in zip(cases, plans, strict=True):
            case.folder.rename(self._folder / plan.id.dir_name())
        order = tuple(
            RoundRef(index, number) for index, case in enumerate(cases) for number in range(1, len(case.ends) + 1)
        )
        hosts = max((list(case.hosts) for case in cases), key=len)
        site = Site(name="imported", launcher="imported", hosts=hosts)
        whole = Plan(PLAN_SCHEMA, suite, "open", site, 0, 0, plans, (order,), kind="import")
        journal.write(self._folder, _records(cases))
        manifest = Manifest(rundir.SCHEMA, run.id, time.time_ns(), __version__, sys.argv, whole, {}, imported)
        rundir.write_manifest(RunDir(self._folder), manifest)


class _Round:
    """The events of one round on their way to the files of its nodes. One file is open at a time."""

    def __init__(self, attempt: Path, case: Case, begin: Begin) -> None:
        self.case = case
        self.events = 0
        self._attempt = attempt
        self._begin = begin
        self._seq: dict[int, int] = {}
        self._node = -1
        self._out: IO[bytes] | None = None
        self.wrong: str | None = None  # where a loss first was no finite number
        self._told: Counter[int] = Counter()
        self._samples: dict[int, IO[bytes]] = {}

    def tell(self, item: LoggedEvent) -> None:
        if item.node != self._node or self._out is None:
            self._open(item.node)
        if item.rank not in self._seq:
            self._seq[item.rank] = 0
            unit = {"unit": self.case.fields.unit, "timing": self._begin.timing, "scope": self._begin.scope}
            self._write("INIT_START", item.rank, item.t, {**unit, "imported": self._begin.label})
        if item.k == "INIT_START":
            # The first one tells what the times are; a second would take that back.
            return
        self.wrong = self.wrong or wrong_loss(item)
        self._write(item.k, item.rank, item.t, item.more)

    def _write(self, kind: str, rank: int, t: int, more: dict[str, Any]) -> None:
        seq = self._seq[rank]
        self._seq[rank] = seq + 1
        rest = b"," + msgspec.json.encode(more)[1:] if more else b"}"
        head = b'{"k":"%s","rank":%d,"seq":%d,"t":%d' % (kind.encode(), rank, seq, t)
        self._out.write(head + rest + b"\n")  # type: ignore[union-attr]
        self._told[self._node] += 1
        self.events += 1

    def sample(self, item: LoggedSample) -> None:
        out = self._samples.get(item.node)
        if out is None:
            folder = self._dir(item.node)
            folder.mkdir(parents=True, exist_ok=True)
            out = self._samples[item.node] = (folder / rundir.SAMPLES).open("wb")
            out.write(msgspec.json.encode({"schema": 1, "units": {"t": "ns", **SAMPLE_UNITS}}) + b"\n")
        out.write(msgspec.json.encode({"t": item.t, **item.values}) + b"\n")

    def _dir(self, node: int) -> Path:
        if not 0 <= node < len(self.case.hosts):
            raise UserError(f"node {node} of a case with {len(self.case.hosts)}: the source contradicts itself")
        return node_dir(self._attempt, self.case.hosts[node], node)

    def _open(self, node: int) -> None:
        if self._out is not None:
            self._out.close()
        folder = self._dir(node)
        folder.mkdir(parents=True, exist_ok=True)
        self._out = (folder / rundir.EVENTS).open("ab", buffering=1 << 18)
        self._node = node

    def close(self, end: End) -> None:
        if self._out is None:
            self._open(0)
        assert self._out is not None  # noqa: S101 - for the type checker
        self._out.close()
        for samples in self._samples.values():
            samples.close()
        for node, events in (self._told or {0: 0}).items():
            result = {"imported": self._begin.label, "raw": self._begin.raw, "state": end.state, "events": events}
            write_json(self._dir(node) / rundir.RESULT, {**result, "warnings": []})
        self._link_log()

    def _link_log(self) -> None:
        """The source as the log of rank 0: another name for the kept file, not a copy."""
        raw = self.case.folder.parent / RAW / self._begin.raw
        if self._begin.raw and raw.is_file() and not is_packed(raw):
            with contextlib.suppress(OSError):
                os.link(raw, rank_log(self._dir(0), 0))


def _plan(case: Case) -> CasePlan:
    fields = case.fields
    return bare(
        fields.id(len(case.ends)),
        tuple(_node(index, host, fields.nproc) for index, host in enumerate(case.hosts)),
        Deadlines(),
        fingerprint=fields.fingerprint(),
        unit=fields.unit,
        preset=IMPORTED_PRESET,
        division="open",
        params=fields.params,
        origins=dict.fromkeys(fields.params, "imported"),
    )


def _node(index: int, host: str, nproc: int) -> NodePlan:
    return NodePlan(index, host, tuple(Command(index * nproc + local, local, (), {}) for local in range(nproc)))


def _records(cases: Sequence[Case]) -> list[journal.Record]:
    wall, found = time.time_ns(), []
    found.append(journal.Record(journal.OWNER, 1, wall, host=os.uname().nodename, pid=os.getpid()))
    states = set()
    for index, case in enumerate(cases):
        for number, end in enumerate(case.ends, 1):
            at: dict[str, Any] = {"case": index, "round": number, "attempt": 1}
            state = end.state if end.state in _FAILED else JobState.FAILED
            failure = {"last_lines": list(end.last_lines)} if end.last_lines else None
            found.append(journal.Record(journal.ATTEMPT, 1, wall, token="", **at))
            found.append(journal.Record(journal.ENDED, 1, wall, state=state, reason=end.reason, failure=failure, **at))
            states.add(state)
    final = JobState.SUCCEEDED if states <= {JobState.SUCCEEDED} else JobState.FAILED
    found.append(journal.Record(journal.FINISHED, 1, wall, state=final))
    return found


def discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
