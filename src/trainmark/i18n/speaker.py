"""`say`: labels and reasons as text in one language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trainmark.i18n.catalogues import LABELS, REASONS, Field, parts
from trainmark.i18n.texts import Joined, Label, Text
from trainmark.reasons import TEXT, Reason

LANGUAGES = ("en", "zh")
_JOINTS = {"; ": LABELS["join.list"], ": ": LABELS["join.explained"]}


def say(value: Text, language: str = "en") -> str:
    """A label or a reason as text, several of them joined, data as it is."""
    return _said(value, LANGUAGES.index(language))


def _said(value: Any, column: int) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case Label():
            return _label(value, column)
        case Joined():
            joint = _JOINTS[value.joint][column] if value.joint in _JOINTS else value.joint
            return joint.join(_said(part, column) for part in value.parts)
        case Reason():
            return _reason(value, column)
        case {"code": str(code)}:
            # As a file holds it.
            arguments = value.get("arguments")
            return _reason(Reason(code, arguments if isinstance(arguments, dict) else {}), column)
        case list() | tuple():
            return _several(value, column, _JOINTS["; "][column])
        case _:
            return str(value)


def _several(values: Sequence[Any], column: int, joint: str) -> str:
    return joint.join(_said(value, column) for value in values)


def _label(value: Label, column: int) -> str:
    args = [_said(arg, column) for arg in value.args]
    # Not str.format: what is filled in is data, and may hold braces itself.
    return (
        re.sub(r"\{(\d+)\}", lambda found: args[int(found[1])], LABELS[value.key][column])
        if args
        else (LABELS[value.key][column])
    )


def _reason(value: Reason, column: int) -> str:
    if value.code == TEXT:
        return str(value.arguments.get("text", ""))
    if value.code not in REASONS:
        # Of a newer version, or of a plug-in without words.
        told = ", ".join(f"{name}={_said(argument, column)}" for name, argument in value.arguments.items())
        return f"{value.code} ({told})" if told else value.code
    pieces = parts(REASONS[value.code][column])
    return "".join(literal + (_argument(value, field, column) if field else "") for literal, field in pieces)


def _argument(value: Reason, field: Field, column: int) -> str:
    if field.name not in value.arguments:
        return "?"
    found = value.arguments[field.name]
    if isinstance(found, (list, tuple)):
        # Reasons are sentences; anything else is listed.
        sentences = any(isinstance(one, (Reason, dict)) for one in found)
        joint = _JOINTS["; "][column] if sentences else ", "
        return joint.join(_formatted(one, field.spec, column) for one in found)
    return _formatted(found, field.spec, column)


def _formatted(value: Any, spec: str, column: int) -> str:
    if spec:
        try:
            return format(value, spec)
        except (TypeError, ValueError):
            pass
    return _said(value, column)
