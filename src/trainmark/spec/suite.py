"""A suite: which cases, how often, under which rules. `expand` makes its cases."""

# Annotations are objects here, not text: msgspec would compile each text when the first record is read.
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import repeats, scaling, yamlfile
from trainmark.spec import workload as workloads
from trainmark.spec.case import Case, Layer, resolve
from trainmark.spec.case_id import AUTO, SHAPE, CaseId, Value, is_name
from trainmark.spec.convert import convert
from trainmark.spec.matrix import cells_of, checked_repeat, parse_at
from trainmark.spec.repeats import RepeatAuto
from trainmark.spec.scaling import Cell, Scaling
from trainmark.spec.site import LogLevel, Site
from trainmark.spec.window import FixedWindow
from trainmark.spec.window import check as check_window
from trainmark.spec.workload import check_deadlines

BUILT_IN = Path(__file__).resolve().parent.parent / "suites"

# The name is part of every run id.
LONGEST_NAME = 64


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`suite.yaml`, its own keys checked; `cases` is read by `expand`."""

    schema: Literal[1]
    name: str
    cases: Any
    title: str = ""
    preset: str = "quick"
    division: Literal["closed", "open"] = "closed"
    seed: int | None = None
    retries: int = 1
    repeat_auto: RepeatAuto = RepeatAuto()
    set: dict[str, Value] = {}
    deadlines: dict[str, float] = {}
    workloads: list[str] = []
    # How much the libraries below say; stands above the site's, below a case's own.
    log_level: LogLevel | None = None
    # Which steps count, for comparison with other benchmarks; without it the steady ones are looked for.
    window: FixedWindow | None = None
    # Every case is studied over a grid of nodes and processes; a case may say otherwise for itself.
    scaling: Scaling | None = None


class Loaded(msgspec.Struct, frozen=True):
    """A suite, the file it came from, and the folders of its own workloads.

    `cwd` is where the command line was, for a command that was given there.
    """

    suite: Suite
    file: Path
    folders: tuple[Path, ...] = ()
    cwd: Path | None = None
    # Largest batches that were found, where a study asks for them.
    fits: dict[str, scaling.Fitted] = {}


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
    scaling: Scaling | None = None


def find(name: str) -> Path:
    """A suite by path, or a built-in one by name."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return Path(name)
    file = BUILT_IN / f"{name}.yaml"
    if not file.is_file():
        known = built_in_names()
        raise UserError(
            f"no built-in suite `{name}`{did_you_mean(name, known)}; there is {one_of(known)}, "
            "or give the path of a YAML file"
        )
    return file


def built_in_names() -> list[str]:
    return sorted(file.stem for file in BUILT_IN.glob("*.yaml"))


def load(file: Path) -> Loaded:
    suite = convert(yamlfile.load(file), Suite, str(file))
    check_deadlines(suite.deadlines, f"{file}: deadlines")
    check_window(suite.window, f"{file}: window")
    if suite.scaling is not None:
        scaling.check(suite.scaling, f"{file}: scaling")
    if not is_name(suite.name) or len(suite.name) > LONGEST_NAME:
        raise UserError(
            f"{file}: name: found {suite.name!r}, allowed are up to {LONGEST_NAME} letters, digits, `.`, `_`, `-`"
        )
    if suite.retries < 0:
        raise UserError(f"{file}: retries: found {suite.retries}, allowed is 0 and more")
    repeats.check(suite.repeat_auto, f"{file}: repeat_auto")
    folders = tuple((file.parent / folder).resolve() for folder in suite.workloads)
    for position, folder in enumerate(folders):
        if not folder.is_dir():
            raise UserError(f"{file}: workloads[{position}]: no such folder `{folder}`")
    return Loaded(suite, file, folders)


def single(case_text: str, preset: str) -> Loaded:
    """A suite of one case given on the command line."""
    return named(CaseId.parse(case_text).workload, [case_text], preset)


def named(name: str, cases: list[str], preset: str) -> Loaded:
    """A suite that no file holds."""
    return Loaded(Suite(schema=1, name=name, cases=[*cases], preset=preset), Path("command line"))


def of_command(item: dict[str, Any], cwd: Path) -> Loaded:
    """A suite of one command given on the command line."""
    from trainmark.spec import command as commands

    name = item.get("name") or commands.default_name(item["command"])
    suite = Suite(schema=1, name=name, cases=[item], preset="full")
    return Loaded(suite, Path("command line"), cwd=cwd)


def expand(loaded: Loaded, site: Site, overrides: Mapping[str, str]) -> list[Case]:
    """Every case of the suite, settled. No two share an identity."""
    cases: dict[str, Case] = {}
    places: dict[str, str] = {}
    found_cache: dict[str, workloads.Found] = {}
    for place, case_id, entry, own in _entries(loaded):
        if own is None and case_id.workload not in found_cache:
            found_cache[case_id.workload] = workloads.find(case_id.workload, loaded.folders, place)
        found = own or found_cache[case_id.workload]
        for cell in _cells(loaded, overrides, place, case_id, entry):
            case = _settle(loaded, site, overrides, found, place, cell, entry)
            identity = case.id.identity
            if identity in places:
                case = _shared(cases[identity], case, place, places[identity])
            places[identity] = place
            cases[identity] = case
    if not cases:
        raise UserError(f"{loaded.file}: cases: none given; write at least one {SHAPE}")
    made = list(cases.values())
    _check_used(made, loaded.suite.set, f"{loaded.file}: set.")
    _check_used(made, overrides, "--set ")
    return made


