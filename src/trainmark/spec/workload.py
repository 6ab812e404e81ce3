"""A workload: a folder with `workload.yaml` and one training program per framework."""

# Annotations are objects here, not text: msgspec would compile each text when the first record is read.
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import inputs, yamlfile
from trainmark.spec.case_id import Value, value_text
from trainmark.spec.yamlfile import convert

BUILT_IN = Path(__file__).resolve().parent.parent / "workloads"
ENTRY_POINTS = "trainmark.workloads"
# A year. Longer is a slip of the pen, and an infinite wait is none.
MOST_SECONDS = 366 * 86400


class Parameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One parameter of a workload: tunable unless `locked`."""

    type: Literal["int", "float", "str", "bool"]
    default: bool | int | float | str
    help: str = ""
    locked: bool = False
    min: float | None = None
    max: float | None = None
    choices: list[Value] = []
    # The frameworks whose programs know it, where not all do.
    only: list[str] = []

    def accept(self, value: Any, place: str) -> Value:
        """`value` (from YAML, or text from the command line) as this parameter's type, or an error."""
        good = self._typed(value)
        if good is None:
            raise UserError(f"{place}: found {value!r}, allowed is {self.allowed()}")
        outside = isinstance(good, int | float) and not isinstance(good, bool) and not self._inside(good)
        if outside or (self.choices and good not in self.choices):
            near = did_you_mean(str(value), self.choices) if self.choices else ""
            raise UserError(f"{place}: found {value!r}, allowed is {self.allowed()}{near}")
        return good

    def allowed(self) -> str:
        if self.choices:
            return "one of " + one_of(value_text(choice) for choice in self.choices)
        kind = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}[self.type]
        low = f" from {self.min:g}" if self.min is not None else ""
        high = f" to {self.max:g}" if self.max is not None else ""
        return kind + low + high

    def _inside(self, value: float) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def _typed(self, value: Any) -> Value | None:
        if isinstance(value, str) and self.type != "str":
            value = _from_text(value, self.type)
        if self.type == "bool":
            return value if isinstance(value, bool) else None
        if isinstance(value, bool):
            return None
        if self.type == "float" and isinstance(value, int | float):
            number = float(value)
            return number if number - number == 0 else None
        if self.type == "int":
            return value if isinstance(value, int) else None
        if self.type == "str":
            return value_text(value) if isinstance(value, str | int | float) else None
        return None


def _from_text(text: str, kind: str) -> Any:
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower())
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        return None


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The data a workload reads. `synthetic` is said in the result, never assumed silently."""

    kind: str
    default: str | None = None
    required: bool = True
    help: str = ""
    # How many the set has that the published training goes over: for an estimate of time.
    samples: int | None = None


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the trained model must reach."""

    metric: str
    value: float
    direction: Literal["up", "down"]


class Deadlines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds: to the first step, between two steps, for the whole round, to stop when asked."""

    start: float = 120.0
    step: float = 60.0
    total: float = 900.0
    stop: float = 10.0


USUAL_PRESET = "quick"
# The framework of every workload that is a command.
EXEC = "exec"


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`workload.yaml`, checked. It has either programs for frameworks (`entry`) or a `command`."""

    schema: Literal[1]
    name: str
    title: str
    unit: str
    entry: dict[str, str] = {}
    presets: dict[str, dict[str, Value]]
    # Presets that go on after their own steps until there is enough to measure; its programs can, if there are any.
    by_time: list[str] = []
    parameters: dict[str, Parameter] = {}
    # Other names that people know parameters by; results carry a parameter's own name.
    aliases: dict[str, str] = {}
    path: list[str] = []
    # Modules that its program for a framework imports beside the framework: looked for before anything is started.
    modules: dict[str, list[str]] = {}
    probe: bool = True
    flops_per_sample: float | None = None
    data: Data | None = None
    target: Target | None = None
    # Whether its loss, where no reference band applies, must at least end lower than it began.
    loss: Literal["falling"] | None = None
    # Whether a rank normalises by the statistics of its own samples: a band then holds for one size of a rank's batch.
    batch_statistics: bool = False
    devices: dict[str, dict[str, Value]] = {}
    deadlines: Deadlines = Deadlines()
    # A command of its own, where it runs, what else is in its environment, and how its output is read.
    command: list[str] = []
    cwd: str | None = None
    env: dict[str, str] = {}
    pattern: str | None = None

    @property
    def usual_preset(self) -> str:
        """The preset that an id means when it names none: `quick`, where there is one."""
        return USUAL_PRESET if USUAL_PRESET in self.presets else next(iter(self.presets), "")

    @property
    def frameworks(self) -> list[str]:
        return [EXEC] if self.command else list(self.entry)


