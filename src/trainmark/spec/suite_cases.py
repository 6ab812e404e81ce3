"""The cases of a suite: every spelling, every cell of a matrix or study, each value settled, none twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import auto, scaling
from trainmark.spec import workload as workloads
from trainmark.spec.case import PRESET_KEY, Case, Layer, resolve
from trainmark.spec.case_id import AUTO, SHAPE, CaseId, Value, value_text
from trainmark.spec.length import check_seconds
from trainmark.spec.scaling import Cell, Scaling
from trainmark.spec.site import LogLevel, Site
from trainmark.spec.suite import Loaded
from trainmark.spec.workload import check_deadlines
from trainmark.spec.yamlfile import Location, convert

# A matrix with more cells than this is a slip of the pen, not a plan.
MOST_CELLS = 10_000
_AXES = ("workload", "framework", "device", "nodes", "procs")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case as a mapping in a suite."""

    case: str | None = None
    matrix: dict[str, Any] | None = None
    repeat: int | Literal["auto"] | None = None
    data: str | None = None
    checkpoint: str | None = None
    preset: str | None = None
    set: dict[str, Value] = {}
    deadlines: dict[str, float] = {}
    log_level: LogLevel | None = None
    seconds: float | None = None
    scaling: Scaling | None = None


def expand(loaded: Loaded, site: Site, overrides: Mapping[str, str]) -> list[Case]:
    """Every case of the suite, settled. No two share an identity."""
    cases: dict[str, Case] = {}
    places: dict[str, str] = {}
    found_cache: dict[str, workloads.Found] = {}
    for place, case_id, entry, own in entries(loaded):
        if own is None and case_id.workload not in found_cache:
            found_cache[case_id.workload] = workloads.find(case_id.workload, loaded.folders, place)
        found = own or found_cache[case_id.workload]
        here = auto.named(case_id, site, place)
        if here.device != case_id.device and case_id.device == AUTO and own is None:
            vendor = site.devices.get(here.device, here.device)
            preset = auto.preset_for(entry.preset or loaded.suite.preset, vendor, found.workload)
            entry = msgspec.structs.replace(entry, preset=preset)
        for cell in _cells(loaded, overrides, place, here, entry):
            case = _settle(loaded, site, overrides, found, place, cell, entry)
            identity = case.id.identity
            if identity in places:
                case = _shared(cases[identity], case, place, places[identity])
            places[identity] = place
            cases[identity] = case
    if not cases:
        raise UserError(f"{loaded.where.at('cases')}: none given; write at least one {SHAPE}")
    made = list(cases.values())
    _check_used(made, {name: f"{loaded.where.at('set', name)}" for name in loaded.suite.set})
    _check_used(made, {name: f"--set {name}" for name in overrides})
    if loaded.seconds is not None and not any(case.length for case in made):
        raise UserError("--seconds: no case of the suite runs by time")
    return made


def wanted_batches(loaded: Loaded) -> list[scaling.Wanted]:
    """The largest batches that have to be found before the cases are known."""
    found: dict[str, scaling.Wanted] = {}
    raw = loaded.suite.cases
    own = [item for item in raw if isinstance(item, dict) and "scaling" in item] if isinstance(raw, list) else []
    if loaded.suite.scaling is None and not own:
        return []  # as nearly always
    for place, case_id, entry, _ in entries(loaded):
        asked = entry.scaling or loaded.suite.scaling
        for one in scaling.wanted(asked, case_id, place) if asked else ():
            found.setdefault(one.key, one)
    return list(found.values())


def _cells(loaded: Loaded, overrides: Mapping[str, str], place: str, case_id: CaseId, entry: Entry) -> Iterator[Cell]:
    """The case itself, or all cases of its study."""
    asked = entry.scaling or loaded.suite.scaling
    if asked is None:
        yield Cell(case_id)
        return
    for name in scaling.taken(asked):
        for values, where in ((entry.set, f"{place}.set"), (overrides, "--set")):
            if name in values:
                raise UserError(f"{where}: `{name}` is what the study varies; change it in `scaling`")
    yield from scaling.cells(asked, case_id, place, loaded.fits)