def wanted_batches(loaded: Loaded) -> list[scaling.Wanted]:
    """The largest batches that have to be found before the cases are known."""
    found: dict[str, scaling.Wanted] = {}
    raw = loaded.suite.cases
    own = [item for item in raw if isinstance(item, dict) and "scaling" in item] if isinstance(raw, list) else []
    if loaded.suite.scaling is None and not own:
        return []  # as nearly always
    for place, case_id, entry, _ in _entries(loaded):
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
    known = {"data", *found.workload.parameters, *found.workload.aliases}
    layers = [
        # What the suite and the command line say is for every case that has such a parameter.
        Layer("suite", {k: v for k, v in suite.set.items() if k in known}, f"{loaded.file}: set"),
        Layer("case", dict(case_id.variant), f"{place} `{case_id}`"),
        Layer("case", entry.set, f"{place}.set"),
        Layer("--set", {k: v for k, v in overrides.items() if k in known}, "--set"),
    ]
    case = resolve(
        case_id,
        found,
        site.devices.get(case_id.device, case_id.device),
        entry.preset or suite.preset,
        suite.division,
        layers,
        place=place,
        data=entry.data,
        checkpoint=entry.checkpoint,
        deadlines={**suite.deadlines, **entry.deadlines},
        auto=suite.repeat_auto if case_id.repeat == AUTO else None,
    )
    level = entry.log_level or suite.log_level or site.log_level
    studies = () if cell.series is None else (cell.series,)
    return msgspec.structs.replace(case, window=suite.window, log_level=level, studies=studies, memory=cell.memory)


# Where a case stands, its id, what else is said there, and its workload if that is said there too.
_Item = tuple[str, CaseId, Entry, workloads.Found | None]


def _entries(loaded: Loaded) -> Iterator[_Item]:
    """Every case, whichever of the five spellings was used."""
    raw, file = loaded.suite.cases, loaded.file
    if isinstance(raw, dict):  # FlagPerf's CASES: key → data path
        for key, value in raw.items():
            yield from _from_pair(f"{file}: cases[{key}]", key, value)
    elif isinstance(raw, list):
        for position, item in enumerate(raw):
            if isinstance(item, dict) and "command" in item:
                yield from _from_command(loaded, f"cases[{position}]", item)
            else:
                yield from _from_item(str(file), f"cases[{position}]", item)
    else:
        raise UserError(f"{file}: cases: expected a list of cases or a mapping `case: data path`; found {raw!r}")


def _from_command(loaded: Loaded, path: str, item: dict[str, Any]) -> Iterator[_Item]:
    """A command is a workload of its own, and a matrix varies its parameters."""
    from trainmark.spec import command as commands  # few suites have one

    file, place = loaded.file, f"{loaded.file}: {path}"
    given = convert(item, commands.CommandEntry, str(file), path)
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
    for cell in cells_of(matrix, entry.repeat, place):
        yield f"{place}.matrix", cell, entry, found


def _from_item(file: str, path: str, item: Any) -> Iterator[_Item]:
    place = f"{file}: {path}"
    if isinstance(item, str):
        yield place, parse_at(item, place), Entry(), None
        return
    if not isinstance(item, dict):
        raise UserError(f"{place}: expected a case id or a mapping; found {item!r}")
    if len(item) == 1 and ":" in str(next(iter(item))):
        yield from _from_pair(place, *next(iter(item.items())))
        return
    entry = convert(item, Entry, file, path)
    check_deadlines(entry.deadlines, f"{place}.deadlines")
    if entry.scaling is not None:
        scaling.check(entry.scaling, f"{place}.scaling")
    if (entry.case is None) == (entry.matrix is None):
        raise UserError(f"{place}: give either `case:` or `matrix:`")
    if entry.case is not None:
        case_id = parse_at(entry.case, f"{place}.case")
        if entry.repeat is not None:
            case_id = msgspec.structs.replace(case_id, repeat=checked_repeat(entry.repeat, f"{place}.repeat"))
        yield f"{place}.case", case_id, entry, None
        return
    for case_id in cells_of(entry.matrix or {}, entry.repeat, place):
        yield f"{place}.matrix", case_id, entry, None


def _from_pair(place: str, key: Any, value: Any) -> Iterator[_Item]:
    if value is not None and not isinstance(value, str):
        raise UserError(f"{place}: expected the path of its data; found {value!r}")
    yield place, parse_at(str(key), place), Entry(data=value or None), None


def _check_used(cases: list[Case], values: Mapping[str, Any], place: str) -> None:
    known = {name for case in cases for name in (*case.params, *case.found.workload.aliases)} | {"data"}
    for name in values:
        if name not in known:
            raise UserError(
                f"{place}{name}: no case has such a parameter{did_you_mean(name, known)}; "
                f"there is {one_of(sorted(known))}"
            )