class Found(msgspec.Struct, frozen=True):
    """A workload and the folder it was read from."""

    workload: Workload
    folder: Path


def read(folder: Path) -> Found:
    """The workload in `folder`, with its defaults, presets and device overrides checked."""
    file = folder / "workload.yaml"
    workload = convert(yamlfile.load(file), Workload, str(file))
    if workload.name != folder.name:
        raise UserError(f"{file}: name: found {workload.name!r}, but its folder is called `{folder.name}`")
    check_deadlines(msgspec.to_builtins(workload.deadlines), f"{file}: deadlines")
    for name, parameter in workload.parameters.items():
        parameter.accept(parameter.default, f"{file}: parameters.{name}.default")
        for framework in set(parameter.only) - set(workload.frameworks):
            known = workload.frameworks
            raise UserError(
                f"{file}: parameters.{name}.only: no entry for `{framework}`{did_you_mean(framework, known)}; "
                f"there is {one_of(known)}"
            )
    for name, own in workload.aliases.items():
        named_parameter(workload, own, f"{file}: aliases.{name}")
    for layer in ("presets", "devices"):
        for key, values in getattr(workload, layer).items():
            for name, value in values.items():
                parameter = named_parameter(workload, name, f"{file}: {layer}.{key}.{name}")
                parameter.accept(value, f"{file}: {layer}.{key}.{name}")
    for name in workload.by_time:
        if name not in workload.presets:
            raise UserError(f"{file}: by_time: no preset `{name}`{did_you_mean(name, workload.presets)}")
    if bool(workload.command) == bool(workload.entry):
        raise UserError(f"{file}: give either `entry:` or `command:`")
    for framework, script in workload.entry.items():
        if not inputs.is_file(folder / script):
            raise UserError(f"{file}: entry.{framework}: no such file `{script}`")
    return Found(workload, folder)


def check_deadlines(deadlines: Mapping[str, float], place: str) -> None:
    known = Deadlines.__struct_fields__
    for name, seconds in deadlines.items():
        if name not in known:
            raise UserError(f"{place}: unknown key `{name}`{did_you_mean(name, known)}; allowed: {one_of(known)}")
        if not 0 < seconds <= MOST_SECONDS:
            raise UserError(
                f"{place}.{name}: found {seconds!r}, allowed is a number of seconds from 0 to {MOST_SECONDS}"
            )


def named_parameter(workload: Workload, name: str, place: str) -> Parameter:
    if name not in workload.parameters:
        known = workload.parameters
        raise UserError(
            f"{place}: workload `{workload.name}` has no parameter `{name}`{did_you_mean(name, known)}; "
            f"it has {one_of(known)}"
        )
    return workload.parameters[name]


def find(name: str, extra: Sequence[Path], place: str) -> Found:
    """A workload by name: the suite's own folders first, then built-in ones, then installed plug-ins."""
    for folder in (*extra, BUILT_IN):
        # A suite may name the folder of a workload as well as the folder that holds it.
        for candidate in (folder / name, folder):
            if candidate.name == name and (candidate / "workload.yaml").is_file():
                return read(candidate)
    for folder in _plugin_folders():
        if folder.name == name:
            return read(folder)
    known = names(extra)
    raise UserError(f"{place}: no workload `{name}`{did_you_mean(name, known)}; there is {one_of(known)}")


def names(extra: Sequence[Path] = ()) -> list[str]:
    """All workloads that can be named."""
    folders = [file.parent for root in (*extra, BUILT_IN) for file in root.glob("*/workload.yaml")]
    return sorted({folder.name for folder in (*folders, *_plugin_folders())})


def _plugin_folders() -> Iterator[Path]:
    """Folders of third parties: an entry point of the group names a package that is a workload, or holds some."""
    from importlib.metadata import entry_points

    from trainmark.plugins import guarded

    for point in entry_points(group=ENTRY_POINTS):
        yield from guarded(partial(_folders_of, point), f"workload plug-in {point.name}") or ()


def _folders_of(point: Any) -> list[Path]:
    root = Path(point.load().__file__).parent
    folders = [root] if (root / "workload.yaml").is_file() else sorted(f.parent for f in root.glob("*/workload.yaml"))
    if not folders:
        raise UserError(f"there is no workload.yaml in {root}, nor in a folder of it")
    return folders
