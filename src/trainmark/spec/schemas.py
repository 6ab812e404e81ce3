"""JSON Schemas of the files that people write, made from the types that read them."""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.spec.command import CommandEntry
from trainmark.spec.site import Site
from trainmark.spec.suite import Suite
from trainmark.spec.suite_cases import Entry
from trainmark.spec.workload import Workload

KINDS: dict[str, type[msgspec.Struct]] = {"suite": Suite, "site": Site, "workload": Workload}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# workload:framework:device:nnodes:nproc:repeat, and parameters.
_CASE = r"^[^:@]+:[^:@]+:[^:@]+:[^:@]+:[^:@]+:[^:@]+(@.*)?$"


def schema(kind: str) -> dict[str, Any]:
    """`kind`: suite, site or workload."""
    made, parts = msgspec.json.schema_components([KINDS[kind], Entry, CommandEntry], ref_template="#/$defs/{name}")
    if kind == "suite":
        parts["Suite"]["properties"]["cases"] = _cases(made[1:])
    if kind == "site":
        named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        parts["Site"]["properties"]["launcher"] = {"anyOf": [{"type": "string"}, named]}
        del parts["Site"]["properties"]["launcher_options"]  # what the launcher's mapping holds beside its name
    own = parts.pop(KINDS[kind].__name__)
    own.update({"$schema": DIALECT, "title": f"trainmark {kind}"})
    # A file without any key is a file with all defaults.
    used = _used(own, parts)
    own["$defs"] = {name: part for name, part in sorted(parts.items()) if name in used}
    return {"$schema": own.pop("$schema"), **own}


def text(kind: str) -> str:
    return msgspec.json.format(msgspec.json.encode(schema(kind)), indent=2).decode() + "\n"


def kind_of(content: Any, name: str) -> str:
    """Which of them a file is: only a suite has cases, and only workloads have their name."""
    if name == "workload.yaml":
        return "workload"
    return "suite" if isinstance(content, dict) and "cases" in content else "site"


def _cases(entries: tuple[dict[str, Any], ...] | list[dict[str, Any]]) -> dict[str, Any]:
    """A list of addresses and mappings, or FlagPerf's mapping of addresses to data."""
    one = {"type": "string", "pattern": _CASE}
    return {
        "anyOf": [
            {"type": "array", "minItems": 1, "items": {"anyOf": [one, *entries]}},
            {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": _CASE},
                "additionalProperties": {"type": ["string", "null"]},
            },
        ]
    }


def _used(part: Any, parts: dict[str, Any]) -> set[str]:
    """Names of the definitions that a part refers to, also over others."""
    found: set[str] = set()
    waiting = [part]
    while waiting:
        match waiting.pop():
            case {"$ref": str(name)}:
                short = name.rpartition("/")[2]
                if short not in found and short in parts:
                    found.add(short)
                    waiting.append(parts[short])
            case dict() as mapping:
                waiting += mapping.values()
            case list() | tuple() as several:
                waiting += several
    return found
