"""Reading YAML files: safe, and a key given twice is an error instead of a silent loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainmark.errors import UserError


def load(path: Path) -> Any:
    """The content of a YAML file, with errors that name the file and the line."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        pass

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool):
                raise UserError(f"{path}: line {key_node.start_mark.line + 1}: a key must be plain text")
            if key in seen:
                raise UserError(f"{path}: line {key_node.start_mark.line + 1}: `{key}` is given twice")
            seen.add(key)
        found: dict[Any, Any] = loader.construct_mapping(node, deep=True)
        return found

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    try:
        return yaml.load(text, Loader)  # noqa: S506 - Loader is a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise UserError(f"{path}:{line} not valid YAML: {problem}") from None
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None
