"""One case with every value settled: the layers, in order, and where each value came from.

Layers, weakest first: the workload's defaults < its preset < its device override < the suite's `set` < the case
itself (variant, matrix, its own `set`) < `--set` on the command line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from trainmark.agent import secrets as shapes
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import length as lengths
from trainmark.spec.case_id import CaseId, Value
from trainmark.spec.length import Length
from trainmark.spec.rules import FixedWindow, RepeatAuto
from trainmark.spec.scaling import Series
from trainmark.spec.workload import Deadlines, Found, named_parameter

# Settled like parameters, but every workload has them.
DATA_KEY = "data"
# In the variant of an id: the preset, unless it is the usual one.
PRESET_KEY = "preset"
# Data made up by the workload: good for speed, said in the result.
SYNTHETIC = "synthetic"
# The size that people train in earnest, the parameter of the number format, and what each framework's programs train
# in there on an accelerator unless something else is said. MindSpore's have no bf16.
FULL, DTYPE = "full", "dtype"
NARROW = {"pytorch": "bf16", "jax": "bf16", "tensorflow": "bf16", "mindspore": "fp16"}
# Stands in ids, and so in names of folders, for values that look like secrets.
HIDDEN = "hidden"


class Layer(msgspec.Struct, frozen=True):
    """Values given in one place, and the name of that place for messages and `explain`."""

    origin: str
    values: Mapping[str, Any]
    place: str


class Setting(msgspec.Struct, frozen=True):
    value: Value
    origin: str


class Case(msgspec.Struct, frozen=True):
    """A case, ready to be planned."""

    id: CaseId
    found: Found
    vendor: str
    preset: str
    division: str
    params: dict[str, Setting]
    data: str | None
    checkpoint: str | None
    deadlines: Deadlines
    opened: tuple[str, ...]
    auto: RepeatAuto | None = None
    window: FixedWindow | None = None
    # What libraries say is no part of what is measured, so it is no part of the fingerprint.
    log_level: str | None = None
    # How long its rounds train; None: the steps of its parameters. As with the number of rounds, longer is not other.
    length: Length | None = None
    # The series of scaling studies it belongs to, and the memory each of its processes may use (see `scaling.Cell`).
    studies: tuple[Series, ...] = ()
    memory: int | None = None

    @property
    def values(self) -> dict[str, Value]:
        return {name: setting.value for name, setting in self.params.items()}

    @property
    def fingerprint(self) -> str:
        """A hash of the whole resolved configuration; cases with one fingerprint are alike in every value."""
        resolved: dict[str, Any] = {
            "identity": self.id.identity,
            "vendor": self.vendor,
            "preset": self.preset,
            "division": self.division,
            "params": self.values,
            "data": self.data,
            "checkpoint": self.checkpoint,
            "workload": msgspec.to_builtins(self.found.workload),
        }
        if not self.found.workload.aliases:
            del resolved["workload"]["aliases"]  # fingerprints are older than aliases
        for parameter in resolved["workload"]["parameters"].values():
            del parameter["only"]  # who may not change it is no part of what is measured
        # How long to train, and what a loss is held against.
        del resolved["workload"]["by_time"], resolved["workload"]["batch_statistics"]
        if self.window is not None:
            resolved["window"] = msgspec.to_builtins(self.window)
        known: dict[str, str] = {}
        resolved["workload"]["command"] = shapes.masked(self.found.workload.command, known)
        for name, value in (*self.values.items(), (DATA_KEY, self.data)):
            if shapes.secret_setting(name, value):
                shapes.mask(str(value), known)
        if known:  # another secret is not another case, and a hash of a short one would tell it
            resolved = _without(resolved, known)
        return hashlib.sha256(msgspec.json.encode(resolved, order="deterministic")).hexdigest()[:16]


def _without(value: Any, known: Mapping[str, str]) -> Any:
    """Plain data without these secrets."""
    if isinstance(value, dict):
        return {name: _without(one, known) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, known) for one in value]
    return shapes.without(value, known) if isinstance(value, str) else value


def resolve(
    case_id: CaseId,
    found: Found,
    vendor: str,
    preset: str,
    division: str,
    layers: list[Layer],
    *,
    place: str,
    data: str | None = None,
    checkpoint: str | None = None,
    deadlines: Mapping[str, float] | None = None,
    auto: RepeatAuto | None = None,
    window: FixedWindow | None = None,
    seconds: float | None = None,
    within: float | None = None,
) -> Case:
    """Settle all layers. The id that comes back lists exactly what differs from what a bare id would mean."""
    workload = found.workload
    if case_id.framework not in workload.frameworks:
        known = workload.frameworks
        raise UserError(
            f"{place}: workload `{workload.name}` has no entry for framework `{case_id.framework}`"
            f"{did_you_mean(case_id.framework, known)}; it has {one_of(known)}"
        )
    if preset not in workload.presets:
        known_presets = workload.presets
        raise UserError(
            f"{place}: workload `{workload.name}` has no preset `{preset}`{did_you_mean(preset, known_presets)}; "
            f"it has {one_of(known_presets)}"
        )
    base = _base(found, vendor, preset, case_id.framework)
    params = dict(base)
    chosen_data, named_data = data, None
    for layer in layers:
        for given, raw in layer.values.items():
            name = workload.aliases.get(given, given)
            if name == DATA_KEY and name not in workload.parameters:
                chosen_data = named_data = str(raw)
                continue
            parameter = named_parameter(workload, name, layer.place)
            params[name] = Setting(parameter.accept(raw, f"{layer.place}: {name}"), layer.origin)
    changed = {name: params[name].value for name in params if params[name].value != base[name].value}
    opened = tuple(sorted(name for name in changed if workload.parameters[name].locked))
    if opened and division != "open":
        raise UserError(
            f"{place}: `{opened[0]}` is locked at {base[opened[0]].value!r} so that results can be compared; "
            "say `division: open` in the suite to change it"
        )
    for name in changed:
        only = workload.parameters[name].only
        if only and case_id.framework not in only:
            raise UserError(
                f"{place}: `{name}` of workload `{workload.name}` is for {one_of(only)}, "
                f"and the case's framework is `{case_id.framework}`; leave it out"
            )
    variant: dict[str, Value] = dict(changed)
    # A preset is a size of the model: results of different ones have nothing to do with each other.
    if preset != workload.usual_preset and not workload.command:
        variant[PRESET_KEY] = preset
    if named_data is not None and not (workload.data and named_data == workload.data.default):
        variant[DATA_KEY] = named_data
    limits = msgspec.structs.replace(workload.deadlines, **dict(deadlines or {}))
    said = [name for name, setting in params.items() if setting.origin != base[name].origin]
    length = lengths.settle(workload, preset, said, seconds, window, limits, within)
    return Case(
        id=case_id.with_variant({name: HIDDEN if shapes.secret_setting(name, v) else v for name, v in variant.items()}),
        found=found,
        vendor=vendor,
        preset=preset,
        division=division,
        params=params,
        data=chosen_data if chosen_data is not None else (workload.data.default if workload.data else None),
        checkpoint=checkpoint,
        deadlines=lengths.fitting(limits, length, deadlines or {}, place),
        opened=opened,
        auto=auto,
        window=window,
        length=length,
    )


def _base(found: Found, vendor: str, preset: str, framework: str) -> dict[str, Setting]:
    """What a bare id means: defaults, preset, device override; in full size, accelerators train in a narrow format."""
    workload = found.workload
    params = {name: Setting(parameter.default, "default") for name, parameter in workload.parameters.items()}
    for origin, values in (
        (f"preset {preset}", workload.presets[preset]),
        (f"device {vendor}", workload.devices.get(vendor, {})),
    ):
        for name, value in values.items():
            params[name] = Setting(workload.parameters[name].accept(value, origin), origin)
    narrow = NARROW.get(framework)
    offered = workload.parameters[DTYPE].choices if DTYPE in params and params[DTYPE].origin == "default" else None
    if preset == FULL and vendor != "cpu" and narrow in (offered or ()):
        params[DTYPE] = Setting(str(narrow), f"preset {preset} on an accelerator")
    return params
