"""Values of a foreign JSON file, each checked before anything is made of it."""

from __future__ import annotations

from typing import Any

from trainmark.automl.graph.graph import ADD, CONCAT, DROPOUT, NONE, OPS
from trainmark.errors import UserError


def ends(op: int, inputs: list[int], place: str) -> tuple[int, int]:
    wanted = 2 if op in (ADD, CONCAT) else 1
    if len(inputs) != wanted:
        raise UserError(f"{place}: `{OPS[op]}` reads {wanted}, found {len(inputs)} inputs")
    return inputs[0], inputs[1] if wanted == 2 else NONE


def setting(op: int, value: Any, place: str) -> int:
    return _millionths(value, place) if op == DROPOUT else whole(value, place)


def _millionths(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise UserError(f"{place}: found {short(value)}; allowed is a rate from 0 to below 1")
    return min(round(value * 1e6), 999_999)


def whole(value: Any, place: str) -> int:
    """A whole number; a float that is one counts, as NNI writes some."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{place}: found {short(value)}; a whole number is needed")
    return value


def as_list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise UserError(f"{place}: expected a list, found {kind(value)}")
    return value


def as_shape(value: Any, place: str) -> tuple[int, ...]:
    return tuple(whole(side, place) for side in as_list(value, place)[:5])


def short(value: Any) -> str:
    text = repr(value) if not isinstance(value, list | dict) else kind(value)
    return text if len(text) <= 40 else text[:37] + "…"


def kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), f"`{str(value)[:40]}`")
