"""Reading YAML files: safe, and a key given twice is an error instead of a silent loss."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from trainmark.cache import cache_dir
from trainmark.errors import UserError

# Raised when the meaning of a parsed file changes.
_CACHE_VERSION = b"1"
_MOST_VALUES = 1_000_000


def load(path: Path) -> Any:
    """The content of a YAML file, with errors that name the file and the line."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    # Importing and running a YAML parser costs more than all else a small run does: parse a content only once.
    kept = cache_dir() / "yaml" / hashlib.sha256(_CACHE_VERSION + data).hexdigest()
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(kept.read_bytes())
    content = parse(path, data)
    _keep(kept, content)
    return content


def parse(path: Path, data: bytes) -> Any:
    """The content of YAML that was read from `path`."""
    try:
        content = _parse(path, data)
        if _size(content, {}) > _MOST_VALUES:
            raise UserError(f"{path}: its references (`*name`) make more than {_MOST_VALUES} values")
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None
    return content


def _keep(kept: Path, content: Any) -> None:
    """Remembers a parsed content, if JSON can hold it unchanged (it has no dates, say)."""
    with contextlib.suppress(OSError, TypeError, ValueError):
        encoded = msgspec.json.encode(content)
        if msgspec.json.decode(encoded) != content:
            return
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
        part.write_bytes(encoded)
        part.replace(kept)


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values it holds when every reference is written out, counted without writing them out."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]


def _parse(path: Path, data: bytes) -> Any:
    import yaml

    try:
        return yaml.load(data.decode("utf-8"), _loader(path, yaml))  # noqa: S506 - made from a safe loader
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise UserError(f"{path}:{line} not valid YAML: {problem}") from None


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
    return Loader
