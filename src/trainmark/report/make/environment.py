"""A manifest's provenance in groups of name → value, as a reader wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainmark.store.rundir import Manifest

# Long lists that no reader looks at; they stay in the manifest.
_LEFT_OUT = ("host.cpu.flags", "host.cpu.allowed", "host.schema")


def groups(manifest: Manifest) -> dict[str, dict[str, str]]:
    """Unknown values are left out."""
    said = manifest.provenance
    facts = _flat("host", said.get("facts"))
    found = {
        "code": {"trainmark": manifest.trainmark, **_short("git", said.get("git"))},
        "host": {name.removeprefix("host."): value for name, value in facts.items() if not name.startswith(_LEFT_OUT)},
        "python": _texts({"version": said.get("python"), "executable": said.get("executable")}),
        "packages": _texts(said.get("packages")),
        "environment": _texts(said.get("environment")),
    }
    return {name: values for name, values in found.items() if values}


def _short(name: str, value: Any) -> dict[str, str]:
    return {key.removeprefix(name + "."): text for key, text in _flat(name, value).items()}


def _texts(values: Any) -> dict[str, str]:
    found = values if isinstance(values, Mapping) else {}
    return {str(name): str(value) for name, value in found.items() if value is not None}


def _flat(name: str, value: Any) -> dict[str, str]:
    """Nested records by dotted names."""
    if isinstance(value, Mapping):
        return {key: text for inner, part in value.items() for key, text in _flat(f"{name}.{inner}", part).items()}
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return {name: str(value)} if value is not None else {}