def _shared(one: Case, other: Case, place: str, earlier: str) -> Case:
    """Two studies may meet in a case, which is then measured once."""
    alike = one.fingerprint == other.fingerprint and one.id == other.id
    if not (one.studies and other.studies and alike) or set(one.studies) & set(other.studies):
        raise UserError(
            f"{place}: `{other.id}` is the same case as {earlier}; "
            "a case stands once in a suite, `repeat` says how often it runs"
        )
    return msgspec.structs.replace(one, studies=(*one.studies, *other.studies))


def _settle(
    loaded: Loaded,
    site: Site,
    overrides: Mapping[str, str],
    found: workloads.Found,
    place: str,
    cell: Cell,
    entry: Entry,
) -> Case:
    suite, case_id = loaded.suite, cell.case
    variant = dict(case_id.variant)
    in_id = None if PRESET_KEY in found.workload.parameters else variant.pop(PRESET_KEY, None)
    known = {"data", *found.workload.parameters, *found.workload.aliases}
    layers = [
        # What the suite and the command line say is for every case that has such a parameter.
        Layer("suite", {k: v for k, v in suite.set.items() if k in known}, str(loaded.where.at("set"))),
        Layer("case", variant, f"{place} `{case_id}`"),
        Layer("case", entry.set, f"{place}.set"),
        Layer("--set", {k: v for k, v in overrides.items() if k in known}, "--set"),
    ]
    case = resolve(
        case_id,
        found,
        site.devices.get(case_id.device, case_id.device),
        in_id or entry.preset or suite.preset,
        suite.division,
        layers,
        place=place,
        data=entry.data,
        checkpoint=entry.checkpoint,
        deadlines={**suite.deadlines, **entry.deadlines},
        auto=suite.repeat_auto if case_id.repeat == AUTO else None,
        window=suite.window,
        within=suite.within,
        seconds=next((one for one in (loaded.seconds, entry.seconds, suite.seconds) if one is not None), None),
    )
    if entry.seconds is not None and case.length is None:
        raise UserError(f"{place}: `seconds` is for workloads that run by time; `{found.workload.name}` does not")
    level = entry.log_level or suite.log_level or site.log_level
    studies = () if cell.series is None else (cell.series,)
    return msgspec.structs.replace(case, log_level=level, studies=studies, memory=cell.memory)


# Where a case stands, its id, what else is said there, and its workload if that is said there too.
_Item = tuple[str, CaseId, Entry, workloads.Found | None]


def entries(loaded: Loaded) -> Iterator[_Item]:
    """Every case, whichever of the five spellings was used."""
    raw, where = loaded.suite.cases, loaded.where.at("cases")
    if isinstance(raw, dict):  # FlagPerf's CASES: key → data path
        for key, value in raw.items():
            yield from _from_pair(str(where.at(key)), key, value)
    elif isinstance(raw, list):
        for position, item in enumerate(raw):
            if isinstance(item, dict) and "command" in item:
                yield from _from_command(loaded, where.at(position), item)
            else:
                yield from _from_item(where.at(position), item)
    else:
        raise UserError(f"{where}: expected a list of cases or a mapping `case: data path`; found {raw!r}")


def _from_command(loaded: Loaded, where: Location, item: dict[str, Any]) -> Iterator[_Item]:
    """A command is a workload of its own, and a matrix varies its parameters."""
    from trainmark.spec import command as commands  # few suites have one

    file, place = loaded.file, str(where)
    given = convert(item, commands.CommandEntry, where)
    check_deadlines(given.deadlines, f"{place}.deadlines")
    folder = (loaded.cwd or file.parent.resolve()) / (given.cwd or "")
    found = commands.found(given, folder, loaded.suite.preset, place)
    if loaded.cwd is None:
        commands.check_words(found.workload, place)
    if given.scaling is not None:
        scaling.check(given.scaling, f"{place}.scaling")
    entry = Entry(deadlines=given.deadlines, repeat=given.repeat, log_level=given.log_level, scaling=given.scaling)
    case_id = commands.case_id(given, found.workload.name, place)
    if given.matrix is None:
        yield place, case_id, entry, found
        return
    axes = {"device": given.device, "nodes": given.nnodes, "procs": given.nproc, **given.matrix}
    matrix = {**axes, "workload": case_id.workload, "framework": workloads.EXEC}
    for cell in _cells_of(matrix, entry.repeat, place):
        yield f"{place}.matrix", cell, entry, found


