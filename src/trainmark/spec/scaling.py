"""A scaling study: one case stretched over a grid of nodes and processes, batches and number formats.

`scaling:` in a suite, or in one of its cases. A study is made of series: the same batch and number format over the
whole grid, each with a baseline of its own, against which speed-ups are told.
"""

# Annotations are objects here, not text: msgspec would compile each text when the first record is read.
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError, one_of
from trainmark.reasons import Reason
from trainmark.spec.case_id import CaseId, Value
from trainmark.spec.notation import parse_size

DLPERF = ("1x1", "1x2", "1x4", "1x8", "2x8", "4x8")
# DLPerf looks for the largest batch in steps of so many.
BATCH_STEP = 32
_SHAPE = r"([1-9]\d{0,5})(?:x([1-9]\d{0,5})|n([1-9]\d{0,5})g)"
_MOST_SHAPES = 1000


class Scaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to vary. `batch` is per process when weak and of all processes together when strong."""

    grid: Any
    batch: list[int] | int | Literal["max"] | None = None
    dtype: list[str] | str | None = None
    mode: Literal["weak", "strong"] = "weak"
    baseline: str | None = None
    # Of `batch: max`: what batches are multiples of, and what each process may use of its host's memory.
    batch_step: int = BATCH_STEP
    memory: str | int | None = None


class Series(msgspec.Struct, frozen=True):
    """The row of a study that a case belongs to. `batch` and `dtype` are None where the preset decides."""

    name: str
    mode: str
    baseline: str
    batch: int | None = None
    dtype: str | None = None
    # How its batch was found; text in plans of older versions.
    note: Reason | str = ""


class Fitted(msgspec.Struct, frozen=True):
    """The largest batch that was found to fit, and how that is known."""

    batch: int
    note: Reason | str


class Wanted(msgspec.Struct, frozen=True):
    """A largest batch that has to be looked for, in this case (its batch is to be chosen)."""

    case: CaseId
    key: str
    place: str
    step: int
    memory: int | None


class Cell(msgspec.Struct, frozen=True):
    """One case of a study. `memory` is the limit of each process in bytes; 0: its share of the host; None: no limit."""

    case: CaseId
    series: Series | None = None
    memory: int | None = None


def check(scaling: Scaling, place: str) -> None:
    """Everything that can be wrong without knowing the case."""
    grid = shapes(scaling.grid, f"{place}.grid")
    if scaling.baseline is not None:
        wanted = _shape(scaling.baseline, f"{place}.baseline")
        if wanted not in grid:
            raise UserError(
                f"{place}.baseline: {_text(wanted)} is not in the grid, so no speed-up could be told; "
                f"the grid has {one_of(map(_text, grid))}"
            )
    for position, batch in enumerate(_batches(scaling)):
        if batch is not None and batch < 1:
            raise UserError(f"{place}.batch[{position}]: found {batch}, allowed is a whole number from 1, or `max`")
    for name, values in (("batch", scaling.batch), ("dtype", scaling.dtype)):
        if isinstance(values, list) and (not values or len(set(values)) < len(values)):
            raise UserError(f"{place}.{name}: found {values!r}, allowed is a list of different values")
    if scaling.batch_step < 1:
        raise UserError(f"{place}.batch_step: found {scaling.batch_step}, allowed is a whole number from 1")
    if scaling.memory is not None:
        parse_size(scaling.memory, f"{place}.memory")
        if scaling.batch != "max":
            raise UserError(
                f"{place}.memory is the limit under which `batch: max` is looked for; say that, or leave it"
            )
    if scaling.mode == "strong":
        _check_strong(scaling, grid, place)


def _check_strong(scaling: Scaling, grid: list[tuple[int, int]], place: str) -> None:
    if scaling.batch is None or scaling.batch == "max":
        raise UserError(f"{place}: with `mode: strong` give `batch` as numbers: what all processes train in a step")
    for batch in _batches(scaling):
        for nodes, procs in grid:
            if batch is not None and batch % (nodes * procs):
                raise UserError(
                    f"{place}.batch: {batch} cannot be shared by the {nodes * procs} processes of {nodes}x{procs} alike"
                )


def shapes(grid: Any, place: str) -> list[tuple[int, int]]:
    """Nodes and processes of each configuration, smallest first."""
    if isinstance(grid, dict):
        if set(grid) != {"nodes", "procs"}:
            raise UserError(f"{place}: expected `nodes` and `procs`, each a list; found {one_of(grid) or 'nothing'}")
        counts = [_counts(grid[name], f"{place}.{name}") for name in ("nodes", "procs")]
        found = [(nodes, procs) for nodes in counts[0] for procs in counts[1]]
    elif grid == "dlperf" or (isinstance(grid, list) and grid):
        found = [_shape(one, place) for one in (DLPERF if grid == "dlperf" else grid)]
    else:
        raise UserError(
            f"{place}: found {grid!r}, allowed is `dlperf` ({', '.join(DLPERF)}), a list such as [1x1, 1x2, 2x2], "
            "or {nodes: [1, 2], procs: [1, 2]}"
        )
    if len(found) > _MOST_SHAPES:
        raise UserError(f"{place}: {len(found)} configurations, allowed are {_MOST_SHAPES}")
    if len(set(found)) < len(found):
        raise UserError(f"{place}: a configuration is given twice")
    return sorted(found, key=lambda one: (one[0] * one[1], one))


def _counts(raw: Any, place: str) -> list[int]:
    values = raw if isinstance(raw, list) else [raw]
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(f"{place}: found {value!r}, allowed are whole numbers from 1")
    return values


def _shape(text: Any, place: str) -> tuple[int, int]:
    """`2x8`, or DLPerf's `2n8g`."""
    found = re.fullmatch(_SHAPE, text) if isinstance(text, str) else None
    if found is None:
        raise UserError(f"{place}: found {text!r}, allowed is nodes x processes, such as 2x8")
    return int(found[1]), int(found[2] or found[3])


