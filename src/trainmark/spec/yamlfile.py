"""YAML files → typed records: safe, with errors that name the file, the line, the key and the cure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec import inputs

T = TypeVar("T")
Key = str | int

_MOST_VALUES = 1_000_000
_MOST_LEVELS = 64
_MOST_BITS = 256  # of a whole number


class Location(msgspec.Struct, frozen=True):
    """A value in a file, as messages show it: `suite.yaml: line 7: cases[3].set`."""

    file: str
    keys: tuple[Key, ...] = ()
    # The line of every value of the file; empty for what no file holds.
    lines: dict[tuple[Key, ...], int] = {}

    def at(self, *keys: Key) -> Location:
        return msgspec.structs.replace(self, keys=(*self.keys, *keys))

    def __str__(self) -> str:
        if not self.keys:
            return self.file
        # A key that is not there, or was read by a shorthand, is shown at the line of what holds it.
        known = next((self.keys[:end] for end in range(len(self.keys), 0, -1) if self.keys[:end] in self.lines), None)
        line = f" line {self.lines[known]}:" if known else ""
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys).lstrip(".")
        return f"{self.file}:{line} {path}"


class Source(msgspec.Struct, frozen=True):
    """The content of a file, and where each of its values stands."""

    content: Any
    where: Location


def load(path: Path) -> Any:
    """The content of a YAML file alone."""
    return read(path).content


def read(path: Path) -> Source:
    """The content of a YAML file. A key given twice is an error instead of a silent loss."""
    return parse(path, inputs.read(path))


def parse(path: Path, data: bytes) -> Source:
    """The content of YAML that was read from `path`."""
    try:
        content, lines = _parse(path, data)
        if _size(content, {}) > _MOST_VALUES:
            raise UserError(f"{path}: its references (`*name`) make more than {_MOST_VALUES} values")
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None
    return Source(content, Location(str(path), lines=lines))


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values it holds when every reference is written out, counted without writing them out."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]


def _parse(path: Path, data: bytes) -> tuple[Any, dict[tuple[Key, ...], int]]:
    import yaml

    try:
        text = data.decode("utf-8")
        _check_depth(path, text, yaml)
        loader = _loader(path, yaml)(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        content = loader.construct_document(node)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise UserError(f"{path}:{line} not valid YAML: {inputs.shown(problem, 200)[1:-1]}") from None
    lines: dict[tuple[Key, ...], int] = {}
    _collect_lines(node, (), lines, set())
    return content, lines


def _check_depth(path: Path, text: str, yaml: Any) -> None:
    """Before anything is built of it: building calls itself for each level, in C, without a limit of its own."""
    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MOST_LEVELS:
                line = event.start_mark.line + 1
                raise UserError(f"{path}: line {line}: nested more than {_MOST_LEVELS} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _collect_lines(node: Any, keys: tuple[Key, ...], lines: dict[tuple[Key, ...], int], seen: set[int]) -> None:
    """The line of every key and item below a node; one that is referred to again counts where it is defined."""
    if id(node) in seen or not isinstance(node.value, list):
        return
    seen.add(id(node))
    for position, part in enumerate(node.value):
        key_node, value = part if isinstance(part, tuple) else (part, part)
        path = (*keys, key_node.value if isinstance(part, tuple) else position)
        if not isinstance(path[-1], str | int):
            continue
        lines[path] = key_node.start_mark.line + 1
        _collect_lines(value, path, lines, seen)


def _loader(path: Path, yaml: Any) -> Any:
    """A safe loader that refuses keys given twice."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        pass

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise UserError(f"{path}: line {line}: the key {key!r} must be text; put it in quotes")
            if key in seen:
                raise UserError(f"{path}: line {line}: `{key}` is given twice")
            seen.add(key)
        found: dict[Any, Any] = loader.construct_mapping(node, deep=True)
        return found

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    for kind in ("bool", "int", "float", "binary", "timestamp"):
        tag = f"tag:yaml.org,2002:{kind}"
        Loader.add_constructor(tag, _careful(path, kind, base.yaml_constructors[tag]))
    return Loader


def _careful(path: Path, kind: str, construct: Any) -> Any:
    """Values that only look like one of their kind (`2001-13-45`, `!!int x`, a number of 5,000 digits) are named."""

    def careful(loader: Any, node: Any) -> Any:
        try:
            found = construct(loader, node)
            if isinstance(found, int) and found.bit_length() > _MOST_BITS:
                raise ValueError
            return found
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError):
            line, text = node.start_mark.line + 1, inputs.shown(node.value)
            raise UserError(f"{path}: line {line}: found {text}, which is no {kind} that can be used") from None

    return careful


_AT = r" - at `(?P<path>[^`]*)`\Z"
_UNKNOWN = r"Object contains unknown field `(?P<name>.*)`\Z"
_STEP = r"\.([^.\[]+)|\[(\d+|\.\.\.)\]"
_NOTHING = object()


def convert(raw: Any, kind: type[T], where: Location | str) -> T:
    """`raw` as a `kind`; `where` is its place in a file."""
    if raw is None:
        raw = {}
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        location = where if isinstance(where, Location) else Location(where)
        raise UserError(_explain(str(error), raw, kind, location)) from None


def _explain(message: str, raw: Any, kind: Any, where: Location) -> str:
    """msgspec's sentence, with our place and, for an unknown key, what is allowed."""
    at = re.search(_AT, message)
    inner = at["path"] if at else "$"
    text = message[: at.start()] if at else message
    steps = [key or (int(index) if index.isdigit() else index) for key, index in re.findall(_STEP, inner)]
    unknown = re.match(_UNKNOWN, text)
    if unknown:
        allowed, name = _fields_at(kind, inner), unknown["name"]
        place = where.at(*steps)
        line = place.at(name)
        shown = str(place) if line.keys not in line.lines else _with_line_of(place, line)
        return f"{shown}: unknown key `{name}`{did_you_mean(name, allowed)}; allowed: {one_of(allowed)}"
    found = _value_at(raw, inner)
    head = where.at(*steps)
    choices = _choices_at(kind, inner) if text.startswith("Invalid enum value") else []
    if choices:
        shown = "something else" if found is _NOTHING else repr(found)
        return f"{head}: found {shown}, allowed: {one_of(choices)}"
    return f"{head}: {text[0].lower()}{text[1:]}" + (f"; found {found!r}" if found is not _NOTHING else "")


def _with_line_of(place: Location, line: Location) -> str:
    """The place of a mapping, at the line of one of its keys."""
    if not place.keys:
        return f"{place.file}: line {line.lines[line.keys]}"
    return str(msgspec.structs.replace(place, lines={place.keys: line.lines[line.keys]}))


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
