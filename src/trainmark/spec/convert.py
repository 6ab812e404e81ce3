"""Raw YAML or JSON values → typed records, with errors that name the place and the cure."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of

T = TypeVar("T")

_AT = r" - at `(?P<path>[^`]*)`\Z"
_UNKNOWN = r"Object contains unknown field `(?P<name>.*)`\Z"


def convert(raw: Any, kind: type[T], where: str, path: str = "") -> T:
    """`raw` as a `kind`; `where` is the file, `path` the place in it, e.g. `cases[3]`."""
    if raw is None:
        raw = {}
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        raise UserError(_explain(str(error), raw, kind, where, path)) from None


def _explain(message: str, raw: Any, kind: Any, where: str, path: str) -> str:
    """msgspec's sentence, with our path and, for an unknown key, what is allowed."""
    at = re.search(_AT, message)
    inner = at["path"] if at else "$"
    text = message[: at.start()] if at else message
    place = (path + inner[1:]).lstrip(".")
    head = f"{where}: {place}: " if place else f"{where}: "
    unknown = re.match(_UNKNOWN, text)
    if unknown:
        allowed = _fields_at(kind, inner)
        name = unknown["name"]
        return f"{head}unknown key `{name}`{did_you_mean(name, allowed)}; allowed: {one_of(allowed)}"
    found = _value_at(raw, inner)
    choices = _choices_at(kind, inner) if text.startswith("Invalid enum value") else []
    if choices:
        return f"{head}found {found!r}, allowed: {one_of(choices)}"
    return f"{head}{text[0].lower()}{text[1:]}" + (f"; found {found!r}" if found is not _NOTHING else "")


_NOTHING = object()
_STEP = r"\.([^.\[]+)|\[(\d+|\.\.\.)\]"


def _value_at(raw: Any, inner: str) -> Any:
    for key, index in re.findall(_STEP, inner):
        try:
            raw = raw[key] if key else raw[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return _NOTHING
    return raw if isinstance(raw, str | int | float | bool | None) else _NOTHING


def _fields_at(kind: Any, inner: str) -> list[str]:
    return sorted(getattr(_type_at(kind, inner), "__struct_fields__", ()))


def _choices_at(kind: Any, inner: str) -> list[str]:
    """The values allowed there, where they are listed."""
    import typing

    at = _type_at(kind, inner)
    listed = [part for part in (at, *typing.get_args(at)) if typing.get_origin(part) is typing.Literal]
    return [str(value) for part in listed for value in typing.get_args(part)]


def _type_at(kind: Any, inner: str) -> Any:
    """Walks the type along the path."""
    import typing

    for key, _ in re.findall(_STEP, inner):
        if key and hasattr(kind, "__struct_fields__"):
            kind = typing.get_type_hints(kind).get(key)
        else:
            arguments = typing.get_args(kind)
            kind = arguments[-1] if arguments else kind
        structs = [part for part in typing.get_args(kind) if hasattr(part, "__struct_fields__")]
        kind = structs[0] if structs else kind
    return kind