def _text(shape: tuple[int, int]) -> str:
    return f"{shape[0]}x{shape[1]}"


def _batches(scaling: Scaling) -> list[int | None]:
    if scaling.batch is None or scaling.batch == "max":
        return [None]
    return list(scaling.batch) if isinstance(scaling.batch, list) else [int(scaling.batch)]


def _dtypes(scaling: Scaling) -> list[str | None]:
    if isinstance(scaling.dtype, list):
        return list(scaling.dtype)
    return [scaling.dtype]


def taken(scaling: Scaling) -> list[str]:
    """Parameters that the study varies; nobody else may set them."""
    return [name for name in ("batch", "dtype") if getattr(scaling, name) is not None]


def cells(scaling: Scaling, case: CaseId, place: str, fits: Mapping[str, Fitted]) -> Iterator[Cell]:
    """Every case of the study of one case."""
    _check_alone(scaling, case, place)
    grid = shapes(scaling.grid, f"{place}.scaling.grid")
    baseline = _text(grid[0]) if scaling.baseline is None else _text(_shape(scaling.baseline, place))
    for dtype in _dtypes(scaling):
        for batch in _batches(scaling):
            fitted = _fitted(scaling, case, dtype, place, fits)
            given = fitted.batch if fitted else batch
            note: Reason | str = fitted.note if fitted else ""
            series = Series(_name(case, scaling, given, dtype), scaling.mode, baseline, given, dtype, note)
            for nodes, procs in grid:
                own = given // (nodes * procs) if given is not None and scaling.mode == "strong" else given
                memory = _memory(scaling, case) if fitted else None
                yield Cell(_at(case, nodes, procs, own, dtype), series, memory)


def wanted(scaling: Scaling, case: CaseId, place: str) -> Iterator[Wanted]:
    """The largest batches that a study needs to know: where most processes share a node, once for each format."""
    _check_alone(scaling, case, place)
    if scaling.batch == "max":
        grid = shapes(scaling.grid, f"{place}.scaling.grid")
        nodes, procs = max((shape for shape in grid if shape[0] == grid[0][0]), key=lambda shape: shape[1])
        for dtype in _dtypes(scaling):
            tried = _at(case, nodes, procs, None, dtype)
            yield Wanted(tried, fit_key(case, dtype), place, scaling.batch_step, _memory(scaling, case))


def _memory(scaling: Scaling, case: CaseId) -> int | None:
    """Devices have a memory of their own, which ends by itself; what they map would count against a limit here."""
    if scaling.memory is not None:
        return parse_size(scaling.memory, "memory")
    return 0 if case.device == "cpu" else None


def _check_alone(scaling: Scaling, case: CaseId, place: str) -> None:
    if (case.nnodes, case.nproc) != (1, 1):
        raise UserError(f"{place}: `{case}`: the grid says how many nodes and processes; write 1:1 in the id")
    for name in taken(scaling):
        if name in dict(case.variant):
            raise UserError(f"{place}: `{case}` says `{name}`, which the study varies; leave it out in one of them")


def _fitted(scaling: Scaling, case: CaseId, dtype: str | None, place: str, fits: Mapping[str, Fitted]) -> Fitted | None:
    if scaling.batch != "max":
        return None
    key = fit_key(case, dtype)
    if key not in fits:
        raise UserError(
            f"{place}: `batch: max` is found by trying, which only `trainmark run` does; give numbers to see the plan"
        )
    return fits[key]


def fit_key(case: CaseId, dtype: str | None) -> str:
    return _at(case, 1, 1, None, dtype).identity


def _at(case: CaseId, nodes: int, procs: int, batch: int | None, dtype: str | None) -> CaseId:
    varied = {"batch": batch, "dtype": dtype}
    variant: dict[str, Value] = {
        **dict(case.variant),
        **{name: value for name, value in varied.items() if value is not None},
    }
    return msgspec.structs.replace(case, nnodes=nodes, nproc=procs).with_variant(variant)


def _name(case: CaseId, scaling: Scaling, batch: int | None, dtype: str | None) -> str:
    """What a reader calls the series."""
    parts = [case.workload, case.framework_text, case.device]
    if batch is not None:
        parts.append(f"batch {batch}" + (" in all" if scaling.mode == "strong" else ""))
    parts += [dtype] if dtype else []
    return " ".join([*parts, *(f"{key}={value}" for key, value in case.variant)])