def _from_item(where: Location, item: Any) -> Iterator[_Item]:
    place = str(where)
    if isinstance(item, str):
        yield place, _parse_at(item, place), Entry(), None
        return
    if not isinstance(item, dict):
        raise UserError(f"{place}: expected a case id or a mapping; found {item!r}")
    if len(item) == 1 and ":" in str(next(iter(item))):
        yield from _from_pair(place, *next(iter(item.items())))
        return
    entry = convert(item, Entry, where)
    check_deadlines(entry.deadlines, f"{place}.deadlines")
    check_seconds(entry.seconds, f"{place}.seconds")
    if entry.scaling is not None:
        scaling.check(entry.scaling, f"{place}.scaling")
    if (entry.case is None) == (entry.matrix is None):
        raise UserError(f"{place}: give either `case:` or `matrix:`")
    if entry.case is not None:
        case_id = _parse_at(entry.case, f"{place}.case")
        if entry.repeat is not None:
            case_id = msgspec.structs.replace(case_id, repeat=_checked_repeat(entry.repeat, f"{place}.repeat"))
        yield f"{place}.case", case_id, entry, None
        return
    for case_id in _cells_of(entry.matrix or {}, entry.repeat, place):
        yield f"{place}.matrix", case_id, entry, None


def _from_pair(place: str, key: Any, value: Any) -> Iterator[_Item]:
    if value is not None and not isinstance(value, str):
        raise UserError(f"{place}: expected the path of its data; found {value!r}")
    yield place, _parse_at(str(key), place), Entry(data=value or None), None


def _check_used(cases: list[Case], places: Mapping[str, str]) -> None:
    """That some case has each of these parameters; `places` says where each was given."""
    known = {name for case in cases for name in (*case.params, *case.found.workload.aliases)} | {"data"}
    for name, place in places.items():
        if name not in known:
            raise UserError(
                f"{place}: no case has such a parameter{did_you_mean(name, known)}; there is {one_of(sorted(known))}"
            )


def _parse_at(text: str, place: str) -> CaseId:
    try:
        return CaseId.parse(text)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def _cells_of(matrix: Mapping[str, Any], repeat: int | str | None, place: str) -> Iterator[CaseId]:
    """Every combination of the axes; an axis that is no id field is a parameter."""
    axes: dict[str, list[Any]] = {}
    for name, values in matrix.items():
        axes[name] = values if isinstance(values, list) else [values]
        if not axes[name]:
            raise UserError(f"{place}.matrix.{name}: an empty list makes no case")
        for position, value in enumerate(axes[name]):
            if not isinstance(value, str | int | float | bool):
                raise UserError(f"{place}.matrix.{name}[{position}]: expected a plain value; found {value!r}")
    for name in ("workload", "framework"):
        if name not in axes:
            raise UserError(f"{place}.matrix: `{name}` is missing; fields are {one_of(_AXES)}, others are parameters")
    axes = {"device": ["cpu"], "nodes": [1], "procs": [1], **axes}
    cells = 1
    for values in axes.values():
        cells *= len(values)
    if cells > MOST_CELLS:
        raise UserError(f"{place}.matrix: makes {cells} cases, allowed are {MOST_CELLS}")
    repeat = _checked_repeat(1 if repeat is None else repeat, f"{place}.repeat")
    for cell in itertools.product(*axes.values()):
        point = dict(zip(axes, cell, strict=True))
        head = ":".join(str(point.pop(name)) for name in _AXES)
        yield _parse_at(f"{head}:{repeat}", f"{place}.matrix").with_variant(
            {name: value_text(value) for name, value in point.items()}
        )


def _checked_repeat(value: int | str, place: str) -> int | str:
    if value != "auto" and (isinstance(value, str) or value < 1):
        raise UserError(f"{place}: found {value!r}, allowed is a whole number from 1, or `auto`")
    return value
