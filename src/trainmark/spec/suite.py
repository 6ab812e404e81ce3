"""A suite: which cases, how often, under which rules. `suite_cases.expand` makes its cases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import inputs, scaling, yamlfile
from trainmark.spec import workload as workloads
from trainmark.spec.case_id import CaseId, Value, is_name
from trainmark.spec.length import check_seconds
from trainmark.spec.rules import FixedWindow, RepeatAuto, check_repeat_auto, check_window
from trainmark.spec.scaling import Scaling
from trainmark.spec.site import LogLevel
from trainmark.spec.workload import Workload, check_deadlines
from trainmark.spec.yamlfile import Location, convert

BUILT_IN = Path(__file__).resolve().parent.parent / "suites"

# The name is part of every run id.
LONGEST_NAME = 64
COMMAND_LINE = Location("command line")


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`suite.yaml`, its own keys checked; `cases` is read by `expand`."""

    cases: Any
    schema: Literal[1] = 1
    # Part of every run id; without it the name of the file.
    name: str = ""
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
    # Seconds that each round shall measure; without it what the preset does.
    seconds: float | None = None
    # Seconds for the whole run: when they are used up, a case that has a result gets no further round.
    within: float | None = None
    # Every case is studied over a grid of nodes and processes; a case may say otherwise for itself.
    scaling: Scaling | None = None


class Loaded(msgspec.Struct, frozen=True):
    """A suite, where it was written, and the folders of its own workloads.

    `cwd` is where the command line was, for a command that was given there.
    """

    suite: Suite
    where: Location
    folders: tuple[Path, ...] = ()
    cwd: Path | None = None
    # As `Suite.seconds`, from the command line: stands above what the suite and its cases say.
    seconds: float | None = None
    # Largest batches that were found, where a study asks for them.
    fits: dict[str, scaling.Fitted] = {}

    @property
    def file(self) -> Path:
        return Path(self.where.file)


def find(name: str) -> Path:
    """A suite by path, or a built-in one by name."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return Path(name)
    file = BUILT_IN / f"{name}.yaml"
    if not file.is_file():
        known = built_in_names()
        if (workload := _workload(name)) is not None:
            raise UserError(
                f"`{name}` is a workload, not a suite; one case of it is "
                f"`{name}:{workload.frameworks[0]}:cpu:1:1:3` (framework, device, nodes, processes, rounds)"
            )
        raise UserError(
            f"no built-in suite `{name}`{did_you_mean(name, known)}; there is {one_of(known)}, "
            "or give the path of a YAML file"
        )
    return file


def _workload(name: str) -> Workload | None:
    folder = workloads.BUILT_IN / name
    return workloads.read(folder).workload if is_name(name) and (folder / "workload.yaml").is_file() else None


def built_in_names() -> list[str]:
    return sorted(file.stem for file in BUILT_IN.glob("*.yaml"))


def load(file: Path) -> Loaded:
    source = yamlfile.read(file)
    return of_content(source.content, source.where, _name_of(file))


def of_content(content: Any, where: Location, name: str) -> Loaded:
    """A suite of what a YAML file holds, or of the same made in Python; paths in it are relative to the folder of
    `where`, and `name` is its name if it says none."""
    suite = convert(content, Suite, where)
    if not suite.name:
        suite = msgspec.structs.replace(suite, name=name)
    check_deadlines(suite.deadlines, str(where.at("deadlines")))
    check_window(suite.window, str(where.at("window")))
    for name in ("seconds", "within"):
        check_seconds(getattr(suite, name), str(where.at(name)))
    if suite.seconds is not None and suite.window is not None:
        raise UserError(f"{where.at('seconds')}: a suite with a fixed `window` makes its steps; leave one of them out")
    if suite.scaling is not None:
        scaling.check(suite.scaling, str(where.at("scaling")))
    if not is_name(suite.name) or len(suite.name) > LONGEST_NAME:
        raise UserError(
            f"{where.at('name')}: found {suite.name!r}, allowed are up to {LONGEST_NAME} letters, digits, `.`, `_`, `-`"
        )
    if suite.retries < 0:
        raise UserError(f"{where.at('retries')}: found {suite.retries}, allowed is 0 and more")
    check_repeat_auto(suite.repeat_auto, str(where.at("repeat_auto")))
    named = [inputs.expanded(name, str(where.at("workloads", at))) for at, name in enumerate(suite.workloads)]
    folders = tuple((Path(where.file).parent / folder).resolve() for folder in named)
    for position, folder in enumerate(folders):
        if not inputs.is_folder(folder):
            raise UserError(f"{where.at('workloads', position)}: no such folder {inputs.shown(folder, 200)}")
    return Loaded(suite, where, folders)


def _name_of(file: Path) -> str:
    """A name for a suite that has none: its file's, in the letters that a name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-.")[:LONGEST_NAME] or "suite"


def measured_for(loaded: Loaded, seconds: float) -> Loaded:
    """The suite with `seconds` of measurement in each round, whatever it says itself."""
    check_seconds(seconds, "--seconds")
    if loaded.suite.window is not None:
        raise UserError(f"--seconds: suite `{loaded.suite.name}` has a fixed `window` and makes its steps")
    return msgspec.structs.replace(loaded, seconds=seconds)


def stretched(loaded: Loaded, grid: str) -> Loaded:
    """The suite as a scaling study over `grid`: `1n1g,1n2g,2n2g`, or `1x1,1x2,2x2`, or `dlperf`."""
    if loaded.suite.scaling is not None:
        raise UserError(f"--grid: suite `{loaded.suite.name}` has a `scaling` of its own; leave one of them out")
    found = Scaling(grid=grid if grid == "dlperf" else [part.strip() for part in grid.split(",")])
    scaling.check(found, "--grid")
    return msgspec.structs.replace(loaded, suite=msgspec.structs.replace(loaded.suite, scaling=found))


def single(case_text: str, preset: str) -> Loaded:
    """A suite of one case given on the command line."""
    return named(CaseId.parse(case_text).workload, [case_text], preset)


def named(name: str, cases: list[str], preset: str) -> Loaded:
    """A suite that no file holds."""
    return Loaded(Suite(name=name, cases=[*cases], preset=preset), COMMAND_LINE)


def of_command(item: dict[str, Any], cwd: Path) -> Loaded:
    """A suite of one command given on the command line."""
    from trainmark.spec import command as commands

    name = item.get("name") or commands.default_name(item["command"])
    suite = Suite(name=name, cases=[item], preset="full")
    return Loaded(suite, COMMAND_LINE, cwd=cwd)
