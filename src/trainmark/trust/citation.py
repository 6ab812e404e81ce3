"""A result as others cite it, and the packages it was made with as others list them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from trainmark.store.rundir import Manifest


def line(manifest: Manifest, digest: str) -> str:
    """One line for a text: what, where, when, with what, and the digest that identifies it."""
    day = time.strftime("%Y-%m-%d", time.gmtime(manifest.created * 1e-9))
    return (
        f"trainmark {manifest.trainmark}, suite {manifest.plan.suite}, run {manifest.run}, {day}, "
        f"SHA-256 of bundle.json {digest}"
    )


def bibtex(manifest: Manifest, digest: str) -> str:
    year = time.strftime("%Y", time.gmtime(manifest.created * 1e-9))
    key = "".join(letter for letter in manifest.run if letter.isalnum())
    return (
        f"@misc{{trainmark{key},\n"
        f"  title = {{Training performance of suite {_plain(manifest.plan.suite)}, run {_plain(manifest.run)}}},\n"
        f"  year = {{{year}}},\n"
        f"  howpublished = {{trainmark {_plain(manifest.trainmark)} bundle}},\n"
        f"  note = {{SHA-256 of bundle.json: {digest}}}\n"
        f"}}\n"
    )


def _plain(text: str) -> str:
    """Without what BibTeX gives a meaning."""
    return "".join(letter if letter.isalnum() or letter in " .+-:" else " " for letter in text)


def installed(manifests: Sequence[Manifest]) -> list[tuple[str, str]]:
    """Names and versions of the packages of the Pythons that the runs were started from."""
    found = set()
    for manifest in manifests:
        listed = manifest.provenance.get("packages")
        for name, version in listed.items() if isinstance(listed, dict) else ():
            found.add((str(name).lower().replace("_", "-"), str(version)))
    return sorted(found)


def packages(manifests: Sequence[Manifest]) -> dict[str, Any]:
    """CycloneDX. Where the same version is installed in this Python, the digest of its list of files (RECORD)
    identifies it."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [_component(name, version) for name, version in installed(manifests)],
    }


def _component(name: str, version: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
    }
    record = _record(name, version)
    if record:
        made["properties"] = [{"name": "trainmark:record-sha256", "value": record}]
    return made


def _record(name: str, version: str) -> str | None:
    try:
        found = metadata.distribution(name)
        text = found.read_text("RECORD") if found.version == version else None
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return None
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
