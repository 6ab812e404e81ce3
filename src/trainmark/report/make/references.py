"""Reference machines: what a suite gave on a named machine, kept in a file; some come with trainmark."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.report.records import CaseReport, Report, Trained
from trainmark.score.records import Flag
from trainmark.score.studies.aggregate import Speed
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

SCHEMA = 1
SUFFIX = ".json"
_SHIPPED = Path(__file__).resolve().parents[2] / "references"
# What is told of the machine, by the names of its facts.
_HARDWARE = {"processor": "cpu.model", "threads": "cpu.threads", "memory_bytes": "memory_bytes"}


class ReferenceCase(msgspec.Struct, frozen=True):
    """A case's throughput, what it trained, and what was wrong with it."""

    case: str
    # Of the workload's files.
    version: str
    trained: Trained
    unit: str
    speed: Speed
    flags: list[Flag] = []


class Reference(msgspec.Struct, frozen=True):
    schema: int
    name: str
    suite: str
    # Seconds since 1970.
    created: float
    trainmark: str
    hardware: dict[str, str]
    cases: list[ReferenceCase]
    # What a reader should know of how it was measured.
    note: str = ""


def names() -> list[str]:
    """Of those that come with trainmark."""
    return sorted(file.stem for file in _SHIPPED.glob(f"*{SUFFIX}"))


def find(asked: str | None, suite: str) -> Reference:
    """By name or by file. None: the one that comes with trainmark, of this suite where there are several."""
    if asked is None:
        shipped = [_read(_SHIPPED / f"{name}{SUFFIX}") for name in names()]
        if not shipped:
            raise UserError("no reference comes with this trainmark; name a file with --against")
        return next((one for one in shipped if one.suite == suite), shipped[0])
    if asked in names():
        return _read(_SHIPPED / f"{asked}{SUFFIX}")
    file = Path(asked)
    if not file.is_file():
        raise UserError(
            f"--against {asked}: no such file, and no reference of this name{did_you_mean(asked, names())}; "
            f"there is {one_of(names())}"
        )
    return _read(file)


def _read(file: Path) -> Reference:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Reference)
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{file}: is no reference: {error}; `trainmark score --make-reference` makes one") from None
    if found.schema != SCHEMA:
        raise UserError(f"{file}: has schema {found.schema}, this trainmark reads {SCHEMA}; make it anew")
    for case in found.cases:
        if not _usable(case.speed):
            raise UserError(f"{file}: {case.case}: its speed is {case.speed.value:g}, allowed is a positive number")
    if not found.cases:
        raise UserError(f"{file}: has no cases; `trainmark score --make-reference` makes one")
    return found


def _usable(speed: Speed) -> bool:
    ends = [end for end in (speed.low, speed.high) if end is not None]
    return all(0 < value < math.inf for value in (speed.value, *ends))


def make(run: RunDir, report: Report, name: str, note: str = "") -> Reference:
    """Of a run all of whose cases gave a speed."""
    manifest = run.manifest()
    versions = {case.case: case.version for case in manifest.plan.cases}
    cases = []
    for case in report.cases:
        found = speed_of(case)
        if case.state is not JobState.SUCCEEDED or found is None or case.trained is None:
            raise UserError(f"{report.run}: {case.case} has no speed ({case.state}): a reference needs all cases")
        speed, unit = found
        cases.append(ReferenceCase(case.case, versions[case.case], case.trained, unit, speed, case.flags))
    if not cases:
        raise UserError(f"{report.run} has no cases: a reference needs some")
    about = report.environment.get("host", {})
    hardware = {name: about[key] for name, key in _HARDWARE.items() if key in about}
    return Reference(
        SCHEMA, name, report.suite, manifest.created * 1e-9, manifest.trainmark, hardware, cases, note.strip()
    )


def speed_of(case: CaseReport) -> tuple[Speed, str] | None:
    """A case's throughput with its unit; None where it has none."""
    found = case.measurements.get("throughput")
    if found is None or found.value is None or not 0 < found.value < math.inf:
        return None
    return Speed(found.value, found.ci_low, found.ci_high, found.n), found.unit
