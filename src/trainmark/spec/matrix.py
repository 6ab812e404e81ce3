"""`matrix:` of a suite: every combination of its axes as a case."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from trainmark.errors import UserError, one_of
from trainmark.spec.case_id import CaseId, value_text

# A matrix with more cells than this is a slip of the pen, not a plan.
MOST_CELLS = 10_000


def parse_at(text: str, place: str) -> CaseId:
    try:
        return CaseId.parse(text)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


_AXES = ("workload", "framework", "device", "nodes", "procs")


def cells_of(matrix: Mapping[str, Any], repeat: int | str | None, place: str) -> Iterator[CaseId]:
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
    repeat = checked_repeat(1 if repeat is None else repeat, f"{place}.repeat")
    for cell in itertools.product(*axes.values()):
        point = dict(zip(axes, cell, strict=True))
        head = ":".join(str(point.pop(name)) for name in _AXES)
        yield parse_at(f"{head}:{repeat}", f"{place}.matrix").with_variant(
            {name: value_text(value) for name, value in point.items()}
        )


def checked_repeat(value: int | str, place: str) -> int | str:
    if value != "auto" and (isinstance(value, str) or value < 1):
        raise UserError(f"{place}: found {value!r}, allowed is a whole number from 1, or `auto`")
    return value
