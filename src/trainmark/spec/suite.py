"""A suite: which cases, how often, under which rules. `expand` makes its cases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import repeats, yamlfile
from trainmark.spec import workload as workloads
from trainmark.spec.case import Case, Layer, resolve
from trainmark.spec.case_id import AUTO, SHAPE, CaseId, Value, is_name, value_text
from trainmark.spec.convert import convert
from trainmark.spec.repeats import RepeatAuto
from trainmark.spec.site import Site
from trainmark.spec.window import FixedWindow
from trainmark.spec.window import check as check_window
from trainmark.spec.workload import check_deadlines

BUILT_IN = Path(__file__).resolve().parent.parent / "suites"

# The name is part of every run id.
LONGEST_NAME = 64
# A matrix with more cells than this is a slip of the pen, not a plan.
MOST_CELLS = 10_000


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
    # Which steps count, for comparison with other benchmarks; without it the steady ones are looked for.
    window: FixedWindow | None = None


class Loaded(msgspec.Struct, frozen=True):
    """A suite, the file it came from, and the folders of its own workloads.

    `cwd` is where the command line was, for a command that was given there.
    """

    suite: Suite
    file: Path
    folders: tuple[Path, ...] = ()
    cwd: Path | None = None


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
    suite = Suite(schema=1, name=CaseId.parse(case_text).workload, cases=[case_text], preset=preset)
    return Loaded(suite, Path("command line"))


def of_command(item: dict[str, Any], cwd: Path) -> Loaded:
    """A suite of one command given on the command line."""
    from trainmark.spec import command as commands

    name = item.get("name") or commands.default_name(item["command"])
    suite = Suite(schema=1, name=name, cases=[item], preset="full")
    return Loaded(suite, Path("command line"), cwd=cwd)


def expand(loaded: Loaded, site: Site, overrides: Mapping[str, str]) -> list[Case]:
    """Every case of the suite, settled. No two share an identity."""
    cases: list[Case] = []
    places: dict[str, str] = {}
    found_cache: dict[str, workloads.Found] = {}
    for place, case_id, entry, own in _entries(loaded):
        if own is None and case_id.workload not in found_cache:
            found_cache[case_id.workload] = workloads.find(case_id.workload, loaded.folders, place)
        case = _settle(loaded, site, overrides, own or found_cache[case_id.workload], place, case_id, entry)
        identity = case.id.identity
        if identity in places:
            raise UserError(
                f"{place}: `{case.id}` is the same case as {places[identity]}; "
                "a case stands once in a suite, `repeat` says how often it runs"
            )
        places[identity] = place
        cases.append(case)
    if not cases:
        raise UserError(f"{loaded.file}: cases: none given; write at least one {SHAPE}")
    _check_used(cases, loaded.suite.set, f"{loaded.file}: set.")
    _check_used(cases, overrides, "--set ")
    return cases


def _settle(
    loaded: Loaded,
    site: Site,
    overrides: Mapping[str, str],
    found: workloads.Found,
    place: str,
    case_id: CaseId,
    entry: Entry,
) -> Case:
    suite = loaded.suite
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
    return msgspec.structs.replace(case, window=suite.window)


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
    entry = Entry(deadlines=given.deadlines, repeat=given.repeat)
    case_id = commands.case_id(given, found.workload.name, place)
    if given.matrix is None:
        yield place, case_id, entry, found
        return
    axes = {"device": given.device, "nodes": given.nnodes, "procs": given.nproc, **given.matrix}
    matrix = {**axes, "workload": case_id.workload, "framework": workloads.EXEC}
    for cell in _matrix(msgspec.structs.replace(entry, matrix=matrix), place):
        yield f"{place}.matrix", cell, entry, found


def _from_item(file: str, path: str, item: Any) -> Iterator[_Item]:
    place = f"{file}: {path}"
    if isinstance(item, str):
        yield place, _parse(item, place), Entry(), None
        return
    if not isinstance(item, dict):
        raise UserError(f"{place}: expected a case id or a mapping; found {item!r}")
    if len(item) == 1 and ":" in str(next(iter(item))):
        yield from _from_pair(place, *next(iter(item.items())))
        return
    entry = convert(item, Entry, file, path)
    check_deadlines(entry.deadlines, f"{place}.deadlines")
    if (entry.case is None) == (entry.matrix is None):
        raise UserError(f"{place}: give either `case:` or `matrix:`")
    if entry.case is not None:
        case_id = _parse(entry.case, f"{place}.case")
        if entry.repeat is not None:
            case_id = msgspec.structs.replace(case_id, repeat=_repeat(entry.repeat, f"{place}.repeat"))
        yield f"{place}.case", case_id, entry, None
        return
    for case_id in _matrix(entry, place):
        yield f"{place}.matrix", case_id, entry, None


def _from_pair(place: str, key: Any, value: Any) -> Iterator[_Item]:
    if value is not None and not isinstance(value, str):
        raise UserError(f"{place}: expected the path of its data; found {value!r}")
    yield place, _parse(str(key), place), Entry(data=value or None), None


def _parse(text: str, place: str) -> CaseId:
    try:
        return CaseId.parse(text)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


_AXES = ("workload", "framework", "device", "nodes", "procs")


def _matrix(entry: Entry, place: str) -> Iterator[CaseId]:
    """Every combination of the axes; an axis that is no id field is a parameter."""
    axes: dict[str, list[Any]] = {}
    for name, values in (entry.matrix or {}).items():
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
    repeat = _repeat(1 if entry.repeat is None else entry.repeat, f"{place}.repeat")
    for cell in itertools.product(*axes.values()):
        point = dict(zip(axes, cell, strict=True))
        head = ":".join(str(point.pop(name)) for name in _AXES)
        yield _parse(f"{head}:{repeat}", f"{place}.matrix").with_variant(
            {name: value_text(value) for name, value in point.items()}
        )


def _repeat(value: int | str, place: str) -> int | str:
    if value != "auto" and (isinstance(value, str) or value < 1):
        raise UserError(f"{place}: found {value!r}, allowed is a whole number from 1, or `auto`")
    return value


def _check_used(cases: list[Case], values: Mapping[str, Any], place: str) -> None:
    known = {name for case in cases for name in (*case.params, *case.found.workload.aliases)} | {"data"}
    for name in values:
        if name not in known:
            raise UserError(
                f"{place}{name}: no case has such a parameter{did_you_mean(name, known)}; "
                f"there is {one_of(sorted(known))}"
            )
