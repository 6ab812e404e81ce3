#!/usr/bin/env python3
"""Writes a bill of materials of the installed environment, CycloneDX 1.6 in JSON: packages, licences, locked hashes."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from licences import UNKNOWN, installed

TOP = Path(__file__).resolve().parent.parent


def hashes(lock: Path) -> dict[str, list[str]]:
    """`name==version` → SHA-256 of each of its files."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lock.read_text().splitlines():
        named = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line)
        if named:
            current = found.setdefault(f"{_normal(named[1])}=={named[2]}", [])
        current += re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    return found


def bill() -> dict[str, Any]:
    locked = hashes(TOP / "locks" / "dev.txt")
    version = metadata.version("trainmark")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "trainmark",
                "name": "trainmark",
                "version": version,
                "purl": f"pkg:pypi/trainmark@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(*row, locked) for row in installed()],
    }


def _component(name: str, version: str, licence: str, locked: dict[str, list[str]]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": f"{_normal(name)}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{_normal(name)}@{version}",
    }
    if licence != UNKNOWN:
        made["licenses"] = [{"license": {"name": licence}}]
    files = locked.get(f"{_normal(name)}=={version}")
    if files:
        # Each file of the release has its own: a reader matches the one that was installed.
        references = [{"alg": "SHA-256", "content": digest} for digest in files]
        made["externalReferences"] = [{"type": "distribution", "url": made["purl"], "hashes": references}]
    return made


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "dist" / "sbom.cdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(), indent=1) + "\n")
    sys.stdout.write(f"{target}: {len(bill()['components'])} components\n")
